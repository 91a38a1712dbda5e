// Versions that living snapshots, or a bucket's undelete window (undelete-window.ts), hold although
// they ended, and images of versions as they were before their tags or their lock changed. What a
// key was at a snapshot S is its version with the greatest `seq` up to S that had not ended at S;
// of its images the first that was made after S. Invariants: a version that a living snapshot has
// comes here when it ends, whoever ends it (version-rows.ts), and goes only when none has it any
// more; it keeps its extents, and counts as stored, for as long as it is here; `held_mac` binds it
// to its end, so that no row shows at another time than it should.
import type { Reader, Tx } from '../core/database.ts';
import { type BucketName, computeHeldMac } from './authentic.ts';
import { noteHeld } from './held-totals.ts';
import { shareManifest } from './long-manifests.ts';
import type { Moment } from './outcome.ts';
import { heldByWindow } from './undelete-window.ts';
import type { OpenBucket } from './version-places.ts';
import type { FoundVersion } from './version-rows.ts';
import { sharedColumns, type Version } from './versions.ts';

/** What is said of a version besides where it is held. */
export interface HeldVersion extends Version {
  /** Of the record that ended or changed it, and when. */
  endedSeq: number;
  endedMs: number;
  /** 1: it was changed in place, and went on. */
  isImage: number;
  /** null: its row was not authentic when it ended. */
  heldMac: Uint8Array | null;
}

/** Of `held_versions AS v`: what ended, ended as it says. */
export const heldColumns = `${sharedColumns}, superseded_seq AS supersededSeq,
  superseded_ms AS supersededMs,
  NOT is_image AND NOT EXISTS(SELECT 1 FROM superseded AS s
    WHERE s.seq = v.seq AND s.by_seq = v.ended_seq) AS isStale,
  ended_seq AS endedSeq, ended_ms AS endedMs, is_image AS isImage, held_mac AS heldMac`;
/**
 * `seq` of the newest null version that is held of the key of `v`, of those whose `seq` is so. A
 * key has one null version at a time: so of those that were made up to a record no other goes on
 * behind it. Others are found by an index of their ends, which null versions are not in, as that
 * would be one more page of each overwrite where there is no versioning.
 */
export function newestNull(condition: string): string {
  return `(SELECT n.seq FROM held_versions AS n WHERE n.bucket_id = v.bucket_id AND n.key = v.key
    AND n.seq ${condition} AND n.version_id IS NULL ORDER BY n.seq DESC LIMIT 1)`;
}

/**
 * Who holds a version which is about to end, or to change: the bucket's undelete window, or the
 * newest living snapshot that has it; null: nobody. `sinceSeq`: from which record on it has been as
 * it is.
 */
export async function findHolder(
  read: Reader,
  bucket: OpenBucket,
  { key, sinceSeq }: { key: string; sinceSeq: number },
): Promise<number | null> {
  const { id, newestSnapshot, newestPrefix, hasWindow } = bucket;
  if (hasWindow) return heldByWindow;
  if (newestSnapshot === null || newestSnapshot < sinceSeq) return null;
  if (newestPrefix !== null && key.startsWith(newestPrefix)) return newestSnapshot;
  return findCovering(read, id, { key, fromSeq: sinceSeq, beforeSeq: null });
}

/** The newest living snapshot that has a version; null: none has it. */
export async function findCovering(
  read: Reader,
  bucketId: number,
  { key, fromSeq, beforeSeq }: { key: string; fromSeq: number; beforeSeq: number | null },
): Promise<number | null> {
  const found = await read.get<{ seq: number }>(
    `SELECT seq FROM snapshots WHERE bucket_id = ? AND seq >= ? AND (? IS NULL OR seq < ?)
       AND state = 'living' AND substr(?, 1, length(prefix)) = prefix ORDER BY seq DESC LIMIT 1`,
    ...[bucketId, fromSeq, beforeSeq, beforeSeq, key],
  );
  return found?.seq ?? null;
}

/** Holds a version that ends: its row is to go from where it is. */
export async function holdEnded(
  tx: Tx,
  bucket: BucketName,
  version: FoundVersion,
  holder: number,
  moment: Moment,
): Promise<void> {
  await hold(tx, bucket, version, { holder, isImage: 0 }, moment);
}

/** Holds what a version is before it is changed in place, where somebody has it as it is. */
export async function holdImage(
  tx: Tx,
  bucket: OpenBucket,
  version: FoundVersion,
  moment: Moment,
): Promise<void> {
  if (bucket.newestSnapshot === null && !bucket.hasWindow) return;
  const { key, seq } = version;
  const row = await tx.get<{ seq: number | null }>(
    'SELECT max(ended_seq) AS seq FROM held_versions WHERE bucket_id = ? AND key = ? AND seq = ?',
    ...[bucket.id, key, seq],
  );
  const holder = await findHolder(tx, bucket, { key, sinceSeq: Math.max(seq, row?.seq ?? 0) });
  if (holder === null) return;
  await hold(tx, bucket, version, { holder, isImage: 1 }, moment);
  const image = await tx.get<{ manifest: Uint8Array | number }>(
    `SELECT manifest FROM held_versions
       WHERE bucket_id = ? AND key = ? AND seq = ? AND ended_seq = ?`,
    ...[bucket.id, key, seq, moment.seq],
  );
  if (image) await shareManifest(tx, image.manifest);
}

async function hold(
  tx: Tx,
  bucket: BucketName,
  version: FoundVersion,
  { holder, isImage }: { holder: number; isImage: number },
  moment: Moment,
): Promise<void> {
  const { keyring, seq: endedSeq, timeMs: endedMs } = moment;
  const { bucketId, key, seq, supersededSeq, isDamaged } = version;
  const from =
    supersededSeq === null ? 'v.*, NULL, NULL FROM versions' : 'v.* FROM noncurrent_versions';
  const held = { ...version, endedSeq, endedMs, isImage };
  const mac = isDamaged ? null : computeHeldMac(keyring, bucket, held);
  const [columns, table] = from.split(' FROM ');
  await tx.run(
    `INSERT OR REPLACE INTO held_versions SELECT ${columns}, ?, ?, ?, ?, ?
       FROM ${table} AS v WHERE bucket_id = ? AND key = ? AND seq = ?`,
    ...[endedSeq, endedMs, isImage, mac, holder],
    ...[bucketId, key, seq],
  );
  await noteHeld(tx, { bucketId, holder }, moment);
}
