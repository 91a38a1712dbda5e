// Limits of prefixes on a served gateway: what is counted is what is there, whatever became of the
// keys; nothing is let in beyond the last byte; and prefixes in each other all bind.
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  ListObjectVersionsCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  as,
  callNative,
  clientOf,
  exchange,
  findRecords,
  newBucket,
  newPrincipal,
  refusalOf,
  send,
  signMessage,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { putLimits } from '../tooling/limits.ts';

const much = 1_000_000_000;

let target: Target;
let client: S3Client;
let Bucket: string;

beforeAll(async () => {
  target = await startEmbeddedTarget();
  client = clientOf(target);
});
afterAll(async () => {
  client?.destroy();
  await target?.stop();
});
beforeEach(async () => {
  Bucket = await newBucket(client);
});

const accountOf = (prefix: string) => `prefix:default/${Bucket}/${prefix}`;

function limit(prefix: string, limits: object | null): Promise<void> {
  return putLimits(target, accountOf(prefix), limits);
}

/** Sets limits of a prefix; gives the answer. */
async function answerOf(prefix: string, limits: object) {
  const path = `/_/v1/limits/${accountOf(prefix)}`;
  const body = JSON.stringify(limits);
  const type = { 'content-type': 'application/json' };
  const { headers } = signMessage(target, { method: 'PUT', path, headers: type, body });
  const encoded = `/_/v1/limits/${encodeURIComponent(accountOf(prefix))}`;
  return JSON.parse((await exchange(target, 'PUT', encoded, headers, body)).text);
}

async function used(account: string) {
  const path = `/_/v1/usage/${account}`;
  const { headers } = signMessage(target, { method: 'GET', path });
  const encoded = `/_/v1/usage/${encodeURIComponent(account)}`;
  const answer = await exchange(target, 'GET', encoded, headers);
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  const { storedBytes, storedObjects, egressBytes, requests, spend } = JSON.parse(answer.text);
  return { storedBytes, storedObjects, egressBytes, requests, spend };
}

async function stored(account: string) {
  const { storedBytes, storedObjects } = await used(account);
  return { storedBytes, storedObjects };
}

const put = (Key: string, bytes: number) =>
  client.send(new PutObjectCommand({ Bucket, Key, Body: Buffer.alloc(bytes, 7) }));

const rename = (from: string, to: string) =>
  send(target, {
    method: 'PUT',
    path: `/${Bucket}/${to}`,
    query: [['renameObject', '']],
    headers: { 'x-amz-rename-source': `/${Bucket}/${from}` },
  });

/** What is counted now is what counting anew finds. */
async function expectCounted(prefix: string): Promise<void> {
  const before = await stored(accountOf(prefix));
  await limit(prefix, null);
  expect(await stored(accountOf(prefix))).toEqual({ storedBytes: 0, storedObjects: 0 });
  await limit(prefix, { storedBytes: { total: much } });
  expect(await stored(accountOf(prefix))).toEqual(before);
}

