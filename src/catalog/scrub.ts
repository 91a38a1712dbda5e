// Walks over all that the catalog has stored: versions, current, noncurrent and held by snapshots,
// and the parts of unfinished uploads. Invariant: every row that is there from the beginning of a
// walk to its end is met once, however long it takes and whatever is written meanwhile; each step
// is a few seeks in indexes, so a walk of any length holds up nobody.
import type { Reader, SqlValue } from '../core/database.ts';
import { textSuccessor } from '../core/text-order.ts';
import { extentState } from './extents.ts';
import { findHeld } from './held-rows.ts';
import { manifestOf } from './long-manifests.ts';
import { findUpload, listParts } from './uploads.ts';
import { type Catalog, findVersion, type Version } from './versions.ts';

/** The part of the catalog that is walked over. Nulls mean everything. */
export interface ScrubScope {
  tenant: string | null;
  /** A name in `tenant`. */
  bucket: string | null;
  /** The prefix of keys. */
  prefix: string;
}

/** Names one row, and with it a place in the walk. */
export type ScrubPlace =
  | { bucketId: number; key: string; seq: number }
  | { bucketId: number; key: string; uploadId: string; number: number };

export interface ScrubBucket {
  id: number;
  tenant: string;
  name: string;
  owner: string;
}

export type ScrubRow = Pick<Version, 'sizeBytes' | 'manifest'>;

/**
 * Returns what is at a place, or undefined when it is not there any more. Throws IntegrityError
 * when it is not authentic.
 */
export async function readScrubRow(
  catalog: Catalog,
  bucket: ScrubBucket,
  place: ScrubPlace,
): Promise<ScrubRow | undefined> {
  if (!('uploadId' in place)) {
    return (await findVersion(catalog, bucket, place)) ?? findHeld(catalog, bucket, place);
  }
  const { uploadId: id, key, number } = place;
  const upload = await findUpload(catalog, bucket, { id, key });
  if (!upload) return undefined;
  const ofUpload = { tenant: bucket.tenant, uploadId: id };
  const [part] = await listParts(catalog, ofUpload, number - 1, 1);
  return part?.number === number ? part : undefined;
}

/** Resolves to whether a row still is what was read. Otherwise its extents may rightly be gone. */
export async function isUnchanged(
  read: Reader,
  place: ScrubPlace,
  { manifest }: ScrubRow,
): Promise<boolean> {
  if ('uploadId' in place) {
    const sql = 'SELECT 1 FROM parts WHERE upload_id = ? AND number = ? AND manifest = ?';
    return (await read.get(sql, place.uploadId, place.number, manifest)) !== undefined;
  }
  const of = (table: string) => `SELECT ${manifestOf('v')} FROM ${table} AS v
    WHERE bucket_id = ? AND key = ? AND seq = ?`;
  const at = [place.bucketId, place.key, place.seq];
  const rows = await read.all<{ manifest: Uint8Array | null }>(
    `${of('versions')} UNION ALL ${of('noncurrent_versions')} UNION ALL ${of('held_versions')}`,
    ...[...at, ...at, ...at],
  );
  return rows.some((row) => row.manifest && Buffer.compare(row.manifest, manifest) === 0);
}

/** Resolves to whether an extent of this store is alive, so that the sweeper spares it. */
export async function isExtentAlive(
  read: Reader,
  extent: { id: Uint8Array; store: number },
): Promise<boolean> {
  const row = await read.get<{ state: number; store: number }>(
    'SELECT state, store FROM extents WHERE id = ?',
    extent.id,
  );
  return row?.state === extentState.live && row.store === extent.store;
}

/** The bucket of this id, if it is in the scope. */
export async function findScrubBucket(
  read: Reader,
  scope: ScrubScope,
  bucketId: number,
): Promise<ScrubBucket | undefined> {
  const { sparing = read } = read;
  return sparing.get<ScrubBucket>(
    `SELECT id, tenant, name, owner FROM buckets
       WHERE id = ? AND (? IS NULL OR tenant = ?) AND (? IS NULL OR name = ?)`,
    ...[bucketId, scope.tenant, scope.tenant, scope.bucket, scope.bucket],
  );
}

/** The row after `place`, or the first one; undefined at the end. */
export async function findNextRow(
  read: Reader,
  scope: ScrubScope,
  place: ScrubPlace | null,
): Promise<{ bucket: ScrubBucket; place: ScrubPlace } | undefined> {
  let after = place;
  let bucket = after ? await findScrubBucket(read, scope, after.bucketId) : undefined;
  for (;;) {
    if (bucket) {
      const next = await findNextInBucket(read, { ...scope, bucketId: bucket.id }, after);
      if (next) return { bucket, place: next };
    }
    bucket = await findNextBucket(read, scope, bucket?.id ?? after?.bucketId ?? 0);
    after = null;
    if (!bucket) return undefined;
  }
}

