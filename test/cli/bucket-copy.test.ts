// `bursar bucket copy`: a bucket of one tenant into another's, by somebody of the other one whom a
// grant lets read. What it says to be the same is.
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { S3Client } from '../fault/s3-client.ts';
import { call, operator, operatorSettings, send } from '../tooling/filled-folder.ts';
import { type Served, Workplace } from './command.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const place = new Workplace();
let served: Served;
let root: S3Client;
let keys: Record<string, string>;
let eve: S3Client;

const small = new Map([
  ['a/plain', randomBytes(500)],
  ['a/ünï +%41', randomBytes(1000)],
  ['empty', Buffer.alloc(0)],
  ['z/large', randomBytes(200_000)],
]);
const parts = [randomBytes(5 * 2 ** 20), randomBytes(1000)];

beforeAll(async () => {
  served = await place.serve(['--data', place.data], operatorSettings);
  root = new S3Client({ endpoint: served.endpoint, ...operator });
  for (const name of ['cms', 'ligo']) await call(root, 'POST', 'tenants', { name });
  await call(root, 'POST', 'tenants/ligo/principals', { name: 'eve', role: 'member' });
  const made = await call(root, 'POST', 'tenants/ligo/principals/eve/access-keys');
  keys = {
    BURSAR_ACCESS_KEY_ID: made.accessKeyId,
    BURSAR_SECRET_ACCESS_KEY: made.secretAccessKey,
  };
  eve = new S3Client({ endpoint: served.endpoint, ...made });
  await send(eve, 'PUT', '/mine');
  await call(root, 'POST', 'tenants/cms/principals', { name: 'owner', role: 'member' });
  const key = await call(root, 'POST', 'tenants/cms/principals/owner/access-keys');
  const owner = new S3Client({ endpoint: served.endpoint, ...key });
  await send(owner, 'PUT', '/raw');
  for (const [name, body] of small) {
    const headers = { 'x-amz-meta-n': name.length.toString(), 'x-amz-tagging': 'k=a%20b' };
    const storageClass = { 'x-amz-storage-class': 'STANDARD', 'content-type': 'text/x' };
    await send(owner, 'PUT', `/raw/${name}`, { body, headers: { ...headers, ...storageClass } });
  }
  await putInParts(owner, '/raw/in-parts');
  owner.close();
});

afterAll(async () => {
  root?.close();
  eve?.close();
  await place.remove();
});

async function putInParts(client: S3Client, path: string): Promise<void> {
  const headers = {
    ...{ 'x-amz-meta-n': 'parts', 'x-amz-tagging': 'k=1&l=%C3%BC', 'cache-control': 'no-cache' },
    ...{ 'x-amz-checksum-algorithm': 'CRC32', 'x-amz-storage-class': 'STANDARD' },
  };
  const begun = await send(client, 'POST', path, { query: [['uploads', '']], headers });
  const [, id = ''] = /<UploadId>(.*?)</.exec(begun.body.toString()) ?? [];
  const made = [];
  for (const [i, body] of parts.entries()) {
    const query: [string, string][] = [
      ['partNumber', `${i + 1}`],
      ['uploadId', id],
    ];
    const { headers: told } = await send(client, 'PUT', path, { query, body });
    const checksum = `<ChecksumCRC32>${told['x-amz-checksum-crc32']}</ChecksumCRC32>`;
    const number = `<PartNumber>${i + 1}</PartNumber>`;
    made.push(`<Part>${number}<ETag>${told.etag}</ETag>${checksum}</Part>`);
  }
  const body = `<CompleteMultipartUpload>${made.join('')}</CompleteMultipartUpload>`;
  await send(client, 'POST', path, { query: [['uploadId', id]], body });
}

async function copy(...args: string[]) {
  const all = ['bucket', 'copy', ...args, '--endpoint', served.endpoint];
  const { code, stdout, stderr } = await place.run([...all, '--json'], keys);
  return { code, stderr, json: stdout === '' ? null : JSON.parse(stdout) };
}

