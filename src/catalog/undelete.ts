// What brings back an object that was deleted or overwritten: of a version that the bucket still
// has, the delete markers over it are taken away, or it is copied; of one that is held, it is
// copied as of a record. Invariant: nothing of a row is told before it was found authentic.
import { canonicalize } from '../core/canonical-json.ts';
import type { Reader } from '../core/database.ts';
import { type BucketName, verifyListed } from './authentic.ts';
import { type ListedAt, readListedAt, readVersionsAt } from './snapshot-reads.ts';
import type { Attributes, Catalog } from './versions.ts';

export interface Undeletion {
  key: string;
  sizeBytes: number;
  class: string;
  /** There is another object of the key now. */
  isOverwritten: boolean;
  /** Ids of the delete markers over it, from the newest down; empty: it is copied. */
  markers: string[];
  /** The id of the version that is copied; null: it is copied as of a record. */
  versionId: string | null;
  /** The record; null: the bucket still has the version. */
  index: number | null;
}

const now = Number.MAX_SAFE_INTEGER;

/** undefined: it is as it was at this record, or was not there. Throws IntegrityError. */
export async function planAsOf(
  { read, keyring }: Catalog,
  bucket: BucketName,
  { key, at }: { key: string; at: number },
): Promise<Undeletion | undefined> {
  const readAt = async (index: number): Promise<ListedAt | undefined> => {
    const row = await readListedAt(read, { bucketId: bucket.id, key, at: index });
    if (row) verifyListed(keyring, bucket, row);
    return row?.isMarker ? undefined : row;
  };
  const before = await readAt(at);
  if (!before) return undefined;
  const current = await readAt(now);
  if (isSameObject(before, current)) return undefined;
  return plan(read, bucket, { before, isOverwritten: current !== undefined, at });
}

/**
 * The same of the object that was there before the key's object was deleted; undefined: there is
 * one now, or none is known. What ended before `heldSinceMs` is left alone: where only snapshots
 * hold what they have, nobody knows what came after it.
 */
export async function planDeleted(
  catalog: Catalog,
  bucket: BucketName,
  { key, heldSinceMs }: { key: string; heldSinceMs: number },
): Promise<Undeletion | undefined> {
  const { read } = catalog;
  const { id: bucketId } = bucket;
  const current = await readListedAt(read, { bucketId, key, at: now });
  if (current && !current.isMarker) return undefined;
  const left = await readNewestLeft(read, bucketId, key);
  const held = await read.get<{ at: number }>(
    `SELECT ended_seq - 1 AS at FROM held_versions WHERE bucket_id = ? AND key = ? AND seq > ?
       AND ended_ms >= ? AND NOT is_marker AND NOT is_image
       ORDER BY seq DESC, ended_seq DESC LIMIT 1`,
    ...[bucketId, key, left?.seq ?? -1, heldSinceMs],
  );
  const at = held?.at ?? now;
  const before = held ? await readListedAt(read, { bucketId, key, at }) : left;
  if (!before || before.isMarker) return undefined;
  verifyListed(catalog.keyring, bucket, before);
  return plan(read, bucket, { before, isOverwritten: false, at });
}

/** The newest version that is no marker, of those that the bucket still has. */
async function readNewestLeft(
  read: Reader,
  bucketId: number,
  key: string,
): Promise<ListedAt | undefined> {
  const of = 'WHERE bucket_id = ? AND key = ? AND NOT is_marker';
  const newest = await read.get<{ seq: number | null }>(
    `SELECT max(seq) AS seq FROM (SELECT seq FROM versions ${of}
       UNION ALL SELECT seq FROM noncurrent_versions ${of})`,
    ...[bucketId, key, bucketId, key],
  );
  if (newest?.seq == null) return undefined;
  const [row] = await readVersionsAt(read, { bucketId, key, at: now, max: 1 }, newest.seq + 1);
  return row;
}

interface Planned {
  before: ListedAt;
  isOverwritten: boolean;
  at: number;
}

async function plan(
  read: Reader,
  { id }: BucketName,
  { before, isOverwritten, at }: Planned,
): Promise<Undeletion> {
  const { key, seq, endedSeq, sizeBytes, class: of } = before;
  const told = { key, sizeBytes, class: of, isOverwritten };
  if (endedSeq !== null) {
    const holder = await read.get<{ holder: number }>(
      `SELECT holder FROM held_versions WHERE bucket_id = ? AND key = ? AND seq = ?
         AND ended_seq = ?`,
      ...[id, key, seq, endedSeq],
    );
    // A snapshot that has it is there for longer than the window may be.
    return { ...told, markers: [], versionId: null, index: holder?.holder || at };
  }
  const newer = 'WHERE bucket_id = ? AND key = ? AND seq > ?';
  const columns = 'seq, version_id AS versionId, is_marker AS isMarker';
  const over = await read.all<{ versionId: string | null; isMarker: number }>(
    `SELECT * FROM (SELECT ${columns} FROM versions ${newer}
       UNION ALL SELECT ${columns} FROM noncurrent_versions ${newer})
       ORDER BY seq DESC LIMIT ?`,
    ...[id, key, seq, id, key, seq, markersMax + 1],
  );
  const isHidden = over.length <= markersMax && over.every(({ isMarker }) => isMarker === 1);
  const markers = isHidden ? over.map(({ versionId }) => versionId ?? 'null') : [];
  return { ...told, markers, versionId: before.versionId ?? 'null', index: null };
}

/** Of a key with more, the version is copied. */
const markersMax = 100;

/**
 * Is it the same object? A copy of what was is; who made it, how it is locked, and when it came to
 * its key and its class, is its own.
 */
export function isSameObject(before: ListedAt | undefined, then: ListedAt | undefined): boolean {
  if (!before || !then) return before === then;
  const isCopy =
    before.etag === then.etag && before.sizeBytes === then.sizeBytes && before.class === then.class;
  return isCopy && contentOf(before) === contentOf(then);
}

function contentOf({ attributes }: ListedAt): string {
  const all = JSON.parse(attributes) as Attributes;
  const { retention: _, legalHold: _2, copied: _3, writer: _4, ...placed } = all;
  const { renamedMs: _5, classedMs: _6, ...kept } = placed;
  return canonicalize(kept);
}
