// The undelete window against a served gateway: what was deleted or overwritten, without versioning
// and without a snapshot, is shown as of any moment since, and comes back by one command.
import { createHash } from 'node:crypto';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { S3Client } from '../fault/s3-client.ts';
import { CatalogEditor } from '../tooling/attacks.ts';
import { operator, operatorSettings, send } from '../tooling/filled-folder.ts';
import { metricsToken } from '../tooling/served-gateway.ts';
import { type Outcome, type Served, Workplace } from './command.ts';

// Each step is a process of its own, and the machine may be busy.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let place: Workplace;
let served: Served;
let client: S3Client;

beforeAll(async () => {
  place = new Workplace();
  served = await place.serve([], operatorSettings);
  client = new S3Client({ endpoint: served.endpoint, ...operator });
  await send(client, 'PUT', '/raw');
});

afterAll(async () => {
  client?.close();
  await place.remove();
});

async function json(...args: string[]) {
  const { code, stdout, stderr } = await place.run([...args, '--json']);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

async function bodyOf(path: string): Promise<string> {
  const { status, body } = await client.send('GET', path);
  return status === 200 ? body.toString() : `${status}`;
}

/** A moment that is over, after all that was done and before all that will be. */
async function betweenMoments(): Promise<string> {
  const nowMs = Date.now();
  await vi.waitUntil(() => Date.now() > nowMs + 1);
  return new Date(nowMs + 1).toISOString();
}

function verifyDeep(data: string): Promise<Outcome> {
  return place.run(['verify', 'deep', '--data', data, '--skip-data']);
}

const keys = Array.from({ length: 20 }, (_, i) => `2026/run ${i}/é+${i}`);

test('a window is set, says what it costs, and shows the bucket as of then', async () => {
  await send(client, 'PUT', '/raw/early', { body: 'early' });
  const before = await betweenMoments();
  const bare = await place.run(['bucket', 'set', 's3://raw', '--undelete', '7']);
  expect(bare.code).toBe(2);
  expect(bare.stderr).toMatch(/'--undelete <duration>' argument '7' is invalid.* off, .*7d, 12h/);
  const set = await place.run(['bucket', 'set', 's3://raw', '--undelete', '7d']);
  expect([set.code, set.stderr]).toEqual([0, '']);
  expect(set.stdout).toMatch(/^BUCKET +UNDELETE +SINCE[\s\S]*default\/raw +7d[\s\S]*charged/);
  for (const key of keys) await send(client, 'PUT', `/raw/${key}`, { body: `first ${key}` });
  const then = await betweenMoments();
  for (const key of keys.slice(5)) await send(client, 'DELETE', `/raw/${key}`);
  await send(client, 'PUT', `/raw/${keys[0]}`, { body: 'second' });
  expect(await json('bucket', 'show', 'default/raw')).toMatchObject({
    undelete: { seconds: 604_800, heldVersions: 16 },
  });
  // All of it is the bucket's owner's.
  const bytes = [...keys.slice(5), keys[0]].reduce(
    (sum, key) => sum + Buffer.byteLength(`first ${key}`),
    0,
  );
  for (const account of ['bucket:default/raw', 'principal:default/admin', 'tenant:default']) {
    expect(await json('usage', account)).toMatchObject({ heldBytes: bytes });
  }
  const shown = await place.run(['usage', 'bucket:default/raw']);
  expect(shown.stdout).toMatch(/^of what is stored, \d+ B are held by snapshots and undelete/m);
  expect((await place.run(['usage'])).stdout).toMatch(
    /OBJECTS +HELD +READS PAID BY +NEAREST LIMIT/,
  );
  const metrics = await fetch(`${served.endpoint}/_/metrics`, {
    headers: { authorization: `Bearer ${metricsToken}` },
  });
  expect(await metrics.text()).toMatch(new RegExp(`^bursar_held_bytes ${bytes}$`, 'm'));
  await json('mount', 'create', 'default/then', 'raw', '--at', then);
  for (const key of keys) expect(await bodyOf(`/then/${key}`)).toBe(`first ${key}`);
  await json('mount', 'create', 'default/before', 's3://raw', '--at', before);
  expect(await bodyOf('/before/early')).toBe('404');
  const unkept = await place.run(['snapshot', 'restore', 'default/raw', before]);
  expect([unkept.code, unkept.stderr]).toEqual([1, expect.stringContaining('MomentNotKept')]);
  const restored = await json('snapshot', 'restore', 'default/raw', then);
  expect(restored).toEqual({ restored: 16, deleted: 0, left: 0, failed: [] });
  for (const key of keys) expect(await bodyOf(`/raw/${key}`)).toBe(`first ${key}`);
});

test('one object comes back as it was before it was deleted', async () => {
  const key = '2026/run 1/é+1';
  await send(client, 'PUT', `/raw/${key}`, { body: 'last', headers: { 'x-amz-meta-n': '7' } });
  await send(client, 'DELETE', `/raw/${key}`);
  const plan = await place.run(['undelete', `s3://raw/${key}`, '--dry-run']);
  expect(plan.stdout).toMatch(/^WAS +KEY +SIZE\ndeleted +2026.* 4/);
  expect(await bodyOf(`/raw/${key}`)).toBe('404');
  const done = await place.run(['undelete', `s3://raw/${key}`]);
  expect([done.code, done.stdout, done.stderr]).toEqual([0, '1 restored\n', '']);
  const { body, headers } = await client.send('GET', `/raw/${key}`);
  expect([body.toString(), headers['x-amz-meta-n']]).toEqual(['last', '7']);
  // It is there: there is nothing to do.
  expect(await json('undelete', `s3://raw/${key}`)).toEqual({ restored: 0, failed: [] });
  const never = await place.run(['undelete', 's3://raw/never']);
  expect([never.code, never.stderr]).toEqual([1, expect.stringContaining('NoSuchKey')]);
  const folder = await place.run(['undelete', 's3://raw/2026/']);
  expect([folder.code, folder.stderr]).toEqual([2, expect.stringContaining('--prefix 2026/')]);
  const vague = await place.run(['undelete', 's3://raw']);
  expect([vague.code, vague.stderr]).toEqual([2, expect.stringContaining('--as-of')]);
  const undated = await place.run(['undelete', 's3://raw', '--as-of', 'yesterday']);
  expect([undated.code, undated.stderr]).toEqual([2, expect.stringContaining('a month (2026-11)')]);
  const early = await place.run(['undelete', 's3://raw', '--as-of', '2020-01-01']);
  expect([early.code, early.stderr]).toEqual([1, expect.stringContaining('can be shown as of 20')]);
});

test('all of a prefix comes back as of a time, and what is as it was is left alone', async () => {
  const large = Buffer.alloc(200_000, 'x');
  await send(client, 'PUT', '/raw/2026/large', { body: large });
  const then = await betweenMoments();
  await send(client, 'PUT', `/raw/${keys[0]}`, { body: 'third' });
  for (const key of keys.slice(3)) await send(client, 'DELETE', `/raw/${key}`);
  await send(client, 'DELETE', '/raw/2026/large');
  await send(client, 'DELETE', '/raw/early');
  await send(client, 'PUT', '/raw/2026/later', { body: 'later' });
  const asOf = ['s3://raw', '--prefix', '2026/', '--as-of', then];
  const plan = await json('undelete', ...asOf, '--dry-run');
  expect(plan).toHaveLength(19);
  expect(plan).toContainEqual(expect.objectContaining({ key: keys[0], was: 'overwritten' }));
  expect(await json('undelete', ...asOf)).toEqual({ restored: 19, failed: [] });
  for (const [i, key] of keys.entries()) {
    expect(await bodyOf(`/raw/${key}`)).toBe(i === 1 ? 'last' : `first ${key}`);
  }
  expect(await bodyOf('/raw/2026/large')).toBe(large.toString());
  expect([await bodyOf('/raw/early'), await bodyOf('/raw/2026/later')]).toEqual(['404', 'later']);
  expect(await json('undelete', ...asOf)).toEqual({ restored: 0, failed: [] });
});

test('what is deleted of a prefix comes back without a time, and nothing else does', async () => {
  for (const key of ['twice', 'once', 'kept']) {
    await send(client, 'PUT', `/raw/gone/${key}`, { body: `first ${key}` });
  }
  await send(client, 'DELETE', '/raw/gone/once');
  for (const body of ['second', 'third']) {
    await send(client, 'DELETE', '/raw/gone/twice');
    await send(client, 'PUT', '/raw/gone/twice', { body });
  }
  await send(client, 'DELETE', '/raw/gone/twice');
  await send(client, 'PUT', '/raw/gone/kept', { body: 'second' });
  const deleted = ['undelete', 's3://raw', '--prefix', 'gone/'];
  const plan = await json(...deleted, '--dry-run');
  expect(plan).toMatchObject(['once', 'twice'].map((key) => ({ key: `gone/${key}` })));
  expect(await json(...deleted)).toEqual({ restored: 2, failed: [] });
  expect(await bodyOf('/raw/gone/once')).toBe('first once');
  expect(await bodyOf('/raw/gone/twice')).toBe('third');
  expect(await bodyOf('/raw/gone/kept')).toBe('second');
  expect(await json(...deleted)).toEqual({ restored: 0, failed: [] });
});

test('what cannot come back is named with the reason that is to be mended', async () => {
  const key = Buffer.alloc(32, 'k');
  const own = 'x-amz-server-side-encryption-customer-';
  const headers = {
    [`${own}algorithm`]: 'AES256',
    [`${own}key`]: key.toString('base64'),
    [`${own}key-md5`]: createHash('md5').update(key).digest('base64'),
  };
  await send(client, 'PUT', '/raw/keys/sealed', { body: 'sealed', headers });
  await send(client, 'PUT', '/raw/keys/open', { body: 'open' });
  for (const name of ['sealed', 'open']) await send(client, 'DELETE', `/raw/keys/${name}`);
  const deleted = ['undelete', 's3://raw', '--prefix', 'keys/'];
  const done = await place.run(deleted);
  expect([done.code, done.stdout]).toEqual([1, '1 restored\n']);
  expect(done.stderr).toMatch(/^keys\/sealed: .*InvalidRequest/m);
  expect(done.stderr).toContain(
    'bursar: 1 could not be restored; run it again once the reason given for each is mended\n',
  );
  expect(await bodyOf('/raw/keys/open')).toBe('open');
  const told = await place.run([...deleted, '--json']);
  expect([told.code, JSON.parse(told.stdout)]).toMatchObject([
    1,
    { restored: 0, failed: [{ key: 'keys/sealed', error: expect.any(String) }] },
  ]);
  // The reason is mended by who has the key.
  await send(client, 'PUT', '/raw/keys/sealed', { body: 'again', headers });
  expect(await json(...deleted)).toEqual({ restored: 0, failed: [] });
});

test('with versioning delete markers are taken away', async () => {
  await send(client, 'PUT', '/versioned');
  const enabled = '<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>';
  await send(client, 'PUT', '/versioned', { query: [['versioning', '']], body: enabled });
  const made = await send(client, 'PUT', '/versioned/a', { body: 'first' });
  await send(client, 'PUT', '/versioned/b', { body: 'first' });
  const then = await betweenMoments();
  for (const key of ['a', 'a', 'b']) await send(client, 'DELETE', `/versioned/${key}`);
  expect(await json('undelete', 's3://versioned/a')).toEqual({ restored: 1, failed: [] });
  const got = await client.send('GET', '/versioned/a');
  expect(got.headers['x-amz-version-id']).toBe(made.headers['x-amz-version-id']);
  await send(client, 'PUT', '/versioned/a', { body: 'second' });
  await send(client, 'DELETE', '/versioned/a');
  const deleted = await json('undelete', 's3://versioned', '--prefix', '');
  expect(deleted).toEqual({ restored: 2, failed: [] });
  expect([await bodyOf('/versioned/a'), await bodyOf('/versioned/b')]).toEqual(['second', 'first']);
  const asOf = ['undelete', 's3://versioned', '--as-of', then];
  expect(await json(...asOf)).toEqual({ restored: 1, failed: [] });
  expect([await bodyOf('/versioned/a'), await bodyOf('/versioned/b')]).toEqual(['first', 'first']);
  expect(await json(...asOf)).toEqual({ restored: 0, failed: [] });
});

test('off lets go of it', async () => {
  await send(client, 'PUT', '/other');
  await json('bucket', 'set', 's3://default:other', '--undelete', '1h');
  await send(client, 'PUT', '/other/key', { body: 'kept' });
  const then = await betweenMoments();
  await send(client, 'DELETE', '/other/key');
  await json('mount', 'create', 'default/others', 'default:other', '--at', then);
  expect(await bodyOf('/others/key')).toBe('kept');
  const deletion = await client.send('DELETE', '/other');
  expect([deletion.status, deletion.body.toString()]).toEqual([
    409,
    expect.stringMatching(/window/),
  ]);
  await send(client, 'PUT', '/other/key', { body: 'kept' });
  await json('snapshot', 'create', 'default/other', 'keep');
  const whole = await place.run(['bucket', 'delete', 'default/other', '--all', '--yes', '--json']);
  expect(JSON.parse(whole.stdout).error.message).toBe(
    'something keeps bucket default/other, so first: bursar snapshot delete default/other keep; ' +
      'bursar bucket set default/other --undelete off',
  );
  expect(await bodyOf('/other/key')).toBe('kept');
  await send(client, 'DELETE', '/other/key');
  await json('snapshot', 'delete', 'default/other', 'keep');
  expect((await place.run(['bucket', 'set', 'default/other', '--undelete', 'off'])).code).toBe(0);
  expect(await bodyOf('/others/key')).toBe('404');
  const { stdout } = await place.run(['bucket', 'show', 'default/other']);
  expect(stdout).toMatch(/UNDELETE[\s\S]* off /);
  // Soon after.
  await expect
    .poll(async () => (await client.send('DELETE', '/other')).status, { timeout: 30_000 })
    .toBe(204);
});

test('what is held is purged by law, but where it is locked', async () => {
  const purge = (...args: string[]) =>
    place.run(['snapshot', 'purge', ...args, '--reason', 'erasure, article 17']);
  for (const key of ['p/1', 'p/2', 'q']) {
    await send(client, 'PUT', `/raw/${key}`, { body: `personal ${key}` });
    await send(client, 'PUT', `/raw/${key}`, {
      ...{ query: [['tagging', '']] },
      body: '<Tagging><TagSet><Tag><Key>t</Key><Value>1</Value></Tag></TagSet></Tagging>',
    });
  }
  await json('snapshot', 'create', 'default/raw', 'older', '--prefix', 'p/');
  const locked = ['--prefix', 'q', '--expires', '1d', '--lock', 'compliance'];
  await json('snapshot', 'create', 'default/raw', 'locked', ...locked);
  const then = await betweenMoments();
  await json('mount', 'create', 'default/with-them', 'default:raw', '--at', then);
  await json('mount', 'create', 'default/older', 'default:raw', '--at', 'older');
  for (const key of ['p/1', 'p/2', 'q']) await send(client, 'DELETE', `/raw/${key}`);
  expect(await bodyOf('/with-them/p/1')).toBe('personal p/1');
  expect(await bodyOf('/older/p/2')).toBe('personal p/2');
  const before = await json('usage', 'bucket:default/raw');
  const done = await purge('s3://raw/p/1');
  expect([done.code, done.stderr]).toEqual([0, '']);
  expect([await bodyOf('/with-them/p/1'), await bodyOf('/older/p/1')]).toEqual(['404', '404']);
  expect(await bodyOf('/with-them/p/2')).toBe('personal p/2');
  expect((await purge('s3://raw', '--prefix', 'p/')).code).toBe(0);
  expect([await bodyOf('/with-them/p/2'), await bodyOf('/older/p/2')]).toEqual(['404', '404']);
  const after = await json('usage', 'bucket:default/raw');
  expect(before.storedBytes - after.storedBytes).toBe(2 * 'personal p/1'.length);
  expect(before.heldBytes - after.heldBytes).toBe(2 * 'personal p/1'.length);
  const refused = await purge('s3://raw/q');
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('SnapshotLocked')]);
  expect(await bodyOf('/with-them/q')).toBe('personal q');
  const said = await place.run(['records', '--action', 'bursar:PurgeHeld', '--json']);
  expect(said.stdout).toContain('erasure, article 17');
  const vague = await purge('s3://raw');
  expect([vague.code, vague.stderr]).toEqual([2, expect.stringContaining('--prefix')]);
});

