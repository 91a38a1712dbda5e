// The rows of versions that are being restored, or can be read until a time (archive-restores.ts).
import type { Reader, Tx } from '../core/database.ts';
import type { VersionPlace } from './lost-versions.ts';

export interface Restore extends VersionPlace {
  days: number;
  /** How fast it is to be there: `Bulk`, `Standard` or `Expedited`. */
  tier: string;
  /** When something is to be done next: it is to be there, or it ends. Milliseconds. */
  dueMs: number;
  /** Until when it can be read; null: it is on its way. */
  expiresMs: number | null;
}

/** One that waits, and whose bucket it is in; null: there is no such bucket any more. */
export interface WaitingRestore extends Restore {
  tenant: string | null;
}

const columns = `seq, bucket_id AS bucketId, key, days, due_ms AS dueMs,
  expires_ms AS expiresMs, tier`;

export function findRestore(read: Reader, seq: number): Promise<Restore | undefined> {
  return read.get<Restore>(`SELECT ${columns} FROM restores WHERE seq = ?`, seq);
}

/** Those of versions by their numbers. */
export function listRestores(
  read: Reader,
  seqs: readonly number[],
): Promise<Pick<Restore, 'seq' | 'expiresMs'>[]> {
  return read.all<Pick<Restore, 'seq' | 'expiresMs'>>(
    `SELECT seq, expires_ms AS expiresMs FROM json_each(?) CROSS JOIN restores ON seq = value`,
    JSON.stringify(seqs),
  );
}

export function isReadable(restore: Restore | undefined, timeMs: number): boolean {
  return restore !== undefined && restore.expiresMs !== null && restore.expiresMs > timeMs;
}

/** Counted up to here: beyond it the number says only that there are more. */
const countedMax = 10_000;

export async function countRestores(read: Reader): Promise<{ running: number; readable: number }> {
  const count = async (condition: string): Promise<number> => {
    const sql = `SELECT count(*) AS count FROM (SELECT 1 FROM restores WHERE ${condition} LIMIT ?)`;
    return (await read.get<{ count: number }>(sql, countedMax))?.count ?? 0;
  };
  return {
    running: await count('expires_ms IS NULL'),
    readable: await count('expires_ms IS NOT NULL'),
  };
}

/** Those that end by then. */
export function listEndingRestores(read: Reader, dueMs: number, max: number): Promise<Restore[]> {
  return read.all<Restore>(
    `SELECT ${columns} FROM restores WHERE due_ms <= ? AND expires_ms IS NOT NULL
       ORDER BY due_ms LIMIT ?`,
    ...[dueMs, max],
  );
}

/**
 * Those that are to be there by then: of each bucket up to `max`, those that wait longest. Buckets
 * are found one after the other in the index, so that it reads no more rows than it gives.
 */
export function listWaitingRestores(
  read: Reader,
  dueMs: number,
  max: number,
): Promise<WaitingRestore[]> {
  return read.all<WaitingRestore>(
    `WITH RECURSIVE b (id) AS (
       SELECT min(bucket_id) FROM restores WHERE expires_ms IS NULL
       UNION ALL
       SELECT (SELECT min(bucket_id) FROM restores
           WHERE expires_ms IS NULL AND bucket_id > b.id) FROM b WHERE id IS NOT NULL)
     SELECT r.seq, r.bucket_id AS bucketId, r.key, r.days, r.due_ms AS dueMs,
         r.expires_ms AS expiresMs, r.tier, tenant
       FROM b CROSS JOIN restores AS r ON r.seq IN (
           SELECT seq FROM restores WHERE bucket_id = b.id AND expires_ms IS NULL AND due_ms <= ?
             ORDER BY due_ms LIMIT ?)
         LEFT JOIN buckets ON buckets.id = r.bucket_id
       ORDER BY r.due_ms`,
    ...[dueMs, max],
  );
}

/** It is looked at again then; until when it can be read stays as it is. */
export async function deferRestore(tx: Tx, seq: number, dueMs: number): Promise<number> {
  return (await tx.run('UPDATE restores SET due_ms = ? WHERE seq = ?', dueMs, seq)).changes;
}

/** Of a version that is not there any more. */
export async function forgetRestore(tx: Tx, seq: number): Promise<number> {
  return (await tx.run('DELETE FROM restores WHERE seq = ?', seq)).changes;
}

/** What was restored is so under its new key, too; a version that stays keeps its own. */
export async function renameRestore(
  tx: Tx,
  from: Pick<VersionPlace, 'seq'>,
  to: Pick<VersionPlace, 'key' | 'seq'>,
): Promise<void> {
  await tx.run(
    `INSERT OR REPLACE INTO restores SELECT ?, bucket_id, ?, days, due_ms, expires_ms, tier
       FROM restores WHERE seq = ?`,
    ...[to.seq, to.key, from.seq],
  );
}
