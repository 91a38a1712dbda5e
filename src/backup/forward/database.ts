// The restored database as a source beside the journal that it has written itself: of what happened
// before it was copied it knows all, whoever has shortened that journal since. So it is staged as a
// snapshot that tells of every change up to its last one in the store; what the journal says of
// later ones is newer, and what it says of earlier ones counts for nothing.
import { getBucket, listStoreBuckets } from '../../catalog/buckets.ts';
import { listAllClasses } from '../../catalog/class-rows.ts';
import { isKnownExtent } from '../../catalog/extent-copies.ts';
import { listOutbox } from '../../catalog/outbox.ts';
import { readNamed, type Version } from '../../catalog/versions.ts';
import type { Reader } from '../../core/database.ts';
import { localStore } from '../../core/manifest.ts';
import type { Entry } from '../../ledger/journal/format.ts';
import { identitiesBucket } from '../../ledger/journal/identity-outbox.ts';
import { listKeptEntries } from '../../ledger/journal/kept-entries.ts';
import { listEntries } from '../../ledger/journal/snapshot.ts';
import type { MustBeTold } from '../../ledger/rebuild/staged-entries.ts';
import type { StagedExtent } from '../../ledger/rebuild/staging.ts';
import type { Work } from '../../ledger/rebuild/work.ts';
import type { ForwardStore } from './stores.ts';

const rowsPerQuery = 500;

/**
 * The last change in a store that the database had to tell its journal there; -1: there was none.
 */
export async function databaseSeq(
  read: Reader,
  { store, journal }: Pick<ForwardStore, 'store' | 'journal'>,
): Promise<number> {
  const sql = 'SELECT max(seq) AS seq FROM outbox WHERE store = ?';
  const last = await read.get<{ seq: number | null }>(sql, store.number);
  return Math.max(journal.toldSeq, last?.seq ?? -1);
}

/** Stages what the database knows of a store whose journal was replayed. */
export async function stageDatabase(work: Work, read: Reader, one: ForwardStore): Promise<void> {
  const { staging, keyring } = work;
  const { store } = one;
  const toldSeq = await databaseSeq(read, one);
  if (toldSeq < 0) return;
  const damaged: Version[] = [];
  const onDamaged = (version: Version): void => void damaged.push(version);
  const source = { read, keyring, store, beginSeq: toldSeq + 1, onDamaged };
  let staged = 0;
  for await (const entries of listEntries(source)) {
    await staging.takeEntries(store.number, entries);
    staged += entries.length;
    work.onProgress(`reading what the database has of ${store.name}`, staged);
  }
  await stageKept(work, read, one, toldSeq);
  // Of a damaged version, what the journal says stays.
  for (const version of damaged) await staging.affirm(version, toldSeq);
  const ends: Entry[] = [];
  const pending = await listOutbox(read, store.number, Number.MAX_SAFE_INTEGER);
  for (const { bucketId, key, versionId, timeMs } of pending) {
    if (bucketId === identitiesBucket || key === null) continue;
    if (await readNamed(read, bucketId, { key, versionId: versionId ?? 'null' })) continue;
    ends.push({ kind: 'gone', bucketId, toldSeq, key, versionId, timeMs });
  }
  await staging.takeEntries(store.number, ends);
  await staging.dropOlder(store.number, toldSeq);
  one.toldSeq = Math.max(one.toldSeq, toldSeq);
  one.databaseSeq = toldSeq;
  one.snapshotMs = await laterOf(read, one);
}

/**
 * Whether a journal has to tell of an extent that nothing staged names. None tells of buckets in
 * the data folder, whose classes may have legs in stores: what the database has of these is its
 * own, and what it has not was written after the backup. So may be what is of a bucket that is
 * newer than it, where there are classes.
 */
export async function mustBeTold(
  read: Reader,
  { id, metadata }: Pick<StagedExtent, 'id' | 'metadata'>,
): Promise<MustBeTold> {
  const bucket = await getBucket(read, metadata.bucketId);
  if (bucket) {
    if (bucket.store > localStore) return 'byTime';
    return (await isKnownExtent(read, id)) ? 'never' : 'always';
  }
  const sql = "SELECT seq FROM sqlite_sequence WHERE name = 'buckets'";
  const newest = (await read.get<{ seq: number }>(sql))?.seq ?? 0;
  const isNewer = metadata.bucketId > newest;
  return isNewer && (await listAllClasses(read)).length > 0 ? 'always' : 'byTime';
}

/** Its snapshots, and what is held. */
async function stageKept(
  { staging, keyring }: Work,
  read: Reader,
  { store }: ForwardStore,
  toldSeq: number,
): Promise<void> {
  const of = { toldSeq, max: rowsPerQuery, skipsDamaged: true };
  for await (const buckets of listStoreBuckets(read, store.number, rowsPerQuery)) {
    for (const bucket of buckets) {
      for await (const entries of listKeptEntries({ read, keyring }, bucket, of)) {
        await staging.kept.take(entries);
      }
    }
  }
}

/**
 * Plain writes of before the last change that was told, and that the database has not, have ended.
 */
async function laterOf(
  read: Reader,
  { snapshotMs, journal }: ForwardStore,
): Promise<number | null> {
  const sql = 'SELECT time_ms AS timeMs FROM records WHERE idx = ?';
  const row = await read.get<{ timeMs: number }>(sql, journal.toldSeq);
  return row ? Math.max(snapshotMs ?? 0, row.timeMs) : snapshotMs;
}
