// Snapshots of buckets. A snapshot is a row: what was in the bucket when its record was made is
// found by the numbers of versions (held-versions.ts), so that making one takes the same time
// whatever the bucket holds. Invariants: a living snapshot holds what it shows; one that is deleted
// is dying until all that it alone held has been let go of; and a locked one lives until it
// expires.
import type { Reader, Tx } from '../core/database.ts';
import { snapshotsPerBucketMax } from '../core/limits.ts';
import { getBucket } from './buckets.ts';
import { heldSums } from './held-totals.ts';
import { noteSnapshot } from './outbox.ts';
import { type Moment, type Outcome, refused, unchanged } from './outcome.ts';

/** `governance`: an administrator may delete it before it expires; `compliance`: nobody may. */
export const snapshotLocks = ['governance', 'compliance'] as const;
export type SnapshotLock = (typeof snapshotLocks)[number];

export interface Snapshot {
  bucketId: number;
  /** The log index of its record. */
  seq: number;
  name: string;
  /** Of the keys that it is of; empty: of all. */
  prefix: string;
  createdMs: number;
  /** null: it does not expire. */
  expiresMs: number | null;
  /** Until it expires; null: it has none. */
  lock: SnapshotLock | null;
}

const columns = `bucket_id AS bucketId, seq, name, prefix, created_ms AS createdMs,
  expires_ms AS expiresMs, lock`;

export async function findSnapshot(
  read: Reader,
  bucketId: number,
  name: string,
): Promise<Snapshot | undefined> {
  const sql = `SELECT ${columns} FROM snapshots
    WHERE bucket_id = ? AND name = ? AND state = 'living'`;
  return read.get<Snapshot>(sql, bucketId, name);
}

/** The same by the index of its record. */
export async function findSnapshotAt(
  read: Reader,
  bucketId: number,
  seq: number,
): Promise<Snapshot | undefined> {
  const sql = `SELECT ${columns} FROM snapshots
    WHERE bucket_id = ? AND seq = ? AND state = 'living'`;
  return read.get<Snapshot>(sql, bucketId, seq);
}

/** All of a bucket that live, in the order in which they were made. */
export async function listLiving(read: Reader, bucketId: number): Promise<Snapshot[]> {
  const sql = `SELECT ${columns} FROM snapshots
    WHERE bucket_id = ? AND state = 'living' ORDER BY seq`;
  return read.all<Snapshot>(sql, bucketId);
}

/** With what it holds: what would be let go of, or go to an older one, if it were deleted. */
export type ListedSnapshot = Snapshot & { heldVersions: number; heldBytes: number };

/** The same with what it holds. */
export async function showSnapshot(
  read: Reader,
  bucketId: number,
  name: string,
): Promise<ListedSnapshot | undefined> {
  return read.get<ListedSnapshot>(
    `SELECT ${columns}, ${heldOf('versions')} AS heldVersions, ${heldOf('bytes')} AS heldBytes
       FROM snapshots AS s WHERE bucket_id = ? AND name = ? AND state = 'living'`,
    ...[bucketId, name],
  );
}

/**
 * Those of a bucket that live, in order of name, after `after`; of which all keys begin with
 * `prefix`.
 */
export async function listSnapshots(
  read: Reader,
  wanted: { bucketId: number; prefix?: string; after: string; max: number },
): Promise<ListedSnapshot[]> {
  const { bucketId, prefix = '', after, max } = wanted;
  return read.all<ListedSnapshot>(
    `SELECT ${columns}, ${heldOf('versions')} AS heldVersions, ${heldOf('bytes')} AS heldBytes
       FROM snapshots AS s WHERE bucket_id = ? AND name > ? AND state = 'living'
         AND substr(prefix, 1, length(?)) = ?
       ORDER BY name LIMIT ?`,
    ...[bucketId, after, prefix, prefix, max],
  );
}

function heldOf(column: string): string {
  return `ifnull((SELECT ${column} FROM ${heldSums} AS t
    WHERE t.bucket_id = s.bucket_id AND t.holder = s.seq), 0)`;
}

export interface CreateSnapshot {
  kind: 'createSnapshot';
  bucketId: number;
  name: string;
  prefix: string;
  expiresMs: number | null;
  lock: SnapshotLock | null;
}

