// `bursar rename` against a served gateway.
import { ListObjectsV2Command, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { readCredentials } from '#bursar/server/folder/credentials-file.js';
import { clientOf, newBucket } from '../protocol/target.ts';
import { Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let place: Workplace;
let client: S3Client;

beforeAll(async () => {
  place = new Workplace();
  const { endpoint } = await place.serve();
  const profile = readCredentials(`${place.data}/credentials`, 'bursar');
  const keys = {
    accessKeyId: profile?.aws_access_key_id ?? '',
    secretAccessKey: profile?.aws_secret_access_key ?? '',
  };
  const never = () => Promise.reject(new Error('nobody asks'));
  client = clientOf({ endpoint, keys, strayNames: () => [], stop: never });
});

afterAll(() => place.remove());

async function fill(keys: readonly string[]): Promise<string> {
  const Bucket = await newBucket(client);
  for (const Key of keys) {
    await client.send(new PutObjectCommand({ Bucket, Key, Body: 'x'.repeat(1000) }));
  }
  return Bucket;
}

async function keysOf(Bucket: string): Promise<(string | undefined)[]> {
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket }));
  return Contents.map(({ Key }) => Key);
}

test('a folder is renamed, after it was said what would be', async () => {
  const names = ['a', 'b c+d', 'z', 'é/%41'];
  const bucket = await fill([...names.map((name) => `from/${name}`), 'from-other']);
  const before = await keysOf(bucket);
  const args = ['rename', `s3://${bucket}/from/`, `s3://${bucket}/to/there/`];
  expect(await place.run([...args, '--dry-run'])).toEqual({
    ...{ code: 0, stdout: 'would rename 4 objects, 3.9 KiB\n', stderr: '' },
  });
  expect(await keysOf(bucket)).toEqual(before);
  const { code, stdout } = await place.run([...args, '--json']);
  const nothing = { kept: 0, keptKeys: [], gone: 0 };
  expect([code, JSON.parse(stdout)]).toEqual([
    0,
    { dryRun: false, objects: 4, bytes: 4000, ...nothing },
  ]);
  expect(await keysOf(bucket)).toEqual(['from-other', ...names.map((name) => `to/there/${name}`)]);
  expect(await place.run(args)).toMatchObject({ code: 0, stdout: 'renamed 0 objects\n' });
});

test('what is at a new key is kept, and told, unless it is to be replaced', async () => {
  const bucket = await fill(['from/a', 'from/b', 'to/a']);
  const args = ['rename', `s3://${bucket}/from/`, `s3://${bucket}/to/`];
  const { code, stdout } = await place.run(args);
  expect([code, stdout]).toEqual([1, expect.stringContaining('renamed 1 object, 1000 B\n1 stay')]);
  expect(await keysOf(bucket)).toEqual(['from/a', 'to/a', 'to/b']);
  expect(await place.run([...args, '--overwrite'])).toMatchObject({ code: 0 });
  expect(await keysOf(bucket)).toEqual(['to/a', 'to/b']);
});

test('one object is renamed', async () => {
  const bucket = await fill(['a']);
  const args = ['rename', `s3://${bucket}/a`, `s3://${bucket}/b`];
  expect(await place.run(args)).toMatchObject({ code: 0, stdout: 'renamed 1 object\n' });
  expect(await keysOf(bucket)).toEqual(['b']);
  const again = await place.run(args);
  expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('there is no a')]);
});

test.each([
  ['s3://b/x/', 's3://c/y/', 'both must be in one bucket'],
  ['s3://b/x/', 's3://b/y', 'either both end with /'],
  ['s3://b/x/', 's3://b/x/', 'both are the same'],
  ['s3://b/x/', 's3://b/x/y/', 'neither folder may be in the other'],
  ['s3://b/x/y/', 's3://b/x/', 'neither folder may be in the other'],
  ['s3://b', 's3://b/x/', 'must be s3://BUCKET/KEY'],
])('%s to %s is a mistake', async (from, to, message) => {
  const { code, stderr } = await place.run(['rename', from, to]);
  expect([code, stderr]).toEqual([2, expect.stringContaining(message)]);
});

test('what is refused is told with its reason', async () => {
  const { code, stderr } = await place.run(['rename', 's3://no-such/x/', 's3://no-such/y/']);
  expect([code, stderr]).toEqual([1, expect.stringContaining('NoSuchBucket')]);
});
