// What a rebuild makes of plain writes that no journal tells of (tail.ts).
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { BucketEntry, Entry, VersionEntry } from '#bursar/ledger/journal/format.js';
import { Staging } from '#bursar/ledger/rebuild/staging.js';
import { placeTails } from '#bursar/ledger/rebuild/tail.js';

let folder: string;
let staging: Staging;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-tail-'));
  staging = Staging.open(join(folder, 'staging.db'));
});
afterEach(() => {
  staging.close();
  rmSync(folder, { recursive: true });
});

const idOne = '1'.repeat(32);
const bucket: BucketEntry = {
  ...{ kind: 'bucket', id: 1, toldSeq: 9, tenant: 'one', name: 'data', owner: 'alice' },
  ...{ createdMs: 1, versioning: 'Enabled', objectLock: '{}', publicAccess: null },
  ownership: null,
};
const version = (seq: number, told: Partial<VersionEntry> = {}): VersionEntry => ({
  ...{ kind: 'version', bucketId: 1, toldSeq: seq, key: 'a', versionId: null, isMarker: false },
  ...{ seq, createdMs: 1000 + seq, sizeBytes: 0, etag: `etag ${seq}`, sha256: null },
  ...{ class: 'STANDARD', owner: 'alice', attributes: '{}', manifest: '' },
  ...told,
});

/**
 * Takes what is told, and what the one extent of a write at 2,000 ms says; gives what is restored,
 * by ETag and id.
 */
async function restored(told: Entry[], last: { needsJournal?: true } = {}) {
  await staging.takeEntries(2, [bucket, ...told]);
  await takeWrite(2, last);
  return versions();
}

async function takeWrite(store: number, last: { needsJournal?: true } = {}): Promise<void> {
  const id = Buffer.alloc(16, 7);
  await staging.takeMetadata({
    ...{ id, store, trailerBytes: 300 },
    metadata: {
      ...{ tenant: 'one', bucket: 'data', bucketId: 1, key: 'a', write: id.toString('hex') },
      ...{ index: 0, offset: 0, extentBytes: 9, algorithm: 1, epoch: 1 },
      last: {
        ...{ extentCount: 1, sizeBytes: 9, etag: 'tail', sha256: '0'.repeat(64) },
        ...{ class: 'STANDARD', owner: 'alice', attributes: '{}', timeMs: 2000 },
        ...last,
      },
    },
  });
}

async function versions() {
  const [staged] = await staging.listBuckets();
  if (!staged) throw new Error('there is no bucket');
  await placeTails(staging, new Map([[1, { ...staged, snapshotMs: null }]]));
  const found: [string, string | null][] = [];
  for await (const { version: one } of staging.listVersions())
    found.push([one.etag, one.versionId]);
  return found;
}

it('a write from before the bucket had versioning is restored as the null version', async () => {
  expect(await restored([version(3, { versionId: idOne })])).toEqual([
    ['etag 3', idOne],
    ['tail', null],
  ]);
});

it('a null version that a bucket with versioning keeps is replaced by none', async () => {
  const both = [
    ['etag 3', null],
    ['tail', '07'.repeat(16)],
  ];
  expect(await restored([version(3)])).toEqual(both);
});

it('a null version of a bucket without versioning is', async () => {
  const unversioned = { ...bucket, toldSeq: 10, versioning: 'Unversioned' } as const;
  expect(await restored([unversioned, version(3)])).toEqual([['tail', null]]);
});

it('what is older than a version or a marker with an id does not hide it', async () => {
  const marker = version(3, { versionId: idOne, isMarker: true, createdMs: 2001 });
  expect(await restored([marker])).toEqual([['etag 3', idOne]]);
});

it('a write that waited for the journal, which does not tell of it, is not', async () => {
  expect(await restored([version(3)], { needsJournal: true })).toEqual([['etag 3', null]]);
});

it('a copy of an extent in another store neither hides a write nor makes another', async () => {
  await staging.takeEntries(2, [bucket]);
  for (const store of [1, 2, 3]) {
    await staging.takeExtents(store, [{ id: Buffer.alloc(16, 7), sizeBytes: store }]);
    await takeWrite(store);
  }
  expect(await staging.findExtent(2, Buffer.alloc(16, 7))).toEqual({ sizeBytes: 2 });
  expect(await versions()).toEqual([['tail', null]]);
});
