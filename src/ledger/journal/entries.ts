// Rows of the catalog as entries of the journal. Invariant: a version becomes an entry only after
// its row was found authentic, so that no edit of the database is carried into the journal, where
// it would be sealed.
import { type Bucket, getBucket } from '../../catalog/buckets.ts';
import type { OutboxRow } from '../../catalog/outbox.ts';
import { findCurrent, type Version } from '../../catalog/versions.ts';
import type { Reader } from '../../core/database.ts';
import { IntegrityError } from '../../core/errors.ts';
import type { Keyring } from '../../core/keyring.ts';
import type { BucketEntry, Entry, VersionEntry } from './format.ts';

export function bucketEntry({ id, tenant, name, owner, createdMs }: Bucket): BucketEntry {
  return { kind: 'bucket', id, tenant, name, owner, createdMs };
}

/** Of a version whose row was verified. */
export function versionEntry(version: Version): VersionEntry {
  const { bucketId, key, seq, createdMs, sizeBytes, etag, owner, attributes } = version;
  return {
    kind: 'version',
    bucketId,
    key,
    seq,
    createdMs,
    sizeBytes,
    etag,
    sha256: version.sha256 && Buffer.from(version.sha256).toString('hex'),
    class: version.class,
    owner,
    attributes,
    manifest: Buffer.from(version.manifest).toString('base64'),
  };
}

/** Beyond this a segment ends; its last entry may be as long as it is. Bytes. */
const segmentBytesMax = 4 * 1024 * 1024;
/** Look-ups between which others get their turn of the thread. */
const entriesPerTurn = 50;

interface Segment {
  /** JSON of the entries. */
  lines: string[];
  /** All rows of the outbox up to here are told. */
  lastSeq: number;
  /** Rows of the catalog that are not authentic, and were left as the journal has them. */
  damaged: number;
}

/**
 * What has become of the first of `rows`, as many as fit: the present state of each key, which may
 * be a later one than the row tells of. `rows` are those of the outbox in order of seq, not empty.
 */
export async function composeSegment(
  read: Reader,
  keyring: Keyring,
  rows: readonly OutboxRow[],
): Promise<Segment> {
  const newest = new Map<string, OutboxRow>();
  for (const row of rows) newest.set(nameOf(row), row);
  const buckets = new Map<number, Bucket | undefined>();
  const segment: Segment = { lines: [], lastSeq: -1, damaged: 0 };
  let bytes = 0;
  const add = (entry: Entry): void => {
    const line = JSON.stringify(entry);
    bytes += Buffer.byteLength(line);
    segment.lines.push(line);
  };
  let looked = 0;
  for (const { seq, bucketId, key } of rows) {
    const name = nameOf({ bucketId, key });
    const row = newest.get(name);
    // Told already, with an earlier row of the same key.
    if (row) {
      if (bytes > segmentBytesMax) break;
      if (++looked % entriesPerTurn === 0) await nextTurn();
      newest.delete(name);
      if (!buckets.has(bucketId)) {
        const found = await getBucket(read, bucketId);
        buckets.set(bucketId, found);
        add(found ? bucketEntry(found) : { kind: 'bucketGone', id: bucketId });
      }
      const bucket = buckets.get(bucketId);
      // A bucket that is gone has taken its keys with it.
      if (bucket && row.key !== null) {
        const entry = await keyEntry(read, keyring, bucket, { ...row, key: row.key });
        if (entry) add(entry);
        else segment.damaged++;
      }
    }
    segment.lastSeq = seq;
  }
  return segment;
}

/** Null: the row is not authentic, so what the journal says of the key stays. */
async function keyEntry(
  read: Reader,
  keyring: Keyring,
  bucket: Bucket,
  { key, seq, timeMs }: { key: string; seq: number; timeMs: number },
): Promise<Entry | null> {
  try {
    const version = await findCurrent({ read, keyring }, bucket, key);
    return version
      ? versionEntry(version)
      : { kind: 'gone', bucketId: bucket.id, key, seq, timeMs };
  } catch (error) {
    if (error instanceof IntegrityError) return null;
    throw error;
  }
}

function nameOf({ bucketId, key }: { bucketId: number; key: string | null }): string {
  return key === null ? String(bucketId) : `${bucketId}/${key}`;
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
