// How much snapshots and undelete windows hold: sums over `held_versions`, by bucket and holder.
// Invariant: whatever moves a row there, or takes it away, changes its sum with it.
import type { Reader, Tx } from '../core/database.ts';
import type { HeldVersion } from './held-versions.ts';
import { countedBytes } from './versions.ts';

/** What a held version counts for; an image shares what the version itself keeps. */
export function heldBytesOf(
  { isImage, isMarker, sizeBytes }: Pick<HeldVersion, 'isImage' | 'isMarker' | 'sizeBytes'>,
  heldMac: Uint8Array | null,
): number {
  return isImage || isMarker || !heldMac ? 0 : countedBytes(sizeBytes);
}

/** Adds to what one holder has. */
export async function addToTotal(
  tx: Tx,
  { bucketId, holder }: { bucketId: number; holder: number },
  { versions, bytes }: { versions: number; bytes: number },
): Promise<void> {
  await tx.run(
    `INSERT INTO held_totals VALUES (?, ?, ?, ?) ON CONFLICT (bucket_id, holder) DO UPDATE
       SET versions = versions + excluded.versions, bytes = bytes + excluded.bytes`,
    ...[bucketId, holder, versions, bytes],
  );
}

/** What the versions that snapshots of a bucket hold count for. */
export async function readHeldTotal(
  read: Reader,
  bucketId: number,
): Promise<{ versions: number; bytes: number }> {
  const sql = `SELECT ifnull(sum(versions), 0) AS versions, ifnull(sum(bytes), 0) AS bytes
    FROM held_totals WHERE bucket_id = ?`;
  return (await read.get(sql, bucketId)) ?? { versions: 0, bytes: 0 };
}

/** The same of those that living snapshots hold of which all keys begin with `prefix`. */
export async function readHeldBelow(
  read: Reader,
  bucketId: number,
  prefix: string,
): Promise<{ versions: number; bytes: number }> {
  const sql = `SELECT ifnull(sum(t.versions), 0) AS versions, ifnull(sum(t.bytes), 0) AS bytes
    FROM snapshots AS s JOIN held_totals AS t ON t.bucket_id = s.bucket_id AND t.holder = s.seq
    WHERE s.bucket_id = ? AND s.state = 'living' AND substr(s.prefix, 1, length(?)) = ?`;
  return (await read.get(sql, bucketId, prefix, prefix)) ?? { versions: 0, bytes: 0 };
}

/** The same of those that one snapshot holds, or the undelete window. */
export async function readHeldBy(
  read: Reader,
  bucketId: number,
  holder: number,
): Promise<{ versions: number; bytes: number }> {
  const sql = 'SELECT versions, bytes FROM held_totals WHERE bucket_id = ? AND holder = ?';
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
       FROM held_totals AS t CROSS JOIN main.buckets AS b ON b.id = t.bucket_id
       WHERE ? IS NULL OR b.tenant = ? GROUP BY t.bucket_id`,
    ...[tenant, tenant],
  );
}