/** All that is said of an object, but when and for whom it was made. */
async function shownOf(bucket: string, key: string) {
  const checksums = { 'x-amz-checksum-mode': 'ENABLED' };
  const { headers, body } = await send(eve, 'GET', `/${bucket}/${key}`, { headers: checksums });
  const tagging = await send(eve, 'GET', `/${bucket}/${key}`, { query: [['tagging', '']] });
  const kept = Object.entries(headers).filter(([name]) =>
    /^(etag|content-|cache-|x-amz-(meta|checksum|storage|tagging|mp))/.test(name),
  );
  return { headers: kept.sort(), body, tags: tagging.body.toString() };
}

test('it needs a grant, and says what it would do', async () => {
  const refused = await copy('cms/raw', 's3://mine');
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('AccessDenied')]);
  await call(root, 'PUT', 'tenants/cms/grants/to-ligo', {
    ...{ effect: 'allow', subjects: ['principal:ligo/eve'], bucket: 'raw' },
    actions: ['s3:GetObject', 's3:GetObjectTagging', 's3:ListBucket'],
  });
  const { code, json } = await copy('s3://cms:raw', 's3://mine', '--dry-run');
  expect([code, json.length]).toEqual([0, small.size + 1]);
  expect(json).toContainEqual({ key: 'z/large', change: 'copied', size: 200_000 });
  expect((await send(eve, 'GET', '/mine')).body.toString()).not.toContain('<Key>');
});

test('it copies all, with what is said of it, and compares it in the end', async () => {
  const some = await copy('cms/raw', 'ligo/mine', '--prefix', 'a/');
  expect(some).toMatchObject({ code: 0, json: { copied: 2, verified: 2, different: 0 } });
  // What is there is left alone, so what was interrupted goes on.
  const rest = await copy('cms/raw', 'ligo/mine');
  expect([rest.code, rest.stderr]).toEqual([0, '']);
  expect(rest.json).toMatchObject({ copied: small.size - 1, verified: small.size + 1, failed: [] });
  for (const [key, body] of [...small, ['in-parts', Buffer.concat(parts)] as const]) {
    const { body: copied, ...shown } = await shownOf('ligo:mine', key);
    const { body: original, ...expected } = await shownOf('cms:raw', key);
    expect([copied.equals(body), original.equals(body)]).toEqual([true, true]);
    expect(shown).toEqual(expected);
  }
  const uploads = await send(eve, 'GET', '/mine', { query: [['uploads', '']] });
  expect(uploads.body.toString()).not.toContain('<UploadId>');
  expect(await copy('cms/raw', 'ligo/mine')).toMatchObject({
    json: { copied: 0, bytes: 0, verified: small.size + 1 },
  });
});

test('what is different is kept and named, unless it is to be replaced', async () => {
  await send(eve, 'PUT', '/mine/a/plain', { body: 'mine' });
  await send(eve, 'PUT', '/mine/other', { body: 'other' });
  expect(await copy('cms/raw', 'ligo/mine')).toMatchObject({
    ...{ code: 1, json: { copied: 0, different: 1, differentKeys: ['a/plain'] } },
  });
  expect((await send(eve, 'GET', '/mine/a/plain')).body.toString()).toBe('mine');
  const replaced = await copy('cms/raw', 'ligo/mine', '--overwrite');
  expect(replaced).toMatchObject({ code: 0, json: { copied: 1, different: 0 } });
  const now = await send(eve, 'GET', '/mine/a/plain');
  expect(now.body.equals(small.get('a/plain') as Buffer)).toBe(true);
  // Nothing is deleted, on neither side.
  expect((await send(eve, 'GET', '/mine/other')).body.toString()).toBe('other');
  expect((await send(eve, 'GET', '/cms:raw/a/plain')).status).toBe(200);
  expect((await copy('cms/raw', 's3://cms:raw')).code).toBe(2);
});