/** Refuses AlreadyExists where the bucket has a living one of the name. */
export async function createSnapshot(
  tx: Tx,
  { bucketId, name, prefix, expiresMs, lock }: CreateSnapshot,
  { seq, timeMs }: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  const bucket = await getBucket(tx, bucketId);
  if (!bucket) return refused('NoSuchBucket');
  if (await findSnapshot(tx, bucketId, name)) return refused('AlreadyExists');
  const sql = 'SELECT count(*) AS n FROM snapshots WHERE bucket_id = ?';
  const count = (await tx.get<{ n: number }>(sql, bucketId))?.n ?? 0;
  if (count >= snapshotsPerBucketMax) return refused('TooManySnapshots');
  await tx.run(
    "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'living')",
    ...[bucketId, seq, bucket.tenant, bucket.name, name, prefix, timeMs, expiresMs, lock],
  );
  await noteSnapshot(tx, { store: bucket.store, bucketId, snapshot: seq }, { seq, timeMs });
  return unchanged;
}

export interface RestoreSnapshot extends Omit<CreateSnapshot, 'kind'> {
  kind: 'restoreSnapshot';
  createdMs: number;
}

/** Puts back what a journal tells: of what there is when this is done. Refuses AlreadyExists. */
export async function restoreSnapshot(
  tx: Tx,
  { bucketId, name, prefix, expiresMs, lock, createdMs }: RestoreSnapshot,
  { seq }: Pick<Moment, 'seq'>,
): Promise<Outcome<null>> {
  const bucket = await getBucket(tx, bucketId);
  if (!bucket) return refused('NoSuchBucket');
  if (await findSnapshot(tx, bucketId, name)) return refused('AlreadyExists');
  await tx.run(
    "INSERT INTO snapshots VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'living')",
    ...[bucketId, seq, bucket.tenant, bucket.name, name, prefix, createdMs, expiresMs, lock],
  );
  return unchanged;
}

export interface DeleteSnapshot {
  kind: 'deleteSnapshot';
  bucketId: number;
  name: string;
  /** Asked for, and allowed: a lock of governance does not hold it. */
  bypassGovernance?: boolean | undefined;
  /** It is to be deleted if it is the one of this number; absent: whichever has the name. */
  seq?: number | undefined;
  /** It is to be deleted if it is the one of this number, and has expired. */
  expiredSeq?: number | undefined;
}

/** From this moment on it is not there; what it held is let go of afterwards. */
export async function deleteSnapshot(
  tx: Tx,
  { bucketId, name, bypassGovernance = false, seq: wanted, expiredSeq }: DeleteSnapshot,
  moment: Pick<Moment, 'seq' | 'timeMs' | 'clockMs'>,
): Promise<Outcome<null>> {
  const { timeMs, clockMs } = moment;
  const bucket = await getBucket(tx, bucketId);
  const found = await findSnapshot(tx, bucketId, name);
  if (!bucket || !found) return refused('NoSuchSnapshot');
  const { lock, expiresMs, seq } = found;
  if (wanted !== undefined && wanted !== seq) return refused('NoSuchSnapshot');
  // Records that are in the future end no lock.
  const isOver = expiresMs !== null && expiresMs <= (clockMs ?? timeMs);
  if (expiredSeq !== undefined && !(seq === expiredSeq && isOver)) return refused('NoSuchSnapshot');
  if (lock && !isOver && !(lock === 'governance' && bypassGovernance)) {
    return refused('SnapshotLocked');
  }
  const held = 'SELECT 1 FROM held_versions WHERE bucket_id = ? AND holder = ? LIMIT 1';
  const holds = await tx.get(held, bucketId, seq);
  if (!holds)
    await tx.run('DELETE FROM held_totals WHERE bucket_id = ? AND holder = ?', bucketId, seq);
  await tx.run(
    holds
      ? "UPDATE snapshots SET state = 'dying', expires_ms = NULL WHERE bucket_id = ? AND seq = ?"
      : 'DELETE FROM snapshots WHERE bucket_id = ? AND seq = ?',
    bucketId,
    seq,
  );
  await noteSnapshot(tx, { store: bucket.store, bucketId, snapshot: seq }, moment);
  return unchanged;
}
