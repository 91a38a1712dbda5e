// What Bursar does not do yet says so with 501 and changes nothing: a silent 200 would be a lie.
// The names are those of the Amazon S3 API reference.
import { HeadObjectCommand, PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { clientOf, type Message, newBucket, newName, send, type Target } from '../target.ts';

const ofBuckets = [
  'accelerate',
  'acl',
  'analytics',
  'cors',
  'encryption',
  'intelligent-tiering',
  'inventory',
  'lifecycle',
  'logging',
  'metadataConfiguration',
  'metadataTable',
  'metrics',
  'notification',
  'object-lock',
  'ownershipControls',
  'policy',
  'policyStatus',
  'publicAccessBlock',
  'replication',
  'requestPayment',
  'session',
  'tagging',
  'versioning',
  'versions',
  'website',
];
const ofObjects = [
  'acl',
  'attributes',
  'legal-hold',
  'partNumber=1',
  'retention',
  'tagging',
  'torrent',
  'versionId=3sL4kqtJlcpXroDTDmJ',
];
/** What works by these methods. */
const implemented = [
  'GET accelerate',
  'PUT accelerate',
  'GET analytics',
  'GET encryption',
  'PUT encryption',
  'DELETE encryption',
  'GET intelligent-tiering',
  'PUT intelligent-tiering',
  'DELETE intelligent-tiering',
  'GET inventory',
  'PUT inventory',
  'DELETE inventory',
  'GET logging',
  'GET metrics',
  'PUT metrics',
  'DELETE metrics',
  'GET notification',
  'PUT notification',
  'GET replication',
  'GET requestPayment',
  'PUT requestPayment',
  'GET website',
  'PUT website',
  'DELETE website',
  'GET acl',
  'PUT acl',
  'GET lifecycle',
  'PUT lifecycle',
  'DELETE lifecycle',
  'GET object-lock',
  'PUT object-lock',
  'GET ownershipControls',
  'PUT ownershipControls',
  'DELETE ownershipControls',
  'GET publicAccessBlock',
  'PUT publicAccessBlock',
  'DELETE publicAccessBlock',
  'GET acl of an object',
  'PUT acl of an object',
  'GET legal-hold of an object',
  'PUT legal-hold of an object',
  'GET retention of an object',
  'PUT retention of an object',
  'GET cors',
  'PUT cors',
  'DELETE cors',
  'GET policy',
  'PUT policy',
  'DELETE policy',
  'GET policyStatus',
  'GET tagging',
  'PUT tagging',
  'DELETE tagging',
  'GET versioning',
  'PUT versioning',
  'GET versions',
  'GET attributes of an object',
  'GET partNumber=1 of an object',
  'HEAD partNumber=1 of an object',
  'GET tagging of an object',
  'PUT tagging of an object',
  'DELETE tagging of an object',
  'GET versionId=3sL4kqtJlcpXroDTDmJ of an object',
  'HEAD versionId=3sL4kqtJlcpXroDTDmJ of an object',
  'DELETE versionId=3sL4kqtJlcpXroDTDmJ of an object',
];

/** What we know, but for other methods: it must not be taken for the plain operation. */
const misplaced: readonly (readonly [string, string, string])[] = [
  ['PUT', 'bucket', 'uploads'],
  ['PUT', 'bucket', 'location'],
  ['PUT', 'bucket', 'delete'],
  ['DELETE', 'bucket', 'uploads'],
  ['DELETE', 'bucket', 'location'],
  ['DELETE', 'bucket', 'delete'],
  ['GET', 'bucket', 'delete'],
  ['PUT', 'object', 'uploads'],
  ['PUT', 'object', 'uploadId=x'],
  ['DELETE', 'object', 'uploads'],
  ['GET', 'object', 'uploads'],
  ['POST', 'object', 'select'],
  ['POST', 'bucket', 'metadataConfiguration'],
];

const writeHeaders: Record<string, string> = {
  'x-amz-server-side-encryption': 'aws:kms',
  'x-amz-server-side-encryption-context': 'e30=',
  'x-amz-storage-class': 'GLACIER',
  'x-amz-write-offset-bytes': '8',
};

export function describeNotImplemented(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  let before: object;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
    await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'unchanged' }));
    before = await state();
  });

  /** What could have changed. */
  async function state(): Promise<object> {
    const head = await client.send(new HeadObjectCommand({ Bucket, Key: 'k' }));
    const { text } = await send(target, { method: 'GET', path: `/${Bucket}` });
    const { ETag, LastModified, ContentLength, Metadata } = head;
    return { ETag, LastModified, ContentLength, Metadata, text };
  }

  /** 501, and all is as it was. */
  async function expectRefused(message: Message): Promise<void> {
    const answer = await send(target, message);
    expect(answer.status).toBe(501);
    if (message.method !== 'HEAD') expect(answer.code).toBe('NotImplemented');
    expect(await state()).toEqual(before);
  }

  const queryOf = (text: string) => {
    const [name = '', value = ''] = text.split('=');
    return [[name, value]] as const;
  };

  describe.each(['GET', 'HEAD', 'PUT', 'POST', 'DELETE'])(
    '%s is 501 and changes nothing',
    (method) => {
      const body = method === 'PUT' || method === 'POST' ? '<x/>' : '';
      const left = (name: string) => !implemented.includes(`${method} ${name}`);
      it.each(ofBuckets.filter(left))('for the subresource ?%s of a bucket', async (name) => {
        await expectRefused({ method, path: `/${Bucket}`, query: queryOf(name), body });
      });
      const ofObject = (name: string) => left(`${name} of an object`);
      it.each(ofObjects.filter(ofObject))('for the subresource ?%s of an object', async (name) => {
        await expectRefused({ method, path: `/${Bucket}/k`, query: queryOf(name), body });
      });
    },
  );

  it.each(misplaced)(
    '%s of a %s with ?%s is not the plain operation',
    async (method, kind, name) => {
      const path = kind === 'bucket' ? `/${Bucket}` : `/${Bucket}/k`;
      // A message of these methods has no length unless it is given, so no body either.
      const body = method === 'PUT' || method === 'POST' ? 'body' : '';
      await expectRefused({ method, path, query: queryOf(name), body });
    },
  );

  it('of a bucket that is not there, that is told first', async () => {
    for (const [method, name] of [
      ['PUT', 'replication'],
      ['DELETE', 'replication'],
    ] as const) {
      const asked = { method, path: `/${newName()}`, query: [[name, '']] as const };
      const answer = await send(target, asked);
      expect([answer.status, answer.code]).toEqual([404, 'NoSuchBucket']);
    }
  });

  it('a subresource of a bucket that is not there makes no bucket', async () => {
    const name = newName();
    const asked = { method: 'PUT', path: `/${name}`, query: [['versioning', '']] as const };
    expect((await send(target, { ...asked, body: '<x/>' })).status).not.toBe(200);
    expect((await send(target, { method: 'HEAD', path: `/${name}` })).status).toBe(404);
  });

  it.each(Object.entries(writeHeaders))(
    'the header %s: %s of a PUT, a copy and an upload is 501',
    async (name, value) => {
      const headers = { [name]: value };
      await expectRefused({ method: 'PUT', path: `/${Bucket}/k`, headers, body: 'new' });
      const copy = { ...headers, 'x-amz-copy-source': `${Bucket}/k` };
      await expectRefused({ method: 'PUT', path: `/${Bucket}/copy`, headers: copy });
      const query = [['uploads', '']] as const;
      await expectRefused({ method: 'POST', path: `/${Bucket}/k`, query, headers });
    },
  );

  it.each([
    ['PUT', 'x-amz-if-match-last-modified-time', 'Sat, 01 Jan 2000 00:00:00 GMT'],
    ['PUT', 'x-amz-if-match-size', '1'],
    ['DELETE', 'x-amz-if-match-initiated-time', 'Sat, 01 Jan 2000 00:00:00 GMT'],
    ['DELETE', 'x-amz-mfa', '1 2'],
  ])(
    '%s with %s: %s is 501: ignoring it would do what was not asked for',
    async (method, name, value) => {
      await expectRefused({ method, path: `/${Bucket}/k`, headers: { [name]: value } });
    },
  );

  it.each([
    ['x-amz-acl', 'private'],
    ['x-amz-storage-class', 'STANDARD'],
  ])('the header %s: %s asks for what is so anyway', async (name, value) => {
    const path = `/${Bucket}/${newName('granted')}`;
    const answer = await send(target, {
      method: 'PUT',
      path,
      headers: { [name]: value },
      body: 'x',
    });
    expect(answer.status).toBe(200);
    await send(target, { method: 'DELETE', path });
  });

  it('a storage class that nobody knows is refused', async () => {
    const headers = { 'x-amz-storage-class': 'WARM' };
    const answer = await send(target, { method: 'PUT', path: `/${Bucket}/k`, headers, body: 'x' });
    expect([answer.status, answer.code]).toEqual([400, 'InvalidStorageClass']);
    expect(await state()).toEqual(before);
  });

  it.each(['PATCH', 'PROPFIND', 'LOCK', 'TRACE'])(
    '%s is a method that S3 does not have',
    async (method) => {
      const answer = await send(target, { method, path: `/${Bucket}/k` });
      expect([answer.status, answer.code]).toEqual([405, 'MethodNotAllowed']);
    },
  );
}
