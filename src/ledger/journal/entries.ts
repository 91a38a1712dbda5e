// Rows of the catalog as entries of the journal. Invariant: a version becomes an entry only after
// its row was found authentic, so that no edit of the database is carried into the journal, where
// it would be sealed.
import { type Bucket, getBucket, readSettings } from '../../catalog/buckets.ts';
import { findOutboxRow, isOfSnapshot, type OutboxRow } from '../../catalog/outbox.ts';
import { type Attributes, findNamed } from '../../catalog/versions.ts';
import type { Reader } from '../../core/database.ts';
import { IntegrityError } from '../../core/errors.ts';
import type { Keyring } from '../../core/keyring.ts';
import type { BucketEntry, Entry, SettingsEntry, VersionEntry } from './format.ts';
import type { IdentityEntry } from './identity-format.ts';
import { identitiesBucket, listThings } from './identity-outbox.ts';
import type { IdentityRows } from './identity-rows.ts';
import { KeptRows } from './kept-entries.ts';
import type { KeptEntry } from './kept-format.ts';
import { versionEntry } from './version-entry.ts';

/** `toldSeq`: what is said is as new as this change, or newer. */
export function bucketEntry(bucket: Bucket, toldSeq: number): BucketEntry {
  const { id, tenant, name, owner, createdMs, versioning, ownership } = bucket;
  const { objectLock, publicAccess, recordReads } = bucket;
  return {
    kind: 'bucket',
    id,
    toldSeq,
    tenant,
    name,
    owner,
    createdMs,
    versioning,
    objectLock: objectLock && JSON.stringify(objectLock),
    publicAccess: publicAccess && JSON.stringify(publicAccess),
    ownership,
    recordReads,
  };
}

export async function settingsEntry(
  read: Reader,
  { id: bucketId, policy }: Bucket,
  toldSeq: number,
): Promise<SettingsEntry> {
  const documents = await readSettings(read, bucketId);
  if (policy !== null) documents.policy = policy;
  return { kind: 'settings', bucketId, toldSeq, documents };
}

/** Beyond this a segment ends; its last entry may be as long as it is. Bytes. */
const segmentBytesMax = 4 * 1024 * 1024;
/** Look-ups between which others get their turn of the thread. */
const entriesPerTurn = 50;

interface Segment {
  /** JSON of the entries. */
  lines: string[];
  /** They go into the head. */
  identities: IdentityEntry[];
  kept: KeptEntry[];
  /** All rows of the outbox up to here are told. */
  lastSeq: number;
  /** Rows of the catalog that are not authentic, and were left as the journal has them. */
  damaged: number;
}

interface SegmentSources {
  read: Reader;
  keyring: Keyring;
  /** Number of the store. */
  store: number;
  identityRows: IdentityRows;
}

/**
 * What has become of the first of `rows`, as many as fit: the present state of each version, which
 * may be a later one than the row tells of. `rows` are those of the outbox in order of seq, not
 * empty.
 */
