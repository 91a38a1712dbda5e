// A snapshot of what one S3 store holds, and of all identities: buckets, kept versions and known
// garbage, in pages,
// then the object that completes it. Read while others write, so a page may know of later changes
// than the one before it; the segments since its begin bring all to the same moment. Invariant: a
// snapshot counts only when it is complete, and then it tells of every change before its begin.
import { verifyVersion } from '../../catalog/authentic.ts';
import { type Bucket, listStoreBuckets } from '../../catalog/buckets.ts';
import type { JournalObjectRow } from '../../catalog/journal-objects.ts';
import { listKept } from '../../catalog/kept-versions.ts';
import { listGarbage } from '../../catalog/stores.ts';
import type { Version } from '../../catalog/versions.ts';
import type { Reader } from '../../core/database.ts';
import { IntegrityError } from '../../core/errors.ts';
import type { Keyring } from '../../core/keyring.ts';
import { pages } from '../../core/pages.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import { bucketEntry, nextTurn, settingsEntry } from './entries.ts';
import { completeName, type Entry, type Head, objectName, pageName, sealObject } from './format.ts';
import { type IdentityEntry, type Tells, thingKinds } from './identity-format.ts';
import { IdentityRows } from './identity-rows.ts';
import { objectRow } from './inventory.ts';
import { listKeptEntries } from './kept-entries.ts';
import type { KeptEntry } from './kept-format.ts';
import { versionEntry } from './version-entry.ts';

interface SnapshotOptions {
  read: Reader;
  keyring: Keyring;
  store: RemoteStore;
  generation: string;
  /** Every change before it is visible to `read`. */
  beginSeq: number;
  /** What of identities. */
  tells: Tells;
  /** Asked between pages. */
  isStopped?: () => boolean;
}

const pageBytesMax = 4 * 1024 * 1024;
const rowsPerQuery = 100;

/**
 * Gives what the snapshot consists of; null when it was stopped. Throws IntegrityError on a row
 * that is not authentic, and what the store throws: then the snapshot is not complete.
 */
export async function writeSnapshot(options: SnapshotOptions): Promise<JournalObjectRow[] | null> {
  const { store, keyring, generation, beginSeq } = options;
  const timeMs = Date.now();
  const objects: JournalObjectRow[] = [];
  const put = async (name: string, head: Head, lines: readonly string[]): Promise<void> => {
    const place = { generation, name };
    const sealed = sealObject(keyring, place, [JSON.stringify(head), ...lines]);
    await store.putObject(objectName(place), sealed);
    objects.push(objectRow(name, null, sealed));
  };
  let pages = 0;
  let lines: string[] = [];
  let identities: IdentityEntry[] = [];
  let kept: KeptEntry[] = [];
  let bytes = 0;
  const putPage = async (): Promise<void> => {
    const told = {
      ...(identities.length > 0 && { identities }),
      ...(kept.length > 0 && { kept }),
    };
    await put(pageName(beginSeq, pages++), { kind: 'page', beginSeq, timeMs, ...told }, lines);
    lines = [];
    identities = [];
    kept = [];
    bytes = 0;
  };
  for await (const some of listIdentities(options)) {
    if (options.isStopped?.()) return null;
    for (const one of some) {
      identities.push(one);
      bytes += JSON.stringify(one).length;
      if (bytes > pageBytesMax) await putPage();
    }
    await nextTurn();
  }
  for await (const entries of listEntries(options)) {
    if (options.isStopped?.()) return null;
    for (const entry of entries) {
      const line = JSON.stringify(entry);
      bytes += line.length;
      lines.push(line);
      if (bytes > pageBytesMax) await putPage();
    }
    await nextTurn();
  }
  for await (const some of listKeptOf(options)) {
    if (options.isStopped?.()) return null;
    for (const one of some) {
      kept.push(one);
      bytes += JSON.stringify(one).length;
      if (bytes > pageBytesMax) await putPage();
    }
    await nextTurn();
  }
  if (lines.length + identities.length + kept.length > 0) await putPage();
  const { tells } = options;
  await put(completeName(beginSeq), { kind: 'complete', beginSeq, pages, timeMs, tells }, []);
  return objects;
}

async function* listIdentities({ read, tells }: SnapshotOptions): AsyncGenerator<IdentityEntry[]> {
  const rows = new IdentityRows(read, { withKeys: tells === 'identitiesAndKeys' });
  yield* rows.listRetired();
  for (const kind of thingKinds) if (kind !== 'publicKey') yield* rows.list(kind);
}

async function* listKeptOf(options: SnapshotOptions): AsyncGenerator<KeptEntry[]> {
  const { read, store, beginSeq } = options;
  const of = { toldSeq: Math.max(0, beginSeq - 1), max: rowsPerQuery };
  for await (const buckets of listStoreBuckets(read, store.number, rowsPerQuery)) {
    for (const bucket of buckets) yield* listKeptEntries(options, bucket, of);
  }
}

interface StoreContents extends Pick<SnapshotOptions, 'read' | 'keyring' | 'beginSeq'> {
  store: { number: number };
  /** Called with rows that are not authentic; where it is not given, they end the walk. */
  onDamaged?: (version: Version) => void;
}

/**
 * What the catalog says of a store's buckets, versions and garbage, as of the change before
 * `beginSeq`. Throws IntegrityError on a row that is not authentic, unless there is `onDamaged`.
 */
export async function* listEntries(options: StoreContents): AsyncGenerator<Entry[]> {
  const { read, store, beginSeq } = options;
  const toldSeq = Math.max(0, beginSeq - 1);
  for await (const buckets of listStoreBuckets(read, store.number, rowsPerQuery)) {
    for (const bucket of buckets) {
      // Before its versions: whatever was written before it was as it is told here is among them.
      yield [bucketEntry(bucket, toldSeq), await settingsEntry(read, bucket, toldSeq)];
      yield* listVersions(options, bucket, toldSeq);
    }
  }
  for await (const ids of listGarbage(read, store.number, rowsPerQuery)) {
    yield [{ kind: 'garbage', ids }];
  }
}

async function* listVersions(
  { read, keyring, onDamaged }: StoreContents,
  bucket: Bucket,
  toldSeq: number,
): AsyncGenerator<Entry[]> {
  const of = { bucketId: bucket.id, max: rowsPerQuery };
  for await (const versions of pages<Version>((last) =>
    listKept(read, { ...of, after: last ?? null }),
  )) {
    yield versions.flatMap((version) => {
      try {
        verifyVersion(keyring, bucket, version);
      } catch (error) {
        if (!onDamaged || !(error instanceof IntegrityError)) throw error;
        onDamaged(version);
        return [];
      }
      return versionEntry(version, toldSeq);
    });
  }
}
