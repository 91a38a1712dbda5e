// Objects of so many extents that their manifests lie apart from their rows: whatever becomes of a
// version, its extents are named once for it, and let go of when nothing has it any more.
import { afterEach, beforeEach, expect, it } from 'vitest';
import { sealObject } from '#bursar/catalog/authentic.js';
import { listKept } from '#bursar/catalog/kept-versions.js';
import { isUnchanged } from '#bursar/catalog/scrub.js';
import { findAt } from '#bursar/catalog/snapshot-reads.js';
import { findNamed, type Version } from '#bursar/catalog/versions.js';
import { newExtentId } from '#bursar/core/ids.js';
import { rowManifestBytesMax } from '#bursar/core/limits.js';
import { decodeManifest, encodeManifest } from '#bursar/core/manifest.js';
import type { Change } from '#bursar/ledger/commands/index.js';
import { commitOf, keyring, type LedgerFixture, openLedger, putOf } from '../ledger/fixture.ts';

const bucket = { id: 1, tenant: 'one', name: 'data' };
const any = { ifMatch: null, ifNoneMatch: null };
/** More than one slice lets go of. */
const extentCount = 2500;
let fixture: LedgerFixture;
let object: ReturnType<typeof draft>;

beforeEach(async () => {
  fixture = await openLedger();
  const ids = Array.from({ length: extentCount }, newExtentId);
  await fixture.ledger.maintain({ kind: 'declareExtents', store: 1, ids });
  object = draft(ids);
  await commit({
    ...{ kind: 'putObject', bucketId: 1, key: 'a', conditions: any, object },
    ...{ extentIds: ids, inline: null },
  });
});
afterEach(() => fixture.close());

function draft(ids: Buffer[]) {
  const runs = ids.map((id) => ({
    ...{ id, store: 1, algorithm: 1, epoch: 1, extentBytes: 10, offset: 0, length: 10 },
    trailerBytes: 0,
  }));
  return sealObject(keyring, {
    ...{ tenant: 'one', sizeBytes: 10 * ids.length, etag: 'etag', sha256: null },
    ...{ class: 'STANDARD', owner: 'alice', attributes: '{}', manifest: encodeManifest(runs) },
  });
}

const catalog = () => ({ read: fixture.read, keyring });

async function commit(change: Change): Promise<number> {
  const key = 'key' in change && typeof change.key === 'string' ? change.key : null;
  const result = await fixture.ledger.commit(commitOf(change, key));
  if (!result.ok) throw new Error(`refused: ${result.code}`);
  return result.index ?? -1;
}

async function find(key: string): Promise<Version> {
  const version = await findNamed(catalog(), bucket, { key });
  if (!version) throw new Error(`there is no ${key}`);
  return version;
}

const snapshot = (name: string): Change => ({
  ...{ kind: 'createSnapshot', bucketId: 1, name, prefix: '', expiresMs: null, lock: null },
});
const remove = (key: string): Change => ({
  ...{ kind: 'deleteObject', bucketId: 1, key, conditions: any },
});
async function rename(from: string, to: string): Promise<number> {
  const { seq } = await find(from);
  const source = { key: from, seq };
  const asked = { kind: 'renameObject', bucketId: 1, key: to, conditions: any } as const;
  return commit({ ...asked, source, token: null });
}

async function uses(): Promise<number[]> {
  const sql = 'SELECT uses FROM long_manifest_uses ORDER BY id';
  return (await fixture.read.all<{ uses: number }>(sql)).map((row) => row.uses);
}

/** How many extents there are of each count of references, and how many are condemned. */
async function extents(): Promise<Record<string, number>> {
  const rows = await fixture.read.all<{ name: string; count: number }>(
    `SELECT iif(state = 1, refs || '', 'condemned') AS name, count(*) AS count
       FROM extents GROUP BY name`,
  );
  return Object.fromEntries(rows.map(({ name, count }) => [name, count]));
}

async function purge(): Promise<number> {
  while ((await fixture.ledger.maintain({ kind: 'purgeEnded', max: 10 })) > 0);
  let slices = 0;
  while ((await fixture.ledger.maintain({ kind: 'dropLongManifest' })) > 0) slices++;
  return slices;
}

const place = async (key: string) => ({ bucketId: 1, key, seq: (await find(key)).seq });

it('is read as it was written, in every way', async () => {
  const version = await find('a');
  expect(Buffer.compare(version.manifest, object.manifest)).toBe(0);
  const [row] = await fixture.read.all<{ type: string }>(
    'SELECT typeof(manifest) AS type FROM versions',
  );
  expect(row?.type).toBe('integer');
  const [kept] = await listKept(fixture.read, { bucketId: 1, after: null, max: 10 });
  expect(decodeManifest(kept?.manifest ?? Buffer.alloc(1))).toHaveLength(extentCount);
  expect(await isUnchanged(fixture.read, await place('a'), version)).toBe(true);
  const other = { ...version, manifest: version.manifest.subarray(36) };
  expect(await isUnchanged(fixture.read, await place('a'), other)).toBe(false);
});

