// `bursar find`: shown, counted, explained, and given to a command one by one.
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { readCredentials } from '#bursar/server/folder/credentials-file.js';
import { send, type Target } from '../protocol/target.ts';
import { Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const place = new Workplace();

beforeAll(async () => {
  const { endpoint } = await place.serve();
  const profile = readCredentials(join(place.data, 'credentials'), 'bursar');
  const accessKeyId = profile?.aws_access_key_id ?? '';
  const secretAccessKey = profile?.aws_secret_access_key ?? '';
  const target: Target = {
    ...{ endpoint, keys: { accessKeyId, secretAccessKey }, strayNames: () => [] },
    stop: async () => {},
  };
  const put = async (path: string, run?: string, body = '') => {
    const headers: Record<string, string> = run === undefined ? {} : { 'x-amz-meta-run': run };
    expect((await send(target, { method: 'PUT', path, headers, body })).status).toBe(200);
  };
  for (const bucket of ['/raw', '/sim']) await put(bucket);
  await put('/raw/in/a b', '7', 'hello');
  await put('/raw/out/c\u202e', '7', 'world!');
  await put('/raw/other', '8');
  await put('/sim/in/d', '7', 'x');
  await vi.waitFor(async () => {
    expect((await find('s3://raw', 's3://sim', 'meta.run = 7', '--count')).stdout).toBe('3\n');
  }, 30_000);
});
afterAll(() => place.remove());

const find = (...args: string[]) => place.run(['find', ...args]);

it('shows objects of several buckets and prefixes, a line each', async () => {
  const { stdout, code } = await find('s3://raw', 's3://sim/in/', 'meta.run = 7');
  expect(code).toBe(0);
  const lines = stdout.trimEnd().split('\n');
  expect(lines.map((line) => line.split(/ {2,}/).slice(1))).toEqual([
    ['5 B', 's3://raw/in/a b'],
    ['6 B', 's3://raw/out/c\\u202e'],
    ['1 B', 's3://sim/in/d'],
  ]);
  const json = await find('s3://raw/in/', 'meta.run = 7', '--json');
  expect(JSON.parse(json.stdout)).toMatchObject({ url: 's3://raw/in/a b', metadata: { run: '7' } });
  const csv = await find('s3://raw', 'size = 5', '--csv');
  expect(csv.stdout.split('\r\n').map((line) => line.split(',').slice(0, 2))).toEqual([
    ['url', 'size'],
    ['s3://raw/in/a b', '5'],
    [''],
  ]);
  const one = await find('s3://raw', 's3://sim', 'meta.run = 7', '--limit', '1', '--json');
  expect(one.stdout.trimEnd().split('\n')).toHaveLength(1);
});

it('counts and sums them', async () => {
  const sum = await find('s3://raw', 's3://sim', 'meta.run exists', '--sum', 'size');
  expect(sum.stdout).toBe('4 objects, 12 B (12 bytes)\n');
  const json = await find('s3://raw', 'meta.run = 7', '--count', '--json');
  expect(JSON.parse(json.stdout)).toMatchObject({ count: 2, size: 11 });
});

it('says what the index is asked for', async () => {
  const led = await find('s3://raw', 'meta.run = 7 and size > 5', '--explain');
  expect(led.stdout).toContain('s3://raw: the index leads to ');
  const none = await find('s3://raw', 'not meta.run = 7', '--explain');
  expect(none.stdout).toBe('s3://raw: each object is looked at\n');
});

it('starts a command for each, without a shell, and says how many failed', async () => {
  const done = await find('s3://raw', 'meta.run = 7', '--exec', '--', 'echo', '<{}>');
  expect(done.stdout).toBe('<s3://raw/in/a b>\n<s3://raw/out/c\u202e>\n');
  const failing = await find('s3://raw', 'meta.run = 7', '--exec', '--', 'test', '{}', '=', 'x');
  expect({ code: failing.code, stderr: failing.stderr }).toEqual({
    code: 1,
    stderr: 'bursar: the command failed for 2 objects\n',
  });
});

it.each([
  [['s3://raw'], 2, 'say where, and then what'],
  [['size > 1'], 2, 'say where, and then what'],
  [['s3://raw', 'size > 1', 'ls'], 2, 'a command is given by --exec'],
  [['s3://raw', 'size > 1', '--exec'], 2, 'a command is given by --exec'],
  [['s3://raw', 'size > 1', '--count', '--explain'], 2, 'exclude each other'],
  [['s3://raw', 'size > 1', '--sum', 'etag'], 2, 'Must be size.'],
  [['s3://raw', 'size >'], 1, 'The query cannot be read at character 7'],
  [['s3://none', 'size > 1'], 1, 'NoSuchBucket'],
])('refuses %j', async (args, code, message) => {
  const done = await find(...args);
  expect({ code: done.code, stdout: done.stdout }).toEqual({ code, stdout: '' });
  expect(done.stderr).toContain(message);
});
