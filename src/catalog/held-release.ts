// Letting go of what a dying snapshot alone has held, of what an undelete window has passed, and of
// all that a bucket's snapshots held when it goes. Invariants: what an older snapshot has goes to
// that one; and nothing of a row that is not authentic is let go of.
import type { Reader, Tx } from '../core/database.ts';
import type { Keyring } from '../core/keyring.ts';
import { type BucketName, isAuthentic, verifyVersion } from './authentic.ts';
import { addToSum, heldBytesOf, takeFromSum } from './held-totals.ts';
import { findCovering, type HeldVersion, heldColumns } from './held-versions.ts';
import { dropManifest, longManifestOf, type NamedManifest } from './long-manifests.ts';
import type { BilledDelta, EndedObject, Moment, StorageDelta } from './outcome.ts';
import { heldByWindow } from './undelete-window.ts';
import { classedSinceMs, countedBytes, wholeColumns } from './versions.ts';

/** A held row, whole. */
export type HeldRow = HeldVersion & NamedManifest & { billedBytes: number };

const heldRowColumns = `${heldColumns}, ${wholeColumns}, ${longManifestOf('v')},
  billed AS billedBytes`;
const heldRowsSql = `SELECT ${heldRowColumns}
  FROM held_versions AS v WHERE bucket_id = ? AND holder = ? AND ended_ms <= ?
    ORDER BY ended_ms LIMIT ?`;

/**
 * Up to `max` of those of a key, or of all keys from it on and below `below`; null: of all behind
 * it. The oldest version of a key comes first, and its images last: as long as a later version is
 * there, no snapshot shows an older one, or other tags, in its place.
 */
export async function readHeldOf(
  read: Reader,
  wanted: {
    bucketId: number;
    from: string;
    below: string | null;
    isPrefix: boolean;
    max: number;
  },
): Promise<(HeldRow & { holder: number })[]> {
  const { bucketId, from, below, isPrefix, max } = wanted;
  const condition = isPrefix ? 'key >= ? AND (? IS NULL OR key < ?)' : 'key = ?';
  return read.all<HeldRow & { holder: number }>(
    `SELECT ${heldRowColumns}, holder FROM held_versions AS v
       WHERE bucket_id = ? AND ${condition}
       ORDER BY key DESC, seq, ended_seq DESC LIMIT ?`,
    ...[bucketId, from, ...(isPrefix ? [below, below] : []), max],
  );
}

/** Some 1,000 runs: a few milliseconds in which nobody else can commit. */
const releasedManifestBytesMax = 36 * 1024;

/** The first of these rows, as many as one transaction lets go of. */
export function releasableAtOnce<R extends HeldRow>(rows: readonly R[]): R[] {
  let manifestBytes = 0;
  const end = rows.findIndex(({ manifest }) => {
    manifestBytes += manifest.length;
    return manifestBytes > releasedManifestBytesMax;
  });
  return end < 0 ? [...rows] : rows.slice(0, end + 1);
}

/**
 * Takes up to `max` versions from a dying snapshot, or those that ended up to `untilMs` from an
 * undelete window: what an older snapshot has goes to that one; all others are given, for
 * `releaseHeld` to end. Empty, with nothing moved: it holds none of them any more.
 */
export async function takeHeld(
  tx: Tx,
  { bucket, holder, max, untilMs = everMs }: Taking,
  keyring: Keyring,
): Promise<{ released: HeldRow[]; moved: number }> {
  const released: HeldRow[] = [];
  let moved = 0;
  let manifestBytes = 0;
  for (const row of await tx.all<HeldRow>(heldRowsSql, bucket.id, holder, untilMs, max)) {
    const next = await findNextHolder(tx, bucket, row, keyring);
    if (next !== null) {
      await moveTo(tx, row, holder, next);
      moved++;
      continue;
    }
    released.push(row);
    manifestBytes += row.manifest.length;
    if (manifestBytes > releasedManifestBytesMax) break;
  }
  return { released, moved };
}

interface Taking {
  bucket: BucketName;
  holder: number;
  max: number;
  untilMs?: number;
}