it('lies in its row up to the bound, and apart from one run more on', async () => {
  const most = Math.floor(rowManifestBytesMax / 36);
  for (const count of [most, most + 1]) {
    const ids = Array.from({ length: count }, newExtentId);
    await fixture.ledger.maintain({ kind: 'declareExtents', store: 1, ids });
    const key = `of ${count}`;
    const put = { kind: 'putObject', bucketId: 1, key, conditions: any } as const;
    await commit({ ...put, object: draft(ids), extentIds: ids, inline: null });
    expect((await uses()).length).toBe(count === most ? 1 : 2);
    expect(decodeManifest((await find(key)).manifest)).toHaveLength(count);
  }
});

it('goes with its version to another key, and leaves its extents alone', async () => {
  await rename('a', 'b');
  expect(await findNamed(catalog(), bucket, { key: 'a' })).toBeUndefined();
  expect(Buffer.compare((await find('b')).manifest, object.manifest)).toBe(0);
  expect([await uses(), await extents()]).toEqual([[1], { 1: extentCount }]);
  expect(await purge()).toBe(0);
});

it('is let go of in slices when its version ends, whatever dies between them', async () => {
  await commit(remove('a'));
  expect([await uses(), await extents()]).toEqual([[1], { 1: extentCount }]);
  await fixture.ledger.maintain({ kind: 'purgeEnded', max: 10 });
  expect([await uses(), await extents()]).toEqual([[0], { 1: extentCount }]);
  expect(await fixture.ledger.maintain({ kind: 'dropLongManifest' })).toBe(1000);
  expect(await extents()).toEqual({ 1: 1500, condemned: 1000 });
  await fixture.reopen();
  expect(await purge()).toBe(2);
  expect([await uses(), await extents()]).toEqual([[], { condemned: extentCount }]);
  expect(await fixture.read.get('SELECT 1 FROM long_manifests')).toBeUndefined();
});

it('is let go of whole where its length is a multiple of a slice', async () => {
  await commit(remove('a'));
  await purge();
  const ids = Array.from({ length: 2000 }, newExtentId);
  await fixture.ledger.maintain({ kind: 'declareExtents', store: 1, ids });
  const put = { kind: 'putObject', bucketId: 1, key: 'b', conditions: any } as const;
  await commit({ ...put, object: draft(ids), extentIds: ids, inline: null });
  await commit(remove('b'));
  await purge();
  expect([await uses(), await extents()]).toEqual([[], { condemned: extentCount + 2000 }]);
});

it('is shared by a version, its images, and one that was renamed under a snapshot', async () => {
  const at = await commit(snapshot('then'));
  const amendment = { tags: [['of', 'later'] as const] };
  await commit({ kind: 'amendVersion', bucketId: 1, key: 'a', amendment });
  expect(await uses()).toEqual([2]);
  await rename('a', 'b');
  expect(await uses()).toEqual([3]);
  expect(await extents()).toEqual({ 1: extentCount });
  const held = await findAt(catalog(), bucket, { key: 'a', at });
  expect(Buffer.compare(held?.manifest ?? Buffer.alloc(0), object.manifest)).toBe(0);
  await commit(remove('b'));
  await purge();
  expect(await uses()).toEqual([2]);
  await commit({ kind: 'deleteSnapshot', bucketId: 1, name: 'then' });
  const work = { kind: 'releaseHeld', bucketId: 1, seq: at, max: 10 } as const;
  while ((await fixture.ledger.maintain({ ...work, book: 'aws-us-east-1-2026' })) > 0);
  expect(await uses()).toEqual([0]);
  await purge();
  expect([await uses(), await extents()]).toEqual([[], { condemned: extentCount }]);
});

it('is kept as a noncurrent version, and comes back', async () => {
  await commit({ kind: 'setVersioning', bucketId: 1, versioning: 'Enabled' });
  await commit(putOf('a').change);
  expect(await uses()).toEqual([1]);
  const { versionId } = await find('a');
  await commit({ ...remove('a'), versionId: versionId ?? 'null' } as Change);
  expect(Buffer.compare((await find('a')).manifest, object.manifest)).toBe(0);
  expect(await uses()).toEqual([1]);
});

it('that is gone, or altered, is damage of the versions that name it', async () => {
  const altered = 'UPDATE long_manifests SET manifest = substr(manifest, 37)';
  for (const sql of [altered, 'DELETE FROM long_manifests']) {
    fixture.edit(sql);
    await expect(find('a')).rejects.toThrow('is not authentic');
  }
  // Nobody's extents are let go of for what a damaged row says.
  await commit(remove('a'));
  await purge();
  expect(await extents()).toEqual({ 1: extentCount });
});