test('what is under object lock is not purged, as a snapshot has it', async () => {
  const enabled = { 'x-amz-bucket-object-lock-enabled': 'true' };
  await send(client, 'PUT', '/locked', { headers: enabled });
  const put = async (key: string, headers = {}) =>
    (await send(client, 'PUT', `/locked/${key}`, { body: key, headers })).headers[
      'x-amz-version-id'
    ] as string;
  const until = new Date(Date.now() + 86_400_000).toISOString();
  const retention = (mode: string) => ({
    'x-amz-object-lock-mode': mode,
    'x-amz-object-lock-retain-until-date': until,
  });
  const ids = {
    'a/free': await put('a/free'),
    'b/governed': await put('b/governed', retention('GOVERNANCE')),
    'c/on-hold': await put('c/on-hold', { 'x-amz-object-lock-legal-hold': 'ON' }),
  };
  await json('snapshot', 'create', 'default/locked', 'then');
  await json('mount', 'create', 'default/unlocked', 'default:locked', '--at', 'then');
  await send(client, 'PUT', '/locked/c/on-hold', {
    query: [['legal-hold', '']],
    body: '<LegalHold><Status>OFF</Status></LegalHold>',
  });
  const headers = { 'x-amz-bypass-governance-retention': 'true' };
  for (const [key, id] of Object.entries(ids)) {
    await send(client, 'DELETE', `/locked/${key}`, { query: [['versionId', id]], headers });
  }
  const held = () => json('snapshot', 'show', 'default/locked', 'then');
  const before = await held();
  // The image of the one that was on hold, too.
  expect(before).toMatchObject({ heldVersions: 4 });
  const purge = (...args: string[]) =>
    place.run(['snapshot', 'purge', ...args, '--reason', 'erasure, article 17']);
  for (const args of [
    ['s3://locked/b/governed'],
    ['s3://locked/c/on-hold'],
    ['s3://locked', '--prefix', 'c/'],
  ]) {
    const refused = await purge(...args);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('AccessDenied')]);
    expect(await held()).toEqual(before);
  }
  for (const key of Object.keys(ids)) expect(await bodyOf(`/unlocked/${key}`)).toBe(key);
  expect((await purge('s3://locked', '--prefix', 'a/')).code).toBe(0);
  expect(await bodyOf('/unlocked/a/free')).toBe('404');
  expect(await bodyOf('/unlocked/b/governed')).toBe('b/governed');
  expect(await held()).toMatchObject({ heldVersions: 3 });
});

test('what the window holds is verified, and one that is missing is named', async () => {
  expect(await served.stop('SIGTERM')).toBe(0);
  const { code, stdout } = await verifyDeep(place.data);
  expect([code, stdout]).toEqual([0, expect.any(String)]);
  const copy = join(place.folder, 'copy');
  cpSync(place.data, copy, { recursive: true });
  const catalog = new CatalogEditor(copy);
  await catalog.run(`DELETE FROM held_versions WHERE key = '${keys[7]}'`);
  catalog.close();
  const lacking = await verifyDeep(copy);
  expect(lacking.code).toBe(1);
  expect(lacking.stdout).toContain(`of ${keys[7]}, in the undelete window: record`);
});
