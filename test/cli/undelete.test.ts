// The undelete window against a served gateway: what was deleted or overwritten, without versioning
// and without a snapshot, is shown as of any moment since, and comes back by one command.
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
  expect((await place.run(['usage'])).stdout).toMatch(/OBJECTS +HELD +NEAREST LIMIT/);
  const metrics = await fetch(`${served.endpoint}/_/metrics`, {
    headers: { authorization: `Bearer ${metricsToken}` },
  });
  expect(await metrics.text()).toMatch(new RegExp(`^bursar_held_bytes ${bytes}$`, 'm'));
  await json('mount', 'add', 'default/then', 'default:raw', '--at', then);
  for (const key of keys) expect(await bodyOf(`/then/${key}`)).toBe(`first ${key}`);
  await json('mount', 'add', 'default/before', 'default:raw', '--at', before);
  expect(await bodyOf('/before/early')).toBe('404');
  const unkept = await place.run(['snapshot', 'restore', 'default/raw', '--from', before]);
  expect([unkept.code, unkept.stderr]).toEqual([1, expect.stringContaining('MomentNotKept')]);
  const restored = await json('snapshot', 'restore', 'default/raw', '--from', then);
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
  const vague = await place.run(['undelete', 's3://raw', '--prefix', '2026/']);
  expect([vague.code, vague.stderr]).toEqual([2, expect.stringContaining('--as-of')]);
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
  const asOf = ['undelete', 's3://versioned', '--as-of', then];
  expect(await json(...asOf)).toEqual({ restored: 2, failed: [] });
  expect([await bodyOf('/versioned/a'), await bodyOf('/versioned/b')]).toEqual(['first', 'first']);
  expect(await json(...asOf)).toEqual({ restored: 0, failed: [] });
});

test('off lets go of it', async () => {
  await send(client, 'PUT', '/other');
  await json('bucket', 'set', 's3://default:other', '--undelete', '1h');
  await send(client, 'PUT', '/other/key', { body: 'kept' });
  const then = await betweenMoments();
  await send(client, 'DELETE', '/other/key');
  await json('mount', 'add', 'default/others', 'default:other', '--at', then);
  expect(await bodyOf('/others/key')).toBe('kept');
  const deletion = await client.send('DELETE', '/other');
  expect([deletion.status, deletion.body.toString()]).toEqual([
    409,
    expect.stringMatching(/window/),
  ]);
  expect((await place.run(['bucket', 'set', 'default/other', '--undelete', 'off'])).code).toBe(0);
  expect(await bodyOf('/others/key')).toBe('404');
  const { stdout } = await place.run(['bucket', 'show', 'default/other']);
  expect(stdout).toMatch(/UNDELETE[\s\S]* off /);
  // Soon after.
  await expect
    .poll(async () => (await client.send('DELETE', '/other')).status, { timeout: 30_000 })
    .toBe(204);
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
