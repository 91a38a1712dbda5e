// `bursar snapshot` against a served gateway: what was deleted and overwritten comes back by one
// command, without versioning, and what a client reads through a mount is what was.
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { S3Client } from '../fault/s3-client.ts';
import { operator, operatorSettings, send } from '../tooling/filled-folder.ts';
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

function run(...args: string[]): Promise<Outcome> {
  return place.run(['snapshot', ...args]);
}

async function json(...args: string[]) {
  const { code, stdout, stderr } = await place.run([...args, '--json']);
  expect([code, stderr]).toEqual([0, '']);
  return JSON.parse(stdout);
}

async function bodyOf(path: string): Promise<string> {
  const { status, body } = await client.send('GET', path);
  return status === 200 ? body.toString() : `${status}`;
}

const keys = Array.from({ length: 20 }, (_, i) => `2026/run ${i}/é+${i}`);
const pathOf = (key: string): string => `/raw/${key}`;

test('what was deleted and overwritten comes back', async () => {
  for (const key of keys) await send(client, 'PUT', pathOf(key), { body: `first ${key}` });
  expect(await json('snapshot', 'create', 'default/raw', 'before')).toMatchObject({
    ...{ name: 'before', prefix: '', expiresAt: null, lock: null, heldBytes: 0 },
  });
  for (const key of keys.slice(5)) await send(client, 'DELETE', pathOf(key));
  const [changed = ''] = keys;
  await send(client, 'PUT', pathOf(changed), { body: 'second' });
  await send(client, 'PUT', '/raw/2026/new', { body: 'new' });
  const listed = await run('list', 'default/raw');
  expect(listed.stdout).toMatch(/^SNAPSHOT +PREFIX +CREATED/);
  expect(listed.stdout).toMatch(/16 versions held/);
  const differences = await json('snapshot', 'diff', 'default/raw', 'before');
  expect(differences).toHaveLength(17);
  const restoring = ['restore', 'default/raw', 'before'];
  const { stdout: plan } = await run(...restoring, '--dry-run');
  expect(plan.trim().split('\n')).toHaveLength(17);
  expect(await bodyOf(pathOf(changed))).toBe('second');
  const { code, stdout, stderr } = await run(...restoring);
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toBe(
    '16 restored, 0 deleted, 1 that came since stayed (--delete-new deletes them)\n',
  );
  for (const key of keys) expect(await bodyOf(pathOf(key))).toBe(`first ${key}`);
  expect(await bodyOf('/raw/2026/new')).toBe('new');
  // What is as it was is left alone.
  expect(await json('snapshot', ...restoring, '--delete-new')).toEqual({
    ...{ restored: 0, deleted: 1, left: 0, failed: [] },
  });
  expect(await json('snapshot', 'diff', 'default/raw', 'before')).toEqual([]);
  expect(await json('mount', 'list', 'default')).toEqual([]);
});

test('a mount shows a snapshot, until that is deleted', async () => {
  await json('mount', 'create', 'default/then', 'default:raw', '--at', 'before');
  expect(await json('mount', 'list', 'default')).toMatchObject([{ bucket: 'raw', at: 'before' }]);
  await send(client, 'PUT', '/raw/2026/later', { body: 'later' });
  expect(await bodyOf('/then/2026/later')).toBe('404');
  expect(await bodyOf(`/then/${keys[1]}`)).toBe(`first ${keys[1]}`);
  expect((await run('delete', 'default/raw', 'before')).code).toBe(0);
  expect(await bodyOf(`/then/${keys[1]}`)).toBe('404');
  const ahead = await place.run([
    'mount',
    'create',
    'default/ahead',
    'default:raw',
    '--at',
    'next',
  ]);
  expect([ahead.code, ahead.stderr]).toEqual([
    0,
    'bursar: default:raw has no snapshot next: requests for this mount are answered 404 until it ' +
      'has.\n',
  ]);
  const missing = await run('show', 'default/raw', 'before');
  expect(missing.stderr).toMatch('NoSuchSnapshot');
});

test('a bucket is named by URL, and a snapshot is mounted', async () => {
  const made = await json('snapshot', 'create', 's3://raw/2026/', 'by-url');
  expect(made).toMatchObject({ name: 'by-url', prefix: '2026/' });
  expect(await json('snapshot', 'show', 's3://default:raw', 'by-url')).toEqual(made);
  expect((await json('snapshot', 'list', 's3://raw/2026/')).snapshots).toEqual([made]);
  expect((await json('snapshot', 'list', 's3://raw/2027/')).snapshots).toEqual([]);
  expect(await json('snapshot', 'mount', 's3://raw', 'by-url')).toMatchObject({
    ...{ tenant: 'default', name: 'raw-by-url', bucketTenant: 'default', bucket: 'raw' },
    at: 'by-url',
  });
  expect(await bodyOf(`/raw-by-url/${keys[1]}`)).toBe(`first ${keys[1]}`);
  const missing = await run('mount', 's3://raw', 'nonesuch');
  expect([missing.code, missing.stderr]).toEqual([1, expect.stringContaining('NoSuchSnapshot')]);
  for (const wrong of [
    ['show', 's3://raw/2026/', 'by-url'],
    ['diff', 's3://raw/2026/', 'by-url', '--prefix', '2026/'],
    ['mount', 's3://raw', '2h ago'],
  ]) {
    const { code, stderr } = await run(...wrong);
    expect([code, stderr]).toEqual([2, expect.stringMatching(/^bursar: .*\n$/)]);
  }
  expect((await run('delete', 's3://raw', 'by-url')).code).toBe(0);
});

test('a snapshot is of a prefix, expires, and is locked until then', async () => {
  const flags = ['--prefix', '2026/', '--expires', '1d', '--lock', 'governance'];
  const made = await json('snapshot', 'create', 'default/raw', ...flags);
  expect(made).toMatchObject({ prefix: '2026/', lock: 'governance' });
  expect(made.name).toMatch(/^\d{8}t\d{6}z$/);
  const refused = await run('delete', 'default/raw', made.name);
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('SnapshotLocked')]);
  expect((await run('delete', 'default/raw', made.name, '--bypass-governance')).code).toBe(0);
  const wrong = await run('create', 'default/raw', '--expires', 'soon');
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringContaining('such as 30m')]);
});

test('what is held is purged, and is told how much it was', async () => {
  await json('snapshot', 'create', 'default/raw', 'kept');
  for (const key of keys) await send(client, 'DELETE', pathOf(key));
  const bytes = keys.reduce((sum, key) => sum + Buffer.byteLength(`first ${key}`), 0);
  const purging = ['purge', 's3://raw', '--prefix', '2026/run', '--reason', 'erasure, case 17'];
  expect(await json('snapshot', ...purging)).toEqual({
    ...{ versions: keys.length, bytes, isDone: true },
  });
  const { stdout } = await run(...purging);
  expect(stdout).toMatch(/^0 versions, 0 B, were let go of: nothing of it is held any more/);
  const listed = await run('list', 's3://raw');
  expect(listed.stdout).toMatch(/^0 versions held, 0 B$/m);
  await place.run(['bucket', 'set', 's3://raw', '--undelete', '7d']);
  await send(client, 'PUT', '/raw/2026/last', { body: 'last' });
  await send(client, 'DELETE', '/raw/2026/last');
  const { stdout: shown } = await run('list', 's3://raw');
  expect(shown).toMatch(/^the undelete window of 7d holds 1 of the bucket, since 20.*Z$/m);
  const wrong = await place.run(['bucket', 'set', 's3://raw', '--undelete', '5s']);
  expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringMatching('5s.*1m to 366d')]);
});
