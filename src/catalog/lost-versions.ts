// Versions that are lost: a read found that no store has all of their bytes any more, and their
// class says that this may be. Invariants: a version is lost from the very commit that records it,
// and nothing is charged from then on for what is not stored; and what comes back, as a store that
// was restored may have it, is not lost any more, and charged for again. The rows only say what to
// look at: whoever writes some has objects refused until the next look at their bytes.
import type { Reader, Tx } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import { billedBytes } from './billed-bytes.ts';
import { type Bucket, getBucket } from './buckets.ts';
import { readClassTerms } from './class-terms.ts';
import { findHeld } from './held-rows.ts';
import { type Moment, noStorage, type Outcome, refused } from './outcome.ts';
import { countedBytes, findVersion, type Version } from './versions.ts';
import { addJob, dropJob, renameJob } from './work.ts';

/** Names a version wherever its row is. */
export interface VersionPlace {
  bucketId: number;
  key: string;
  seq: number;
}

/** A version is lost, or is not any more. */
export interface LoseVersion extends VersionPlace {
  kind: 'loseVersion' | 'recoverVersion';
}

/** Whether a version is lost. */
export async function isLost(read: Reader, seq: number): Promise<boolean> {
  return (await read.get('SELECT 1 FROM lost_versions WHERE seq = ?', seq)) !== undefined;
}

/** SlowDown, of which there is no record: it is so already, or may not be. */
export async function loseVersion(
  tx: Tx,
  change: LoseVersion,
  moment: Moment,
): Promise<Outcome<null>> {
  const isLosing = change.kind === 'loseVersion';
  if ((await isLost(tx, change.seq)) === isLosing) return refused('SlowDown');
  const bucket = await getBucket(tx, change.bucketId);
  const version = bucket && (await findAnywhere(tx, bucket, change, moment));
  if (!bucket || !version || version.isMarker) return refused('SlowDown');
  const { tenant, versioning } = bucket;
  const { class: storageClass, versionId } = version;
  const rule = isLosing ? (await readClassTerms(tx, tenant, storageClass)).loss : null;
  if (isLosing && !mayLose(rule)) return refused('SlowDown');
  const after = isLosing ? 0 : await billedBytes(tx, tenant, version, moment.terms);
  const before = await rebill(tx, change, after);
  if (isLosing) await enter(tx, change, moment.timeMs);
  else await forgetLoss(tx, change.seq);
  if (rule === 'recipe') await addJob(tx, change, moment.timeMs);
  const billed = [{ class: storageClass, bytes: after - before }];
  const named = versioning === 'Unversioned' ? {} : { named: { versionId, isMarker: false } };
  return { ok: true, storage: { ...noStorage, billed, ...named }, result: null };
}

/** Whether objects of a class may be lost, by what it says of that. */
export function mayLose(rule: string | null | undefined): boolean {
  return rule === 'report' || rule === 'recipe';
}

/** Undefined: it is not there any more, or not what was written. */
async function findAnywhere(
  tx: Tx,
  bucket: Bucket,
  place: VersionPlace,
  { keyring }: Moment,
): Promise<Version | undefined> {
  const catalog = { read: tx, keyring };
  try {
    return (await findVersion(catalog, bucket, place)) ?? (await findHeld(catalog, bucket, place));
  } catch (error) {
    if (error instanceof IntegrityError) return undefined;
    throw error;
  }
}

const rows = ['versions', 'noncurrent_versions', 'held_versions'] as const;

/** Has a version charged for as so many bytes; gives as how many it was. */
async function rebill(
  tx: Tx,
  { bucketId, key, seq }: VersionPlace,
  billedBytes: number,
): Promise<number> {
  const at = 'WHERE bucket_id = ? AND key = ? AND seq = ?';
  for (const table of rows) {
    const own = table === 'held_versions' ? `${at} AND NOT is_image` : at;
    const sql = `SELECT billed AS bytes FROM ${table} ${own}`;
    const row = await tx.get<{ bytes: number }>(sql, bucketId, key, seq);
    if (!row) continue;
    const update = `UPDATE ${table} SET billed = ? ${own}`;
    await tx.run(update, BigInt(billedBytes), bucketId, key, seq);
    return countedBytes(row.bytes);
  }
  return 0;
}

function enter(tx: Tx, { bucketId, key, seq }: VersionPlace, timeMs: number): Promise<unknown> {
  const sql = 'INSERT INTO lost_versions VALUES (?, ?, ?, ?, ?, 0)';
  return tx.run(sql, seq, bucketId, key, timeMs, timeMs);
}

/** What is lost is so under its new key, too. */
export async function renameLost(
  tx: Tx,
  from: Pick<VersionPlace, 'seq'>,
  to: Pick<VersionPlace, 'key' | 'seq'>,
): Promise<void> {
  await tx.run(
    `INSERT OR REPLACE INTO lost_versions SELECT ?, bucket_id, ?, lost_ms, due_ms, tries
       FROM lost_versions WHERE seq = ?`,
    ...[to.seq, to.key, from.seq],
  );
  await renameJob(tx, from, to);
}

/** Of a version that is whole again, or gone. */
export async function forgetLoss(tx: Tx, seq: number): Promise<number> {
  await dropJob(tx, seq);
  return (await tx.run('DELETE FROM lost_versions WHERE seq = ?', seq)).changes;
}

/** A lost version whose bytes are to be looked at again. */
export interface LostVersion extends VersionPlace {
  lostMs: number;
  tries: number;
}

const columns = 'seq, bucket_id AS bucketId, key, lost_ms AS lostMs, tries';

/** Those that are to be looked at by now, those that wait longest first. */
export function listDueLosses(read: Reader, dueMs: number, max: number): Promise<LostVersion[]> {
  return read.all<LostVersion>(
    `SELECT ${columns} FROM lost_versions WHERE due_ms <= ? ORDER BY due_ms LIMIT ?`,
    ...[dueMs, max],
  );
}

/** Counted up to here: beyond it the number says only that there are more. */
const countedMax = 10_000;

export async function countLost(read: Reader): Promise<number> {
  const sql = 'SELECT count(*) AS count FROM (SELECT 1 FROM lost_versions LIMIT ?)';
  return (await read.get<{ count: number }>(sql, countedMax))?.count ?? 0;
}

/** They are still lost, and are looked at again at that time. */
export async function deferLosses(
  tx: Tx,
  losses: readonly { seq: number; dueMs: number }[],
): Promise<number> {
  const sql = 'UPDATE lost_versions SET due_ms = ?, tries = tries + 1 WHERE seq = ?';
  let count = 0;
  for (const { seq, dueMs } of losses) count += (await tx.run(sql, dueMs, seq)).changes;
  return count;
}

/** Up to `max` that were to be looked at later are looked at at once. */
export async function hastenLosses(tx: Tx, timeMs: number, max: number): Promise<number> {
  const sql = `UPDATE lost_versions SET due_ms = ?, tries = 0 WHERE seq IN (
    SELECT seq FROM lost_versions WHERE due_ms > ? LIMIT ?)`;
  return (await tx.run(sql, timeMs, timeMs, max)).changes;
}

/** Of versions that are not there any more. */
export async function forgetLosses(tx: Tx, seqs: readonly number[]): Promise<number> {
  let count = 0;
  for (const seq of seqs) {
    count += await forgetLoss(tx, seq);
  }
  return count;
}