export async function composeSegment(
  { read, keyring, store, identityRows }: SegmentSources,
  rows: readonly OutboxRow[],
): Promise<Segment> {
  const newest = new Map<string, OutboxRow>();
  for (const row of rows) newest.set(nameOf(row), row);
  const buckets = new Map<number, Bucket | undefined>();
  const segment: Segment = { lines: [], identities: [], kept: [], lastSeq: -1, damaged: 0 };
  const told = new Set<string>();
  // All of them were committed before anything is looked up.
  const listedSeq = rows.at(-1)?.seq ?? -1;
  let bytes = 0;
  const add = (entry: Entry): void => {
    const line = JSON.stringify(entry);
    bytes += Buffer.byteLength(line);
    segment.lines.push(line);
  };
  const addThings = async (seq: number): Promise<void> => {
    for (const thing of await listThings(read, store, seq)) {
      const name = JSON.stringify(thing);
      // What is said of it is as new as anything of this segment.
      if (told.has(name)) continue;
      told.add(name);
      if (++looked % entriesPerTurn === 0) await nextTurn();
      const entry = await unlessDamaged(identityRows.find(thing));
      if (entry === damaged) {
        segment.damaged++;
        continue;
      }
      bytes += Buffer.byteLength(JSON.stringify(entry));
      segment.identities.push(entry);
    }
  };
  let looked = 0;
  const bucketFor = async (bucketId: number): Promise<Bucket | undefined> => {
    if (!buckets.has(bucketId)) {
      const found = await unlessDamaged(getBucket(read, bucketId));
      buckets.set(bucketId, found === damaged ? undefined : found);
      if (found === damaged) segment.damaged++;
      else add(found ? bucketEntry(found, listedSeq) : { kind: 'bucketGone', id: bucketId });
    }
    return buckets.get(bucketId);
  };
  /** Gives what was told. */
  const addRow = async (row: OutboxRow): Promise<Entry | null> => {
    const bucket = await bucketFor(row.bucketId);
    // A bucket that is gone has taken its keys with it.
    const entry = bucket ? await rowEntry(read, keyring, bucket, row) : null;
    if (entry) add(entry);
    else if (bucket) segment.damaged++;
    return entry;
  };
  const kept = new KeptRows({ read, keyring });
  /** Of each row: what became of a version later does not tell what was held before. */
  const addKept = async (row: OutboxRow): Promise<void> => {
    const bucket = await bucketFor(row.bucketId);
    if (!bucket) return;
    const { entries, damaged } = await kept.tell(bucket, row);
    for (const entry of entries) bytes += Buffer.byteLength(JSON.stringify(entry));
    segment.kept.push(...entries);
    segment.damaged += damaged;
  };
  /** The last row that tells what came to a key by a rename; the next one tells the other key. */
  let arrivedSeq = -1;
  for (const listed of rows) {
    if (bytes > segmentBytesMax) break;
    const { seq, timeMs, bucketId } = listed;
    if (bucketId === identitiesBucket) {
      await addThings(seq);
      segment.lastSeq = seq;
      continue;
    }
    const name = nameOf(listed);
    const row = newest.get(name);
    await addKept(listed);
    // Told already, with an earlier row of the same version; a snapshot by what is kept.
    if (row && !isOfSnapshot(row)) {
      if (++looked % entriesPerTurn === 0) await nextTurn();
      newest.delete(name);
      const entry = await addRow(row);
      if (entry?.kind === 'version' && wasRenamedAt(entry, timeMs)) arrivedSeq = seq;
    }
    segment.lastSeq = seq;
  }
  // No segment ends within a rename: what it lacked would be at both keys, or at none.
  const left = arrivedSeq === segment.lastSeq && (await findOutboxRow(read, store, arrivedSeq + 1));
  if (left && left.key !== null) {
    await addKept(left);
    await addRow(left);
    segment.lastSeq = left.seq;
  }
  return segment;
}

const damaged = Symbol('damaged');

/** What is not authentic is not told: what the journal says of it stays. */
async function unlessDamaged<T>(found: Promise<T>): Promise<T | typeof damaged> {
  try {
    return await found;
  } catch (error) {
    if (error instanceof IntegrityError) return damaged;
    throw error;
  }
}

/** Null: the version's row is not authentic, so what the journal says of it stays. */
async function rowEntry(
  read: Reader,
  keyring: Keyring,
  bucket: Bucket,
  { key, versionId, seq, timeMs }: OutboxRow,
): Promise<Entry | null> {
  try {
    if (key === null) return await settingsEntry(read, bucket, seq);
    const name = { key, versionId: versionId ?? 'null' };
    const version = await findNamed({ read, keyring }, bucket, name);
    if (version) return versionEntry(version, seq);
    return { kind: 'gone', bucketId: bucket.id, toldSeq: seq, key, versionId, timeMs };
  } catch (error) {
    if (error instanceof IntegrityError) return null;
    throw error;
  }
}

function wasRenamedAt({ attributes }: VersionEntry, timeMs: number): boolean {
  return (JSON.parse(attributes) as Attributes).renamedMs === timeMs;
}

function nameOf({
  bucketId,
  key,
  versionId,
}: Pick<OutboxRow, 'bucketId' | 'key' | 'versionId'>): string {
  return key === null ? String(bucketId) : `${bucketId}/${versionId ?? ''}/${key}`;
}

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
