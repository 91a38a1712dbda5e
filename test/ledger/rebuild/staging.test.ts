// What is staged does not depend on the order in which a journal is read.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { mustBeTold } from '#bursar/backup/forward/database.js';
import { newExtentId } from '#bursar/core/ids.js';
import { encodeManifest } from '#bursar/core/manifest.js';
import type { BucketEntry, Entry, VersionEntry } from '#bursar/ledger/journal/format.js';
import { Staging } from '#bursar/ledger/rebuild/staging.js';
import { openLedger } from '../fixture.ts';

let folder: string;
let staging: Staging;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-staging-'));
  staging = Staging.open(join(folder, 'staging.db'));
});
afterEach(() => {
  staging.close();
  rmSync(folder, { recursive: true });
});

const bucket = (id: number, name = 'data', told: Partial<BucketEntry> = {}): BucketEntry => ({
  ...{ kind: 'bucket', id, toldSeq: id, tenant: 'one', name, owner: 'alice', createdMs: id },
  ...{ versioning: 'Unversioned', objectLock: null, publicAccess: null, ownership: null },
  ...told,
});
const version = (key: string, seq: number, told: Partial<VersionEntry> = {}): VersionEntry => ({
  kind: 'version',
  bucketId: 1,
  toldSeq: seq,
  key,
  versionId: null,
  isMarker: false,
  seq,
  createdMs: 1000 + seq,
  sizeBytes: 0,
  etag: `etag ${seq}`,
  sha256: null,
  class: 'STANDARD',
  owner: 'alice',
  attributes: '{}',
  manifest: '',
  ...told,
});
const gone = (key: string, toldSeq: number, versionId: string | null = null): Entry => {
  return { kind: 'gone', bucketId: 1, toldSeq, key, versionId, timeMs: 1000 + toldSeq };
};
const [idOne, idTwo] = ['1'.repeat(32), '2'.repeat(32)];

async function staged(): Promise<string[]> {
  const found: string[] = [];
  for await (const { version } of staging.listVersions()) {
    found.push(`${version.key} ${version.seq}`);
  }
  return found;
}

/** All orders of a few things. */
function orders<T>(things: T[]): T[][] {
  if (things.length < 2) return [things];
  return things.flatMap((first, i) =>
    orders(things.toSpliced(i, 1)).map((rest) => [first, ...rest]),
  );
}

it('the newest word on a key holds, in whatever order words come', async () => {
  const words = [version('a', 3), gone('a', 5), version('a', 9), version('a', 4)];
  for (const [i, order] of orders(words).entries()) {
    for (const word of order) {
      await staging.takeEntries(2, [{ ...word, key: `a${i}` } as Entry]);
    }
  }
  await staging.takeEntries(2, [bucket(1)]);
  expect((await staged()).every((one) => one.endsWith(' 9'))).toBe(true);
  expect(await staged()).toHaveLength(24);
});

it('each version of a key has its own newest word, in whatever order words come', async () => {
  const words = [
    version('a', 2),
    version('a', 3, { versionId: idOne }),
    version('a', 5, { versionId: idTwo, isMarker: true }),
    gone('a', 6, idOne),
    gone('a', 4, idTwo),
  ];
  for (const [i, order] of orders(words).entries()) {
    for (const word of order) {
      await staging.takeEntries(2, [{ ...word, key: `a${i}` } as Entry]);
    }
  }
  await staging.takeEntries(2, [bucket(1)]);
  const found = await staged();
  expect(found.filter((one) => one.endsWith(' 2'))).toHaveLength(120);
  expect(found.filter((one) => one.endsWith(' 5'))).toHaveLength(120);
  expect(found).toHaveLength(240);
});

it('what was changed of a version last holds, and does not count as its end', async () => {
  const run = { id: Buffer.alloc(16, 1), store: 2, algorithm: 1, epoch: 1, offset: 0 };
  const runs = [{ ...run, extentBytes: 9, length: 9, trailerBytes: 300 }];
  const manifest = encodeManifest(runs).toString('base64');
  const told = (toldSeq: number, attributes: string) =>
    version('a', 3, { toldSeq, attributes, manifest });
  await staging.takeExtents(2, [{ id: run.id, sizeBytes: 9 }]);
  const of = (name: string) => JSON.stringify({ headers: {}, metadata: { name } });
  const all = [told(3, of('first')), told(8, of('last')), told(5, of('between'))];
  for (const order of orders(all)) {
    await staging.takeEntries(2, [bucket(1), ...order]);
    for await (const { version } of staging.listVersions()) {
      expect(version.attributes).toBe(of('last'));
    }
  }
  const unnamed: Buffer[] = [];
  for await (const page of staging.listUnnamed(2, 10)) unnamed.push(...page);
  // Nothing that was told of it has replaced it.
  expect(unnamed).toEqual([run.id]);
});

it('the newest word on a bucket and its settings holds, in whatever order words come', async () => {
  const settings = (toldSeq: number): Entry => {
    return { kind: 'settings', bucketId: 1, toldSeq, documents: { policy: `of ${toldSeq}` } };
  };
  const words = [
    ...[bucket(1, 'data', { toldSeq: 4 }), settings(4), settings(9)],
    bucket(1, 'data', { toldSeq: 7, versioning: 'Enabled', objectLock: '{}' }),
  ];
  for (const order of orders(words)) {
    await staging.takeEntries(2, order);
    expect(await staging.listBuckets()).toEqual([
      expect.objectContaining({
        ...{ versioning: 'Enabled', objectLock: '{}' },
        documents: { policy: 'of 9' },
      }),
    ]);
  }
});

