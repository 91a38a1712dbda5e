// `bursar changes`: shown, kept up with by a cursor, and given to a command that may fail; and
// `bursar inventory`.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { readCredentials } from '#bursar/server/folder/credentials-file.js';
import { callNative, send, type Target } from '../protocol/target.ts';
import { Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const place = new Workplace();
let target: Target;

async function put(path: string, body = ''): Promise<void> {
  expect((await send(target, { method: 'PUT', path, body })).status).toBe(200);
}

beforeAll(async () => {
  const { endpoint } = await place.serve();
  const profile = readCredentials(join(place.data, 'credentials'), 'bursar');
  const accessKeyId = profile?.aws_access_key_id ?? '';
  const secretAccessKey = profile?.aws_secret_access_key ?? '';
  target = {
    ...{ endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [] },
    stop: async () => {},
  };
  await put('/raw');
  await put('/raw/in/a b', 'hello');
  await put('/raw/out/c\u202e', 'world');
});
afterAll(() => place.remove());

it('shows what became of objects, one a line, or as events', async () => {
  const { stdout, code } = await place.run(['changes', 's3://raw']);
  expect(code).toBe(0);
  const lines = stdout.trimEnd().split('\n');
  expect(lines.map((line) => line.split('  ').slice(2))).toEqual([
    ['ObjectCreated:Put', 's3://raw/in/a b', '5 B'],
    ['ObjectCreated:Put', 's3://raw/out/c\\u202e', '5 B'],
  ]);
  const json = await place.run(['changes', 's3://raw/in/', '--json']);
  expect(JSON.parse(json.stdout).s3.object.key).toBe('in/a+b');
  const all = await place.run(['changes', '--json']);
  expect(all.stdout.trimEnd().split('\n')).toHaveLength(2);
});

it('goes on where its cursor says', async () => {
  const args = ['changes', 's3://raw', '--cursor', 'my.cursor', '--json', '--batch', '1'];
  const first = await place.run(args);
  expect(first.stdout.trimEnd().split('\n')).toHaveLength(2);
  expect((await place.run(args)).stdout).toBe('');
  await put('/raw/in/next', 'x');
  const { stdout } = await place.run(args);
  expect(JSON.parse(stdout).s3.object.key).toBe('in/next');
});

it('gives a command the same batch until it has done it', async () => {
  const script = join(place.folder, 'worker.sh');
  const done = join(place.folder, 'done');
  const flag = join(place.folder, 'failed-once');
  const fail = `if [ ! -e ${flag} ]; then touch ${flag}; exit 3; fi`;
  writeFileSync(
    script,
    `cat > ${join(place.folder, 'given')}\n${fail}\ncat ${place.folder}/given >> ${done}\n`,
  );
  const flags = ['--once', '--cursor', 'work.cursor'];
  const args = ['changes', 'run', 's3://raw/in/', ...flags, '--', 'sh', script];
  const { code, stderr } = await place.run(args);
  expect({ code, stderr }).toEqual({
    code: 0,
    stderr: 'bursar: sh ended with 3; the same batch is tried again\n',
  });
  expect(readFileSync(done, 'utf8').trimEnd().split('\n')).toHaveLength(2);
  expect(existsSync(join(place.folder, 'work.cursor'))).toBe(true);
  const all = await place.run(['changes', 'run', '--once', '--', 'cat']);
  expect(all.stdout.trimEnd().split('\n')).toHaveLength(3);
});

it('knows where now is before it waits for anything', async () => {
  const flags = ['--after', 'now', '--cursor', 'now.cursor'];
  const following = place.begin(['changes', 'run', 's3://raw/late/', ...flags, '--', 'cat']);
  try {
    const file = join(place.folder, 'now.cursor');
    // Less than it waits for the first change.
    await vi.waitFor(() => expect(existsSync(file)).toBe(true), { timeout: 25_000 });
    expect(following.stdout()).toBe('');
  } finally {
    following.stop();
  }
});

it('has an inventory written, and says what became of it', async () => {
  await put('/lists');
  const body = `<InventoryConfiguration><Id>all</Id><IsEnabled>true</IsEnabled>
    <Destination><S3BucketDestination><Bucket>arn:aws:s3:::lists</Bucket><Format>CSV</Format>
    <Prefix>in</Prefix></S3BucketDestination></Destination>
    <IncludedObjectVersions>Current</IncludedObjectVersions>
    <Schedule><Frequency>Weekly</Frequency></Schedule></InventoryConfiguration>`;
  const query = [
    ['inventory', ''],
    ['id', 'all'],
  ] as const;
  const path = '/raw';
  expect((await send(target, { method: 'PUT', path, query, body })).status).toBe(204);
  const json = async (...words: string[]) => {
    const { stdout, stderr } = await place.run(['inventory', ...words, '--json']);
    expect(stderr).toBe('');
    return JSON.parse(stdout);
  };
  expect(await json('run', 's3://raw', 'all')).toMatchObject({ id: 'all', format: 'CSV' });
  const of = '/_/v1/tenants/default/buckets/raw/inventories';
  await vi.waitFor(async () => {
    const { inventories } = await callNative(target, 'GET', of);
    expect(inventories[0].state).toBe('written');
  }, 30_000);
  expect(await json('show', 's3://raw', 'all')).toMatchObject({
    ...{ state: 'written', frequency: 'Weekly', objects: expect.any(Number), problem: null },
  });
  const { stdout } = await place.run(['inventory', 'list', 's3://raw']);
  expect(stdout).toMatch(/^all +Weekly +CSV +s3:\/\/lists\/in +written /m);
  for (const [words, code, message] of [
    [['show', 's3://raw', 'none'], 1, 's3://raw has no inventory none'],
    [['run', 's3://raw', 'none'], 1, 'The bucket has no inventory none'],
    [['list', 's3://raw/in/'], 2, 'must be a bucket: s3://BUCKET'],
  ] as const) {
    const refused = await place.run(['inventory', ...words]);
    expect([refused.code, refused.stderr]).toEqual([code, expect.stringContaining(message)]);
  }
});

it.each([
  ['no bucket', ['changes', 'raw'], /raw must be s3:\/\/BUCKET/],
  ['no index', ['changes', '--after', 'x'], /Must be a log index, or now/],
  ['too many', ['changes', '--batch', '1001'], /Must be 1 to 1000/],
  ['no such bucket', ['changes', 's3://nowhere'], /NoSuchBucket/],
  ['no such command', ['changes', 'run', 's3://raw', '--', './gone'], /cannot run \.\/gone/],
  ['no command', ['changes', 'run', 's3://raw'], /a command is missing behind --/],
  ['a command that is not to be run', ['changes', 's3://raw', '--', 'sh'], /too many arguments/],
])('refuses %s', async (_what, args, message) => {
  const { code, stderr } = await place.run(args);
  expect(code).not.toBe(0);
  expect(stderr).toMatch(message);
});

it('refuses a cursor that is none', async () => {
  writeFileSync(join(place.folder, 'bad.cursor'), 'not a cursor');
  const { code, stderr } = await place.run(['changes', '--cursor', 'bad.cursor']);
  expect([code, stderr]).toEqual([1, 'bursar: bad.cursor has no log index: it is no cursor\n']);
});
