// Versions in classes that are read after a restore (`access: restore`): which of them are being
// restored, and which can be read, until when. Invariant: the rows only say when bytes are given
// out that are verified as any; whoever writes one has a version read early, or later.
import type { Reader, Tx } from '../core/database.ts';
import { endOfDay } from './lifecycle.ts';
import type { VersionPlace } from './lost-versions.ts';
import { type Moment, noStorage, type Outcome, refused } from './outcome.ts';
import { namedIn, openBucket } from './version-places.ts';
import { readNumbered } from './versions.ts';

export interface Restore extends VersionPlace {
  days: number;
  /** When something is to be done next: it is to be there, or it ends. Milliseconds. */
  dueMs: number;
  /** Until when it can be read; null: it is on its way. */
  expiresMs: number | null;
}

/** Asks for a version; of one that can be read already, how long it can be is set anew. */
export interface BeginRestore extends VersionPlace {
  kind: 'beginRestore';
  days: number;
  /** How long it takes, and how long a day lasts. Milliseconds. */
  delayMs: number;
  dayMs: number;
}

/** It can be read from now on. */
export interface FinishRestore extends VersionPlace {
  kind: 'finishRestore';
  dayMs: number;
}

/** It cannot any more. */
export interface EndRestore extends VersionPlace {
  kind: 'endRestore';
}

const columns = `seq, bucket_id AS bucketId, key, days, due_ms AS dueMs,
  expires_ms AS expiresMs`;

export function findRestore(read: Reader, seq: number): Promise<Restore | undefined> {
  return read.get<Restore>(`SELECT ${columns} FROM restores WHERE seq = ?`, seq);
}

export function isReadable(restore: Restore | undefined, timeMs: number): boolean {
  return restore !== undefined && restore.expiresMs !== null && restore.expiresMs > timeMs;
}

/** Those for which something is to be done by then. */
export function listDueRestores(read: Reader, dueMs: number, max: number): Promise<Restore[]> {
  return read.all<Restore>(
    `SELECT ${columns} FROM restores WHERE due_ms <= ? ORDER BY due_ms LIMIT ?`,
    ...[dueMs, max],
  );
}

export async function beginRestore(
  tx: Tx,
  { bucketId, key, seq, days, delayMs, dayMs }: BeginRestore,
  moment: Moment,
): Promise<Outcome<null>> {
  const { timeMs } = moment;
  const before = await findRestore(tx, seq);
  if (before && before.expiresMs === null) return refused('RestoreAlreadyInProgress');
  const isThere = isReadable(before, timeMs);
  const expiresMs = isThere ? endOfDay(timeMs, days, dayMs) : null;
  await tx.run(
    'INSERT OR REPLACE INTO restores VALUES (?, ?, ?, ?, ?, ?)',
    ...[seq, bucketId, key, days, expiresMs ?? timeMs + delayMs, expiresMs],
  );
  return outcomeOf(tx, { bucketId, key, seq });
}

/** SlowDown, of which there is no record: nothing is on its way. */
export async function finishRestore(
  tx: Tx,
  { seq, dayMs }: FinishRestore,
  { timeMs }: Moment,
): Promise<Outcome<null>> {
  const found = await findRestore(tx, seq);
  if (!found || found.expiresMs !== null) return refused('SlowDown');
  const expiresMs = endOfDay(timeMs, found.days, dayMs);
  const sql = 'UPDATE restores SET due_ms = ?, expires_ms = ? WHERE seq = ?';
  await tx.run(sql, expiresMs, expiresMs, seq);
  return outcomeOf(tx, found);
}

/** SlowDown, of which there is no record: it goes on, or has ended. */
export async function endRestore(
  tx: Tx,
  { seq }: EndRestore,
  { timeMs }: Moment,
): Promise<Outcome<null>> {
  const found = await findRestore(tx, seq);
  if (!found || found.expiresMs === null || found.expiresMs > timeMs) return refused('SlowDown');
  await tx.run('DELETE FROM restores WHERE seq = ?', seq);
  return outcomeOf(tx, found);
}

async function outcomeOf(tx: Tx, { bucketId, key, seq }: VersionPlace): Promise<Outcome<null>> {
  const bucket = await openBucket(tx, bucketId);
  const version = await readNumbered(tx, bucketId, { key, seq });
  const named = version && { versionId: version.versionId, isMarker: false };
  const storage = { ...noStorage, ...(bucket && named && namedIn(bucket, named)) };
  return { ok: true, storage, result: null };
}

/** What is on its way is looked at again then. */
export async function deferRestore(tx: Tx, seq: number, dueMs: number): Promise<number> {
  const sql = 'UPDATE restores SET due_ms = ? WHERE seq = ? AND expires_ms IS NULL';
  return (await tx.run(sql, dueMs, seq)).changes;
}

/** Of a version that is not there any more. */
export async function forgetRestore(tx: Tx, seq: number): Promise<number> {
  return (await tx.run('DELETE FROM restores WHERE seq = ?', seq)).changes;
}

/** What was restored is so under its new key, too. */
export async function renameRestore(
  tx: Tx,
  from: Pick<VersionPlace, 'seq'>,
  to: Pick<VersionPlace, 'key' | 'seq'>,
): Promise<void> {
  const sql = 'UPDATE restores SET seq = ?, key = ? WHERE seq = ?';
  await tx.run(sql, to.seq, to.key, from.seq);
}