/** The next bucket that has something in the scope. */
async function findNextBucket(
  read: Reader,
  { tenant, bucket, prefix }: ScrubScope,
  afterId: number,
): Promise<ScrubBucket | undefined> {
  const below = endOf(prefix);
  const { sparing = read } = read;
  return sparing.get<ScrubBucket>(
    `SELECT id, tenant, name, owner FROM buckets AS b
       WHERE id > ? AND (? IS NULL OR tenant = ?) AND (? IS NULL OR name = ?) AND (
         EXISTS (SELECT 1 FROM versions WHERE bucket_id = b.id AND key >= ? AND key < ?) OR
         EXISTS (SELECT 1 FROM noncurrent_versions
           WHERE bucket_id = b.id AND key >= ? AND key < ?) OR
         EXISTS (SELECT 1 FROM held_versions WHERE bucket_id = b.id AND key >= ? AND key < ?) OR
         EXISTS (SELECT 1 FROM uploads WHERE bucket_id = b.id AND key >= ? AND key < ?))
       ORDER BY id LIMIT 1`,
    afterId,
    tenant,
    tenant,
    bucket,
    bucket,
    ...[prefix, below],
    ...[prefix, below],
    ...[prefix, below],
    ...[prefix, below],
  );
}

/** A bucket's versions come first, then its parts. */
async function findNextInBucket(
  read: Reader,
  within: { bucketId: number; prefix: string },
  after: ScrubPlace | null,
): Promise<ScrubPlace | undefined> {
  if (after && 'uploadId' in after) return findNextPart(read, within, after);
  const { bucketId, prefix } = within;
  const version =
    (after && (await findNewerVersion(read, after))) ??
    (await findFirstVersion(read, within, after?.key ?? null));
  if (version) return { bucketId, ...version };
  return findNextPart(read, within, { key: prefix, uploadId: '', number: 0 });
}

/** The next version of the same key: one that moves to the other table meanwhile is met there. */
async function findNewerVersion(
  read: Reader,
  { bucketId, key, seq }: { bucketId: number; key: string; seq: number },
): Promise<{ key: string; seq: number } | undefined> {
  const newer = 'WHERE bucket_id = ? AND key = ? AND seq > ?';
  return read.get(
    `SELECT key, seq FROM versions ${newer}
       UNION ALL SELECT key, seq FROM noncurrent_versions ${newer}
       UNION ALL SELECT key, seq FROM held_versions ${newer} AND NOT is_image
       ORDER BY seq LIMIT 1`,
    ...[bucketId, key, seq],
    ...[bucketId, key, seq],
    ...[bucketId, key, seq],
  );
}

/** The oldest version of the first key after `afterKey`; null: of the first one. */
async function findFirstVersion(
  read: Reader,
  { bucketId, prefix }: { bucketId: number; prefix: string },
  afterKey: string | null,
): Promise<{ key: string; seq: number } | undefined> {
  const [from, below] = [afterKey ?? prefix, endOf(prefix)];
  const beyond = `WHERE bucket_id = ? AND key ${afterKey === null ? '>=' : '>'} ? AND key < ?
    ORDER BY key LIMIT 1`;
  const first = await read.get<{ key: string }>(
    `SELECT * FROM (SELECT key FROM versions ${beyond})
       UNION ALL SELECT * FROM (SELECT key FROM noncurrent_versions ${beyond})
       UNION ALL SELECT * FROM (SELECT key FROM held_versions ${beyond})
       ORDER BY key LIMIT 1`,
    ...[bucketId, from, below],
    ...[bucketId, from, below],
    ...[bucketId, from, below],
  );
  if (!first) return undefined;
  // It may just have gone.
  const oldest = await findNewerVersion(read, { bucketId, key: first.key, seq: -1 });
  return oldest ?? findFirstVersion(read, { bucketId, prefix }, first.key);
}

async function findNextPart(
  read: Reader,
  { bucketId, prefix }: { bucketId: number; prefix: string },
  after: { key: string; uploadId: string; number: number },
): Promise<ScrubPlace | undefined> {
  const { key, uploadId } = after;
  const select = 'SELECT number FROM parts WHERE upload_id = ? AND number > ? ORDER BY number';
  const part = await read.get<{ number: number }>(`${select} LIMIT 1`, uploadId, after.number);
  if (part) return { bucketId, key, uploadId, number: part.number };
  const upload = await read.get<{ key: string; uploadId: string; number: number }>(
    `SELECT key, id AS uploadId, (SELECT min(number) FROM parts WHERE upload_id = u.id) AS number
       FROM uploads AS u WHERE bucket_id = ? AND (key, id) > (?, ?) AND key < ?
         AND EXISTS (SELECT 1 FROM parts WHERE upload_id = u.id)
       ORDER BY key, id LIMIT 1`,
    bucketId,
    key,
    uploadId,
    endOf(prefix),
  );
  return upload && { bucketId, ...upload };
}

/** The end of the keys with a prefix. SQLite orders every blob behind every text. */
function endOf(prefix: string): SqlValue {
  return textSuccessor(prefix) ?? Buffer.of(0xff);
}
