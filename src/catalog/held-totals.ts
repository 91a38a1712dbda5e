// How much snapshots and undelete windows hold: sums over `held_versions`, by bucket and holder.
// A version that comes to be held writes no sum, since that would be one more page of each
// overwrite: a row of sums says up to when it has counted (`counted_ms`; null: all there is), and
// who reads it adds the few that ended since. Invariant: whatever moves a held row, or takes it
// away, changes its sum with it, if it is counted there.
import type { Reader, Tx } from '../core/database.ts';
import type { HeldVersion } from './held-versions.ts';
import type { Moment } from './outcome.ts';
import { countedBytes } from './versions.ts';

/** What a held version counts for; an image shares what the version itself keeps. */
export function heldBytesOf(
  { isImage, isMarker, sizeBytes }: Pick<HeldVersion, 'isImage' | 'isMarker' | 'sizeBytes'>,
  heldMac: Uint8Array | null,
): number {
  return isImage || isMarker || !heldMac ? 0 : countedBytes(sizeBytes);
}

/** The same of a row, for sums. */
export const heldBytesSql = 'iif(is_image OR is_marker OR held_mac IS NULL, 0, size)';

const ofUncounted = (sum: string) =>
  `iif(counted_ms IS NULL, 0, (SELECT ${sum} FROM held_versions AS h
     WHERE h.bucket_id = sums.bucket_id AND h.holder = sums.holder
       AND h.ended_ms >= sums.counted_ms))`;

/** A table of all sums as they are now: bucket_id, holder, versions, bytes. */
export const heldSums = `(SELECT bucket_id, holder,
  versions + ${ofUncounted('count(*)')} AS versions,
  bytes + ${ofUncounted(`ifnull(sum(${heldBytesSql}), 0)`)} AS bytes FROM held_totals AS sums)`;

/** Whose sum it is. */
export interface Holding {
  bucketId: number;
  /** `seq` of a snapshot, or `heldByWindow`. */
  holder: number;
}

/** How many records pass, at most, until those that were held since are counted. */
const countedEach = 64;