describe('what is stored under a prefix', () => {
  it('is counted from the moment that it has a limit, with what was there before', async () => {
    await put('run1/a', 100);
    await put('run1/b', 50);
    await put('run2/a', 1000);
    await limit('run1/', { storedBytes: { total: 200 } });
    expect(await stored(accountOf('run1/'))).toEqual({ storedBytes: 150, storedObjects: 2 });
    expect((await refusalOf(put('run1/c', 51))).code).toBe('QuotaExceeded');
    await put('run1/c', 50);
    expect((await refusalOf(put('run1/d', 1))).code).toBe('QuotaExceeded');
    await put('run2/b', 5000);
    await client.send(new DeleteObjectCommand({ Bucket, Key: 'run1/a' }));
    await put('run1/d', 100);
    expect(await stored(accountOf('run1/'))).toEqual({ storedBytes: 200, storedObjects: 3 });
  });

  it('binds in each of several prefixes that a key begins with', async () => {
    await limit('a/', { storedObjects: { total: 3 } });
    await limit('a/b/', { storedObjects: { total: 1 } });
    await put('a/b/1', 1);
    expect((await refusalOf(put('a/b/2', 1))).code).toBe('QuotaExceeded');
    await put('a/1', 1);
    await put('a/2', 1);
    expect((await refusalOf(put('a/3', 1))).code).toBe('QuotaExceeded');
    await put('ab', 1);
    expect(await stored(accountOf('a/'))).toEqual({ storedBytes: 3, storedObjects: 3 });
  });

  it('is warned about where its bucket, or a prefix around it, binds before it', async () => {
    await limit('w/', { storedBytes: { total: 50 }, requests: { day: 9 } });
    await putLimits(target, `bucket:default/${Bucket}`, { requests: { day: 9 } });
    const wanted = { storedBytes: { total: 50 }, requests: { hour: 9 } };
    const { warnings } = await answerOf('w/in/', wanted);
    expect(warnings).toEqual([
      expect.stringMatching(/^the limit of .*w\/in\/ on storedBytes binds nothing: that of/),
    ]);
    expect((await answerOf('w/', { requests: { day: 9 } })).warnings).toEqual([
      expect.stringContaining(`that of bucket:default/${Bucket} is not above it`),
    ]);
    expect((await answerOf('w/', { requests: { day: 8 } })).warnings).toEqual([]);
  });

  it('binds whoever writes', async () => {
    await limit('shared/', { storedBytes: { total: 10 } });
    const name = 'writer';
    const keys = await newPrincipal(target, { name });
    const policy = {
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { AWS: `arn:aws:iam::default:user/${name}` },
          Action: 's3:PutObject',
          Resource: `arn:aws:s3:::${Bucket}/*`,
        },
      ],
    };
    await send(target, {
      method: 'PUT',
      path: `/${Bucket}`,
      query: [['policy', '']],
      body: JSON.stringify(policy),
    });
    const writer = as(target, keys);
    const path = `/${Bucket}/shared/x`;
    expect((await send(writer, { method: 'PUT', path, body: 'x'.repeat(11) })).status).toBe(403);
    expect((await send(writer, { method: 'PUT', path, body: 'x'.repeat(10) })).status).toBe(200);
    expect(await stored(accountOf('shared/'))).toEqual({ storedBytes: 10, storedObjects: 1 });
  });

  it('follows a rename in and out, which is refused where it does not fit', async () => {
    await put('out', 100);
    await limit('in/', { storedBytes: { total: 150 } });
    expect((await rename('out', 'in/1')).status).toBe(200);
    expect(await stored(accountOf('in/'))).toEqual({ storedBytes: 100, storedObjects: 1 });
    await put('out', 51);
    expect((await rename('out', 'in/2')).status).toBe(403);
    // Within the prefix there is not one more.
    expect((await rename('in/1', 'in/3')).status).toBe(200);
    expect(await stored(accountOf('in/'))).toEqual({ storedBytes: 100, storedObjects: 1 });
    expect((await rename('in/3', 'out')).status).toBe(200);
    expect(await stored(accountOf('in/'))).toEqual({ storedBytes: 0, storedObjects: 0 });
    await expectCounted('in/');
  });

  it.each(['window', 'snapshot'])(
    'lets a rename keep what a %s holds where it fits',
    async (by) => {
      await put('a/a', 100);
      const path = `/_/v1/tenants/default/buckets/${Bucket}`;
      if (by === 'window') await callNative(target, 'PUT', `${path}/undelete`, { seconds: 3600 });
      else await callNative(target, 'PUT', `${path}/snapshots/one`, {});
      const [bucket, prefix] = [`bucket:default/${Bucket}`, accountOf('b/')];
      const limitAll = async (limits: object | null) => {
        for (const account of [bucket, prefix]) await putLimits(target, account, limits);
      };
      await limitAll({ storedBytes: { total: 199 }, storedObjects: { total: 1 } });
      const refused = await rename('a/a', 'b/a');
      expect([refused.status, refused.text]).toEqual([403, expect.stringMatching(/QuotaExceeded/)]);
      expect(await stored(bucket)).toEqual({ storedBytes: 100, storedObjects: 1 });
      await limitAll({ storedBytes: { total: 200 }, storedObjects: { total: 1 } });
      expect((await rename('a/a', 'b/a')).status).toBe(200);
      expect(await stored(bucket)).toEqual({ storedBytes: 200, storedObjects: 1 });
      expect(await stored(prefix)).toEqual({ storedBytes: 100, storedObjects: 1 });
      await expectCounted('b/');
      await putLimits(target, bucket, null);
    },
  );

  it('lets a rename keep a version with an id where versioning is suspended', async () => {
    const suspend = (Status: 'Enabled' | 'Suspended') =>
      client.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status } }));
    await suspend('Enabled');
    await put('a', 100);
    await suspend('Suspended');
    const bucket = `bucket:default/${Bucket}`;
    await putLimits(target, bucket, { storedBytes: { total: 199 } });
    expect((await rename('a', 'b')).status).toBe(403);
    await putLimits(target, bucket, { storedBytes: { total: 200 } });
    expect((await rename('a', 'b')).status).toBe(200);
    expect(await stored(bucket)).toEqual({ storedBytes: 200, storedObjects: 2 });
  });

  it('has what is sent and spent, and limits it', async () => {
    await put('data/x', 1000);
    await limit('data/', { egressBytes: { total: 2500 } });
    const get = async () => {
      const { Body } = await client.send(new GetObjectCommand({ Bucket, Key: 'data/x' }));
      await Body?.transformToByteArray();
    };
    await get();
    await get();
    expect((await refusalOf(get())).code).toBe('QuotaExceeded');
    expect(await used(accountOf('data/'))).toMatchObject({ egressBytes: 2000, requests: 2 });
    await limit('data/', { spend: { total: '0.000001' } });
    expect((await refusalOf(put('data/y', 1))).code).toBe('QuotaExceeded');
  });

  it('is in the records, which add up to it', async () => {
    await limit('told/', { storedBytes: { total: 1000 } });
    await put('told/a', 10);
    await put('told/a', 4);
    const query = [['bucket', Bucket] as const];
    const records = await findRecords(target, query);
    const prefixes = records.flatMap(({ limited: told = [] }) => told);
    const sum = prefixes.reduce((bytes, one) => bytes + one.storedBytes, 0);
    expect(prefixes.map(({ account }) => account)).toContain(accountOf('told/'));
    expect(sum).toBe(4);
  });

  it('is exact through versions, multipart uploads, copies and deletions', async () => {
    const all = 'k/';
    await put('k/early', 5);
    await limit(all, { storedBytes: { total: much } });
    await limit('k/b', { storedBytes: { total: much } });
    const VersioningConfiguration = { Status: 'Enabled' } as const;
    await put('k/a', 10);
    await client.send(new PutBucketVersioningCommand({ Bucket, VersioningConfiguration }));
    await put('k/a', 20);
    await put('k/b', 30);
    await client.send(new DeleteObjectCommand({ Bucket, Key: 'k/a' }));
    const snapshot = `/_/v1/tenants/default/buckets/${Bucket}/snapshots/one`;
    await callNative(target, 'PUT', snapshot, {});
    const CopySource = `${Bucket}/k/b`;
    await client.send(new CopyObjectCommand({ Bucket, Key: 'k/c', CopySource }));
    expect((await rename('k/b', 'k/d')).status).toBe(200);
    const Key = 'k/big';
    for (const isAborted of [false, true]) {
      const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key }));
      const Parts: { PartNumber: number; ETag: string | undefined }[] = [];
      for (const PartNumber of [1, 1, 2]) {
        const Body = Buffer.alloc(PartNumber === 2 ? 10 : 5 << 20);
        const part = { Bucket, Key, UploadId, PartNumber, Body };
        const { ETag } = await client.send(new UploadPartCommand(part));
        Parts.push({ PartNumber, ETag });
      }
      await expectCounted(all);
      const upload = { Bucket, Key, UploadId };
      if (isAborted) await client.send(new AbortMultipartUploadCommand(upload));
      else {
        const MultipartUpload = { Parts: Parts.slice(1) };
        await client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload }));
      }
    }
    expect(await stored(accountOf(all))).toEqual(await stored(`bucket:default/${Bucket}`));
    await expectCounted(all);
    await expectCounted('k/b');
    const { Versions = [], DeleteMarkers = [] } = await client.send(
      new ListObjectVersionsCommand({ Bucket }),
    );
    const Objects = [...Versions, ...DeleteMarkers].map(({ Key: key, VersionId }) => {
      return { Key: key as string, VersionId: VersionId as string };
    });
    await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
    const held = await stored(accountOf(all));
    expect(held.storedObjects).toBe(0);
    expect(held.storedBytes).toBeGreaterThan(0);
    expect(held).toEqual(await stored(`bucket:default/${Bucket}`));
    await expectCounted(all);
  });
});
