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

/** Takes what is told, and what the one extent of a write at 2,000 ms says; gives what is restored. */
async function restored(told: Entry[], last: { needsJournal?: true } = {}): Promise<string[]> {
  await staging.takeEntries(2, [bucket, ...told]);
  const id = Buffer.alloc(16, 7);
  await staging.takeMetadata({
    ...{ id, store: 2, trailerBytes: 300 },
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
  const [staged] = await staging.listBuckets();
  if (!staged) throw new Error('there is no bucket');
  await placeTails(staging, new Map([[1, { ...staged, snapshotMs: null }]]));
  const found: string[] = [];
  for await (const { version: one } of staging.listVersions()) found.push(one.etag);
  return found;
}

it('a write from before the bucket had versioning is restored as the null version', async () => {
  expect(await restored([version(3)])).toEqual(['tail']);
});

it('a write that waited for the journal, which does not tell of it, is not', async () => {
  expect(await restored([version(3)], { needsJournal: true })).toEqual(['etag 3']);
});

it('versions with an id stay beside it', async () => {
  expect(await restored([version(3, { versionId: idOne })])).toEqual(['etag 3', 'tail']);
});

it.each([
  ['a retention', { retention: { mode: 'COMPLIANCE', untilMs: 1 } }],
  ['a legal hold', { legalHold: true }],
])('a null version under %s is replaced by none', async (_, attributes) => {
  const locked = version(3, { toldSeq: 8, attributes: JSON.stringify(attributes) });
  expect(await restored([locked])).toEqual(['etag 3']);
});