/** Notes that a version was held, which ended at this moment. */
export async function noteHeld(
  tx: Tx,
  holding: Holding,
  { seq, timeMs }: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<void> {
  const { bucketId, holder } = holding;
  await tx.run(
    `INSERT INTO held_totals VALUES (?, ?, 0, 0, ?) ON CONFLICT (bucket_id, holder)
       DO UPDATE SET counted_ms = excluded.counted_ms WHERE counted_ms IS NULL`,
    ...[bucketId, holder, timeMs],
  );
  if (seq % countedEach === 0) await countHeld(tx, holding, timeMs);
}

/** Counts all that ended before this moment. */
async function countHeld(tx: Tx, { bucketId, holder }: Holding, timeMs: number): Promise<void> {
  await tx.run(
    `UPDATE held_totals AS t SET (versions, bytes, counted_ms) = (
         SELECT t.versions + count(*), t.bytes + ifnull(sum(${heldBytesSql}), 0), ?
           FROM held_versions AS h WHERE h.bucket_id = t.bucket_id AND h.holder = t.holder
             AND h.ended_ms >= t.counted_ms AND h.ended_ms < ?)
       WHERE bucket_id = ? AND holder = ? AND counted_ms < ?`,
    ...[timeMs, timeMs, bucketId, holder, timeMs],
  );
}

/**
 * Counts what one holder has, unless something of it ended at this very moment. Gives whether all
 * is counted.
 */
export async function countAll(tx: Tx, holding: Holding, timeMs: number): Promise<boolean> {
  await countHeld(tx, holding, timeMs);
  const { bucketId, holder } = holding;
  const { changes } = await tx.run(
    `UPDATE held_totals AS t SET counted_ms = NULL WHERE bucket_id = ? AND holder = ?
       AND counted_ms IS NOT NULL AND NOT EXISTS (SELECT 1 FROM held_versions AS h
         WHERE h.bucket_id = t.bucket_id AND h.holder = t.holder AND h.ended_ms >= t.counted_ms)`,
    ...[bucketId, holder],
  );
  return changes > 0;
}

/** Those whose sum does not have all that they hold. */
export async function listUncounted(read: Reader): Promise<Holding[]> {
  return read.all<Holding>(
    'SELECT bucket_id AS bucketId, holder FROM held_totals WHERE counted_ms IS NOT NULL',
  );
}

type CountedRow = Pick<HeldVersion, 'endedMs' | 'isImage' | 'isMarker' | 'sizeBytes' | 'heldMac'>;

/** Takes held rows off the sum of who held them. */
export async function takeFromSum(
  tx: Tx,
  holding: Holding,
  rows: readonly CountedRow[],
): Promise<void> {
  await changeSum(tx, holding, rows, -1);
}

/** Adds held rows, which ended before now, to the sum of who holds them from now on. */
export async function addToSum(
  tx: Tx,
  holding: Holding,
  rows: readonly CountedRow[],
): Promise<void> {
  const { bucketId, holder } = holding;
  const sql = 'INSERT OR IGNORE INTO held_totals VALUES (?, ?, 0, 0, NULL)';
  await tx.run(sql, bucketId, holder);
  await changeSum(tx, holding, rows, 1);
}

async function changeSum(
  tx: Tx,
  { bucketId, holder }: Holding,
  rows: readonly CountedRow[],
  sign: 1 | -1,
): Promise<void> {
  const sum = await tx.get<{ countedMs: number | null }>(
    'SELECT counted_ms AS countedMs FROM held_totals WHERE bucket_id = ? AND holder = ?',
    ...[bucketId, holder],
  );
  const countedMs = sum?.countedMs ?? Number.POSITIVE_INFINITY;
  const counted = rows.filter(({ endedMs }) => endedMs < countedMs);
  if (counted.length === 0) return;
  const bytes = counted.reduce((all, row) => all + heldBytesOf(row, row.heldMac), 0);
  await tx.run(
    `UPDATE held_totals SET versions = versions + ?, bytes = bytes + ?
       WHERE bucket_id = ? AND holder = ?`,
    ...[sign * counted.length, sign * bytes, bucketId, holder],
  );
}

/** What the versions that snapshots of a bucket hold count for. */
export async function readHeldTotal(
  read: Reader,
  bucketId: number,
): Promise<{ versions: number; bytes: number }> {
  const sql = `SELECT ifnull(sum(versions), 0) AS versions, ifnull(sum(bytes), 0) AS bytes
    FROM ${heldSums} WHERE bucket_id = ?`;
  return (await read.get(sql, bucketId)) ?? { versions: 0, bytes: 0 };
}

/** The same of those that living snapshots hold of which all keys begin with `prefix`. */
export async function readHeldBelow(
  read: Reader,
  bucketId: number,
  prefix: string,
): Promise<{ versions: number; bytes: number }> {
  const sql = `SELECT ifnull(sum(t.versions), 0) AS versions, ifnull(sum(t.bytes), 0) AS bytes
    FROM snapshots AS s JOIN ${heldSums} AS t ON t.bucket_id = s.bucket_id AND t.holder = s.seq
    WHERE s.bucket_id = ? AND s.state = 'living' AND substr(s.prefix, 1, length(?)) = ?`;
  return (await read.get(sql, bucketId, prefix, prefix)) ?? { versions: 0, bytes: 0 };
}

/** The same of those that one snapshot holds, or the undelete window. */
export async function readHeldBy(
  read: Reader,
  bucketId: number,
  holder: number,
): Promise<{ versions: number; bytes: number }> {
  const sql = `SELECT versions, bytes FROM ${heldSums} WHERE bucket_id = ? AND holder = ?`;
  return (await read.get(sql, bucketId, holder)) ?? { versions: 0, bytes: 0 };
}

/** What snapshots and undelete windows hold for whom. */
export interface HeldShare {
  tenant: string;
  bucket: string;
  owner: string;
  bytes: number;
}

/** Of each bucket for which something is held; of one tenant, or of all. */
export async function listHeldShares(read: Reader, tenant: string | null): Promise<HeldShare[]> {
  return read.all<HeldShare>(
    // Few buckets hold anything: those are looked for that do.
    `SELECT b.tenant, b.name AS bucket, b.owner, sum(t.bytes) AS bytes
       FROM ${heldSums} AS t CROSS JOIN main.buckets AS b ON b.id = t.bucket_id
       WHERE ? IS NULL OR b.tenant = ? GROUP BY t.bucket_id`,
    ...[tenant, tenant],
  );
}