it('that there is nothing holds against what is equally new', async () => {
  for (const order of orders([version('a', 5), gone('a', 5)])) {
    await staging.takeEntries(2, [bucket(1), ...order]);
    expect(await staged()).toEqual([]);
  }
});

it('a bucket that is gone stays so, with its keys', async () => {
  for (const order of orders([bucket(1), { kind: 'bucketGone', id: 1 } satisfies Entry])) {
    await staging.takeEntries(2, [...order, version('a', 1)]);
    expect(await staging.listBuckets()).toEqual([]);
    expect(await staged()).toEqual([]);
  }
});

it('versions come in the order in which they were made, the tail last', async () => {
  await staging.takeEntries(2, [bucket(1), version('b', 7), version('a', 9), version('c', 2)]);
  await staging.placeTail(version('b', 0));
  expect(await staged()).toEqual(['c 2', 'a 9', 'b 0']);
});

it('an extent of a version whose end is told is asked for nothing, in whatever order', async () => {
  const ids = [1, 2, 3, 4].map((fill) => Buffer.alloc(16, fill));
  const holding = (key: string, seq: number, fill: number): VersionEntry => {
    const run = { id: ids[fill - 1] as Buffer, store: 2, algorithm: 1, epoch: 1, offset: 0 };
    const runs = [{ ...run, extentBytes: 9, length: 9, trailerBytes: 300 }];
    return { ...version(key, seq), manifest: encodeManifest(runs).toString('base64') };
  };
  const inGone: Entry = { ...holding('d', 4, 4), bucketId: 2 };
  const told = [holding('a', 3, 1), gone('a', 8), holding('b', 11, 2), gone('b', 12), bucket(1)];
  await staging.takeExtents(
    2,
    ids.map((id) => ({ id, sizeBytes: 9 })),
  );
  for (const order of orders(told)) {
    await staging.takeEntries(2, [...order, holding('c', 5, 3), holding('c', 5, 3), inGone]);
  }
  await staging.takeEntries(2, [{ kind: 'bucketGone', id: 2 }]);
  await staging.replaceInGoneBuckets();
  const unnamed: number[] = [];
  for await (const page of staging.listUnnamed(2, 10))
    unnamed.push(...page.map(([fill]) => fill ?? 0));
  // 3 is current, which others say; of 2 it is not told yet what became of its writer.
  expect(unnamed).toEqual([2, 3]);
});

it('of two buckets of a name in one store, the later one is there', async () => {
  await staging.takeEntries(2, [bucket(4), bucket(1), bucket(2, 'other')]);
  await staging.dropReplacedBuckets();
  expect((await staging.listBuckets()).map(({ id }) => id)).toEqual([2, 4]);
  expect(await staging.listConflicts()).toEqual([]);
});

it('stores that claim a bucket both are in conflict, by its id or by its name', async () => {
  await staging.takeEntries(2, [bucket(1), bucket(2, 'same name')]);
  await staging.takeEntries(3, [bucket(1, 'same id'), bucket(5, 'same name')]);
  await staging.dropReplacedBuckets();
  expect((await staging.listConflicts()).sort()).toEqual(['one/same id', 'one/same name']);
});

it('what a database knows to be over is, whatever a shortened journal says', async () => {
  const journal = [
    bucket(1),
    ...[version('kept', 2), version('ended', 3), version('damaged', 4), version('newer', 9)],
    bucket(5, 'deleted'),
  ];
  const database = [bucket(1, 'data', { toldSeq: 6 }), version('kept', 2, { toldSeq: 6 })];
  await staging.takeEntries(2, journal);
  await staging.takeEntries(2, database);
  await staging.affirm({ bucketId: 1, key: 'damaged', versionId: null }, 6);
  await staging.dropOlder(2, 6);
  expect(await staged()).toEqual(['kept 2', 'damaged 4', 'newer 9']);
  expect((await staging.listBuckets()).map(({ name }) => name)).toEqual(['data']);
  const ended = await staging.findVersion({ bucketId: 1, key: 'ended', versionId: null });
  expect(ended).toEqual({ version: null, isTail: false, toldSeq: 3 });
});

it('of local buckets has what a database knows, whenever a journal was shortened', async () => {
  const fixture = await openLedger();
  const [known, since] = [newExtentId(), newExtentId()];
  const hex = known.toString('hex');
  await fixture.edit(`INSERT INTO extents VALUES (x'${hex}', 2, 'one', 1, 1, 1, NULL, NULL)`);
  const later = Date.now() + 3_600_000;
  const untold = async (id: Buffer, bucketId: number, name: string): Promise<string[]> => {
    const about = { tenant: 'one', bucket: name, bucketId, key: 'k', write: hex, index: 0 };
    const metadata = { ...about, offset: 0, extentBytes: 1, algorithm: 2, epoch: 1 };
    const extent = { id, store: 2, trailerBytes: 550, metadata };
    await staging.takeMetadata(extent, await mustBeTold(fixture.read, extent));
    return staging.listUntold(2, later, 10);
  };
  expect(await untold(known, 1, 'data')).toEqual([]);
  // Without classes, what is of a newer bucket is of one in the store, which its snapshot had.
  expect(await untold(since, 9, 'newer')).toEqual([]);
  expect(await untold(since, 1, 'data')).toEqual(['one/data']);
  await fixture.edit("INSERT INTO classes VALUES ('one', 'derived', '{}', 1)");
  expect(await untold(since, 9, 'newer')).toEqual(['one/data', 'one/newer']);
  await fixture.close();
});