/** Of a row that is not authentic nobody knows to which it belongs: any that lives keeps it. */
async function findNextHolder(
  tx: Tx,
  bucket: BucketName,
  row: HeldRow,
  keyring: Keyring,
): Promise<number | null> {
  const { bucketId, key, seq, endedSeq, isImage } = row;
  if (!isAuthentic(() => verifyVersion(keyring, bucket, row))) {
    const living = `SELECT max(seq) AS seq FROM snapshots WHERE bucket_id = ? AND state = 'living'`;
    return (await tx.get<{ seq: number | null }>(living, bucketId))?.seq ?? null;
  }
  if (!isImage) return findCovering(tx, bucketId, { key, fromSeq: seq, beforeSeq: endedSeq });
  // A snapshot before the image of before was made has that one.
  const before = await tx.get<{ seq: number | null }>(
    `SELECT max(ended_seq) AS seq FROM held_versions
       WHERE bucket_id = ? AND key = ? AND seq = ? AND ended_seq < ?`,
    ...[bucketId, key, seq, endedSeq],
  );
  const fromSeq = Math.max(seq, before?.seq ?? 0);
  return findCovering(tx, bucketId, { key, fromSeq, beforeSeq: endedSeq });
}

async function moveTo(tx: Tx, row: HeldRow, from: number, to: number): Promise<void> {
  const { bucketId, key, seq, endedSeq } = row;
  await tx.run(
    `UPDATE held_versions SET holder = ?
       WHERE bucket_id = ? AND key = ? AND seq = ? AND ended_seq = ?`,
    ...[to, bucketId, key, seq, endedSeq],
  );
  await takeFromSum(tx, { bucketId, holder: from }, [row]);
  await addToSum(tx, { bucketId, holder: to }, [row]);
}

/** Ends versions that no snapshot has any more, and lets go of their bytes. */
export async function releaseRows(
  tx: Tx,
  { bucket, holder, rows }: { bucket: BucketName; holder: number; rows: readonly HeldRow[] },
  { keyring, timeMs }: Pick<Moment, 'keyring' | 'timeMs'>,
): Promise<StorageDelta> {
  const billed = new Map<string, number>();
  const released: EndedObject[] = [];
  let storedBytes = 0;
  for (const row of rows) {
    const { bucketId, key, seq, endedSeq, class: of } = row;
    await tx.run(
      'DELETE FROM held_versions WHERE bucket_id = ? AND key = ? AND seq = ? AND ended_seq = ?',
      ...[bucketId, key, seq, endedSeq],
    );
    // The extents that a damaged row names may belong to other objects, so they are not released.
    const isOurs = isAuthentic(() => verifyVersion(keyring, bucket, row));
    if (isOurs) await dropManifest(tx, row, timeMs);
    if (!row.heldMac || row.isImage || row.isMarker) continue;
    const billedBytes = countedBytes(row.billedBytes);
    const sinceMs = isOurs ? classedSinceMs(row) : row.createdMs;
    storedBytes -= heldBytesOf(row, row.heldMac);
    billed.set(of, (billed.get(of) ?? 0) - billedBytes);
    released.push({ class: of, billedBytes, sinceMs });
  }
  await takeFromSum(tx, { bucketId: bucket.id, holder }, rows);
  const deltas = [...billed].map(([storageClass, bytes]) => ({ class: storageClass, bytes }));
  return { storedBytes, storedObjects: 0, billed: deltas, ended: null, released };
}

/** Takes all snapshots from a bucket, and ends what they and its undelete window held. */
export async function dropSnapshots(
  tx: Tx,
  bucket: BucketName,
  moment: Pick<Moment, 'keyring' | 'timeMs'>,
): Promise<Pick<StorageDelta, 'storedBytes' | 'billed'>> {
  const snapshots = await tx.all<{ seq: number }>(
    'SELECT seq FROM snapshots WHERE bucket_id = ?',
    bucket.id,
  );
  await tx.run('DELETE FROM snapshots WHERE bucket_id = ?', bucket.id);
  const billed: BilledDelta[] = [];
  let storedBytes = 0;
  for (const holder of [heldByWindow, ...snapshots.map(({ seq }) => seq)]) {
    for (;;) {
      const rows = await tx.all<HeldRow>(heldRowsSql, bucket.id, holder, everMs, rowsAtOnce);
      if (rows.length === 0) break;
      const released = await releaseRows(tx, { bucket, holder, rows }, moment);
      storedBytes += released.storedBytes;
      billed.push(...released.billed);
    }
  }
  await tx.run('DELETE FROM held_totals WHERE bucket_id = ?', bucket.id);
  return { storedBytes, billed };
}

const rowsAtOnce = 100;
const everMs = Number.MAX_SAFE_INTEGER;
