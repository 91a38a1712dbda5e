// Tenants: each has its own names, and no answer tells one of another's. Roles inside a tenant.
import {
  CopyObjectCommand,
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListBucketsCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { base64Checksum, md5Of } from '../checksums.ts';
import {
  type Answer,
  as,
  callNative,
  clientOf,
  findRecords,
  type Keys,
  type Message,
  newBucket,
  newName,
  newPrincipal,
  patternOf,
  refusalOf,
  send,
  type Target,
} from '../target.ts';
import { begin, complete, partBytesMin, putPart, type Upload } from './multipart.ts';
import { readObject } from './objects.ts';

interface Tenant {
  name: string;
  admin: Keys;
  auditor: Keys;
  member: Keys;
  other: Keys;
}

async function newTenant(target: Target): Promise<Tenant> {
  const tenant = newName('tenant');
  await callNative(target, 'POST', '/_/v1/tenants', { name: tenant });
  return {
    name: tenant,
    admin: await newPrincipal(target, { tenant, name: 'boss', role: 'admin' }),
    auditor: await newPrincipal(target, { tenant, name: 'audit', role: 'auditor' }),
    member: await newPrincipal(target, { tenant, name: 'alice' }),
    other: await newPrincipal(target, { tenant, name: 'bob' }),
  };
}

/** The same length as `data`, so that not even a length can tell them apart. */
const nothing = 'none';

type Room = () => { target: Target; one: Tenant; two: Tenant; upload: Upload };

export function describeTenancy(targetOf: () => Target): void {
  let target: Target;
  let one: Tenant;
  let two: Tenant;
  let upload: Upload;
  beforeAll(async () => {
    target = targetOf();
    [one, two] = [await newTenant(target), await newTenant(target)];
    const client = clientOf(as(target, one.member));
    await client.send(new CreateBucketCommand({ Bucket: 'data' }));
    await client.send(new PutObjectCommand({ Bucket: 'data', Key: 'k', Body: 'of tenant one' }));
    upload = await begin(client, 'data', { Key: 'k' });
    await putPart(client, upload, 1, 'part of tenant one');
  });
  const room = () => ({ target, one, two, upload });
  describeStrangers(room);
  describeNamespaces(room);
  describeCopies(room);
  describeRoles(room);
  describeRecords(room);
}

/** Each kind of request that names a bucket, given that name and an upload's id. */
const requests: readonly (readonly [string, (name: string, uploadId: string) => Message])[] = [
  ['HeadBucket', (name) => ({ method: 'HEAD', path: `/${name}` })],
  ['ListObjects', (name) => ({ method: 'GET', path: `/${name}` })],
  ['ListObjectsV2', (name) => ({ method: 'GET', path: `/${name}`, query: [['list-type', '2']] })],
  ['GetBucketLocation', (name) => ({ method: 'GET', path: `/${name}`, query: [['location', '']] })],
  ['DeleteBucket', (name) => ({ method: 'DELETE', path: `/${name}` })],
  ['GetObject', (name) => ({ method: 'GET', path: `/${name}/k` })],
  ['HeadObject', (name) => ({ method: 'HEAD', path: `/${name}/k` })],
  ['GetObject of no key', (name) => ({ method: 'GET', path: `/${name}/not-there` })],
  ['PutObject', (name) => ({ method: 'PUT', path: `/${name}/k`, body: 'x' })],
  ['DeleteObject', (name) => ({ method: 'DELETE', path: `/${name}/k` })],
  [
    'GetObject with a condition',
    (name) => ({ method: 'GET', path: `/${name}/k`, headers: { 'if-match': '"x"' } }),
  ],
  [
    'DeleteObjects',
    (name) => ({
      method: 'POST',
      path: `/${name}`,
      query: [['delete', '']],
      body: '<Delete><Object><Key>k</Key></Object></Delete>',
    }),
  ],
  [
    'CreateMultipartUpload',
    (name) => ({ method: 'POST', path: `/${name}/k`, query: [['uploads', '']] }),
  ],
  [
    'ListMultipartUploads',
    (name) => ({ method: 'GET', path: `/${name}`, query: [['uploads', '']] }),
  ],
  ['ListParts', (name, id) => ({ method: 'GET', path: `/${name}/k`, query: [['uploadId', id]] })],
  [
    'UploadPart',
    (name, id) => ({
      method: 'PUT',
      path: `/${name}/k`,
      query: [
        ['partNumber', '1'],
        ['uploadId', id],
      ],
      body: 'x',
    }),
  ],
  [
    'CompleteMultipartUpload',
    (name, id) => ({ method: 'POST', path: `/${name}/k`, query: [['uploadId', id]], body: '<x/>' }),
  ],
  [
    'AbortMultipartUpload',
    (name, id) => ({ method: 'DELETE', path: `/${name}/k`, query: [['uploadId', id]] }),
  ],
  [
    'an operation not implemented',
    (name) => ({ method: 'GET', path: `/${name}`, query: [['acl', '']] }),
  ],
  ['GetBucketPolicy', (name) => ({ method: 'GET', path: `/${name}`, query: [['policy', '']] })],
  ['GetObjectTagging', (name) => ({ method: 'GET', path: `/${name}/k`, query: [['tagging', '']] })],
  [
    'a bucket with an expected owner',
    (name) => ({
      method: 'GET',
      path: `/${name}`,
      headers: { 'x-amz-expected-bucket-owner': 'x/y' },
    }),
  ],
];

/** All of an answer but what differs between any two: its ids and times, and the name asked for. */
/** Without the number of its record, which is one more each time. */
function comparable({ status, headers, text }: Answer, name: string): object {
  const { 'x-amz-request-id': id = '', 'x-amz-id-2': hostId = '', ...others } = headers;
  delete others['x-bursar-receipt'];
  delete others.date;
  delete others['server-timing'];
  const plain = text.replaceAll(hostId, 'HOST').replaceAll(id, 'ID').replaceAll(name, 'NAME');
  return { status, headers: others, text: plain };
}

function describeStrangers(room: Room): void {
  describe('to another tenant', () => {
    it.each(requests)('%s of a bucket answers as of no bucket at all', async (_title, made) => {
      const { target, two, upload } = room();
      for (const keys of [two.member, two.admin, two.auditor]) {
        const stranger = as(target, keys);
        const theirs = await send(stranger, made('data', upload.UploadId));
        const none = await send(stranger, made(nothing, upload.UploadId));
        expect(theirs.status).toBeGreaterThanOrEqual(400);
        expect(comparable(theirs, 'data')).toEqual(comparable(none, nothing));
        expect(theirs.text).not.toContain('of tenant one');
      }
    });

    it('a copy from a bucket answers as from no bucket at all, for objects and parts', async () => {
      const { target, two } = room();
      const stranger = as(target, two.member);
      const own = clientOf(stranger);
      await own.send(new CreateBucketCommand({ Bucket: 'own' }));
      const upload = await begin(own, 'own', { Key: 'copied' });
      const part = [
        ['partNumber', '1'],
        ['uploadId', upload.UploadId],
      ] as const;
      for (const query of [[], part]) {
        const copy = (name: string) => {
          const headers = { 'x-amz-copy-source': `${name}/k` };
          return send(stranger, { method: 'PUT', path: '/own/copied', query, headers });
        };
        const [theirs, none] = [await copy('data'), await copy(nothing)];
        expect([theirs.status, theirs.code]).toEqual([404, 'NoSuchBucket']);
        expect(comparable(theirs, 'data')).toEqual(comparable(none, nothing));
      }
    });

    it('nothing that was tried has changed anything', async () => {
      const { target, one, upload } = room();
      const client = clientOf(as(target, one.member));
      expect((await readObject(client, 'data', 'k')).toString()).toBe('of tenant one');
      const query = [['uploadId', upload.UploadId]] as const;
      const parts = await send(as(target, one.member), { method: 'GET', path: '/data/k', query });
      expect(parts.text).toContain('<Size>18</Size>');
    });
  });
}

function describeNamespaces(room: Room): void {
  describe('two tenants', () => {
    it('can both own `data`, and each reads its own', async () => {
      const { target, one, two, upload } = room();
      const [first, second] = [one, two].map((tenant) => clientOf(as(target, tenant.member))) as [
        S3Client,
        S3Client,
      ];
      await second.send(new CreateBucketCommand({ Bucket: 'data' }));
      await second.send(new PutObjectCommand({ Bucket: 'data', Key: 'k', Body: 'of two' }));
      expect((await readObject(first, 'data', 'k')).toString()).toBe('of tenant one');
      expect((await readObject(second, 'data', 'k')).toString()).toBe('of two');
      const { Buckets = [] } = await second.send(new ListBucketsCommand({}));
      expect(Buckets.map(({ Name }) => Name)).toEqual(['data', 'own']);
      // An upload of the other's bucket of the same name and key is no upload of this one.
      const attempt = putPart(second, upload, 1, 'x');
      expect(await refusalOf(attempt)).toEqual({ code: 'NoSuchUpload', status: 404 });
    });

    it('an operator of the default tenant has no bucket of theirs either', async () => {
      const { target } = room();
      const none = await send(target, { method: 'GET', path: `/${nothing}/k` });
      const theirs = await send(target, { method: 'GET', path: '/data/k' });
      expect([theirs.status, theirs.code]).toEqual([404, 'NoSuchBucket']);
      expect(comparable(theirs, 'data')).toEqual(comparable(none, nothing));
    });
  });
}

function describeCopies(room: Room): void {
  describe('a copy of what another tenant lets others read', () => {
    let source: string;
    let Bucket: string;
    let owner: S3Client;
    let copier: S3Client;
    beforeAll(async () => {
      const { target, one, two } = room();
      [owner, copier] = [clientOf(as(target, one.member)), clientOf(as(target, two.member))];
      [source, Bucket] = [await newBucket(owner), await newBucket(copier)];
      const Statement = {
        ...{ Effect: 'Allow', Principal: { AWS: two.name }, Action: 's3:GetObject' },
        Resource: `arn:aws:s3:::${source}/*`,
      };
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
      await owner.send(new PutBucketPolicyCommand({ Bucket: source, Policy }));
    });
    const CopySource = (key: string) => `${room().one.name}:${source}/${key}`;

    it.each([0, 100, 100_000, 3_000_000])(
      'is read by who has made it when the source is gone, of %d bytes',
      async (sizeBytes) => {
        const Key = `of-${sizeBytes}`;
        const Body = patternOf(sizeBytes);
        await owner.send(new PutObjectCommand({ Bucket: source, Key, Body }));
        const of = { Bucket, CopySource: CopySource(Key) };
        const { CopyObjectResult } = await copier.send(new CopyObjectCommand({ ...of, Key }));
        expect(CopyObjectResult?.ETag).toBe(`"${md5Of(Body)}"`);
        const summed = { ...of, Key: `${Key}-summed`, ChecksumAlgorithm: 'SHA256' } as const;
        const answer = await copier.send(new CopyObjectCommand(summed));
        const sum = base64Checksum('SHA256', Body);
        expect(answer.CopyObjectResult?.ChecksumSHA256).toBe(sum);
        await owner.send(new DeleteObjectCommand({ Bucket: source, Key }));
        for (const key of [Key, `${Key}-summed`]) {
          expect((await readObject(copier, Bucket, key)).equals(Body)).toBe(true);
        }
      },
    );

    it('is a part of an object, too', async () => {
      const [Body, last] = [patternOf(partBytesMin + 10), patternOf(20, 2)];
      await owner.send(new PutObjectCommand({ Bucket: source, Key: 'whole', Body }));
      const upload = await begin(copier, Bucket, { Key: 'joined' });
      const { CopyPartResult } = await copier.send(
        new UploadPartCopyCommand({
          ...{ ...upload, PartNumber: 1, CopySource: CopySource('whole') },
          CopySourceRange: `bytes=10-${Body.length - 1}`,
        }),
      );
      expect(CopyPartResult?.ETag).toBe(`"${md5Of(Body.subarray(10))}"`);
      const { ETag } = await putPart(copier, upload, 2, last);
      await complete(copier, upload, [
        { PartNumber: 1, ...CopyPartResult },
        { PartNumber: 2, ETag },
      ]);
      await owner.send(new DeleteObjectCommand({ Bucket: source, Key: 'whole' }));
      const joined = await readObject(copier, Bucket, 'joined');
      expect(joined.equals(Buffer.concat([Body.subarray(10), last]))).toBe(true);
    });
  });
}

function describeRoles(room: Room): void {
  describe('in a tenant', () => {
    it('a member has no part in the bucket of another member', async () => {
      const { target, one } = room();
      const other = as(target, one.other);
      for (const [title, made] of requests) {
        if (title === 'an operation not implemented') continue;
        const answer = await send(other, made('data', 'x'));
        expect([title, answer.status]).toEqual([title, 403]);
      }
      const headers = { 'x-amz-copy-source': 'data/k' };
      const own = newName('own');
      await clientOf(other).send(new CreateBucketCommand({ Bucket: own }));
      const copied = await send(other, { method: 'PUT', path: `/${own}/k`, headers });
      expect([copied.status, copied.code]).toEqual([403, 'AccessDenied']);
    });

    it('an admin reads and writes what its members own, and sees all buckets', async () => {
      const { target, one } = room();
      const admin = clientOf(as(target, one.admin));
      expect((await readObject(admin, 'data', 'k')).toString()).toBe('of tenant one');
      await admin.send(new PutObjectCommand({ Bucket: 'data', Key: 'by-admin', Body: 'x' }));
      const { Buckets = [] } = await admin.send(new ListBucketsCommand({}));
      expect(Buckets.map(({ Name }) => Name)).toContain('data');
    });

    it('an auditor has no data, whether there is any or not, and no bucket list', async () => {
      const { target, one } = room();
      const auditor = as(target, one.auditor);
      for (const path of ['/', '/data', '/data/k', `/${nothing}`, `/${nothing}/k`]) {
        const answer = await send(auditor, { method: 'GET', path });
        expect([answer.status, answer.code]).toEqual([403, 'AccessDenied']);
      }
      const made = await send(auditor, { method: 'PUT', path: '/auditors' });
      expect([made.status, made.code]).toEqual([403, 'AccessDenied']);
    });

    it('members create buckets only where the tenant lets them', async () => {
      const { target, one } = room();
      const { name } = one;
      const closed = { membersCreateBuckets: false };
      await callNative(as(target, one.admin), 'PATCH', `/_/v1/tenants/${name}`, closed);
      const create = (keys: Keys) =>
        clientOf(as(target, keys)).send(new CreateBucketCommand({ Bucket: newName() }));
      expect(await refusalOf(create(one.member))).toEqual({ code: 'AccessDenied', status: 403 });
      await create(one.admin);
      const open = { membersCreateBuckets: true };
      await callNative(as(target, one.admin), 'PATCH', `/_/v1/tenants/${name}`, open);
      await create(one.member);
    });

    it('a key that was deleted works no more', async () => {
      const { target, one } = room();
      const keys = await newPrincipal(target, { tenant: one.name, name: 'leaver' });
      const leaver = clientOf(as(target, keys));
      await leaver.send(new ListBucketsCommand({}));
      const path = `/_/v1/tenants/${one.name}/principals/leaver/access-keys/${keys.accessKeyId}`;
      await callNative(as(target, one.admin), 'DELETE', path);
      expect(await refusalOf(leaver.send(new ListBucketsCommand({})))).toEqual({
        code: 'InvalidAccessKeyId',
        status: 403,
      });
    });
  });
}

function describeRecords(room: Room): void {
  describe('the records', () => {
    it('show an auditor all of its tenant, refusals too, and nothing of another', async () => {
      const { target, one, two } = room();
      const denied = clientOf(as(target, one.other));
      const attempt = denied.send(new GetObjectCommand({ Bucket: 'data', Key: 'k' }));
      expect(await refusalOf(attempt)).toMatchObject({ code: 'AccessDenied' });
      const asked = [
        ['action', 's3:GetObject'],
        ['principal', 'bob'],
        ['bucket', 'data'],
      ] as const;
      const records = (keys: Keys): Promise<object[]> => findRecords(as(target, keys), asked);
      // Reads and refusals are recorded soon, not at once.
      await expect
        .poll(() => records(one.auditor))
        .toContainEqual(
          expect.objectContaining({
            tenant: one.name,
            principal: 'bob',
            action: 's3:GetObject',
            bucket: 'data',
            key: 'k',
            status: 403,
            error: 'AccessDenied',
          }),
        );
      expect(await records(two.auditor)).toEqual([]);
      expect(await records(two.admin)).toEqual([]);
    });
  });
}
