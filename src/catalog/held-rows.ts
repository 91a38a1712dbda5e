// Held versions as their rows are, for the journal, verification and settings.
import type { Reader } from '../core/database.ts';
import { type BucketName, verifyVersion } from './authentic.ts';
import { type HeldVersion, heldColumns, newestNull } from './held-versions.ts';
import { type Catalog, wholeColumns } from './versions.ts';

/**
 * A version that ended and is held, by its number. Throws IntegrityError when it is not authentic.
 */
export async function findHeld(
  { read, keyring }: Catalog,
  bucket: BucketName,
  { key, seq }: { key: string; seq: number },
): Promise<HeldVersion | undefined> {
  const found = await read.get<HeldVersion>(
    `SELECT ${heldColumns}, ${wholeColumns} FROM held_versions AS v
       WHERE bucket_id = ? AND key = ? AND seq = ? AND NOT is_image`,
    ...[bucket.id, key, seq],
  );
  if (found) verifyVersion(keyring, bucket, found);
  return found;
}

/** Whether anything of a bucket is held. */
export async function holdsAny(read: Reader, bucketId: number): Promise<boolean> {
  const sql = 'SELECT 1 FROM held_versions WHERE bucket_id = ? LIMIT 1';
  return (await read.get(sql, bucketId)) !== undefined;
}

/**
 * What of a key this change has ended, or changed, and is held, as the rows are. Of one that was
 * not authentic then, nothing is shown nor told.
 */
export async function listHeldBy(
  read: Reader,
  { bucketId, key, seq }: { bucketId: number; key: string; seq: number },
): Promise<HeldVersion[]> {
  const select = `SELECT ${heldColumns}, ${wholeColumns} FROM held_versions AS v`;
  const ended = 'WHERE bucket_id = ? AND key = ? AND ended_seq = ? AND held_mac IS NOT NULL';
  return read.all<HeldVersion>(
    `${select} ${ended} AND seq = ${newestNull('< ?')}
       UNION ALL ${select} INDEXED BY held_by_end ${ended} AND version_id IS NOT NULL`,
    ...[bucketId, key, seq, seq],
    ...[bucketId, key, seq],
  );
}

/**
 * The version that had this name when a change was made, as far as it ended or changed later and is
 * held: its end, and its images. `versionId` null: S3's `null` version.
 */
export async function listHeldSince(
  read: Reader,
  at: { bucketId: number; key: string; versionId: string | null; seq: number },
): Promise<HeldVersion[]> {
  const { bucketId, key, versionId, seq } = at;
  const select = `SELECT ${heldColumns}, ${wholeColumns} FROM held_versions AS v`;
  const since = 'WHERE bucket_id = ? AND key = ? AND ended_seq > ? AND held_mac IS NOT NULL';
  if (versionId !== null) {
    const sql = `${select} INDEXED BY held_by_end ${since} AND seq <= ? AND version_id = ?`;
    return read.all<HeldVersion>(sql, bucketId, key, seq, seq, versionId);
  }
  // A key may have had very many null versions since: of those made up to then, it is the newest.
  const newest = `SELECT seq FROM held_versions
    WHERE bucket_id = ? AND key = ? AND seq <= ? AND version_id IS NULL ORDER BY seq DESC LIMIT 1`;
  const sql = `${select} ${since} AND seq = (${newest})`;
  return read.all<HeldVersion>(sql, bucketId, key, seq, bucketId, key, seq);
}

/** Up to `max` of a bucket's held versions as their rows are, behind `after`. */
export async function listHeld(
  read: Reader,
  wanted: {
    bucketId: number;
    after: Pick<HeldVersion, 'key' | 'seq' | 'endedSeq'> | null;
    max: number;
  },
): Promise<HeldVersion[]> {
  const { bucketId, after, max } = wanted;
  const select = `SELECT ${heldColumns}, ${wholeColumns} FROM held_versions AS v
    WHERE held_mac IS NOT NULL AND bucket_id = ?`;
  if (after) {
    const { key, seq, endedSeq } = after;
    const rows = await read.all<HeldVersion>(
      `${select} AND key = ? AND seq <= ? AND (seq < ? OR ended_seq > ?)
         ORDER BY seq DESC, ended_seq LIMIT ?`,
      ...[bucketId, key, seq, seq, endedSeq, max],
    );
    if (rows.length > 0) return rows;
  }
  return read.all<HeldVersion>(
    `${select} AND key > ? ORDER BY key, seq DESC, ended_seq LIMIT ?`,
    ...[bucketId, after?.key ?? '', max],
  );
}
