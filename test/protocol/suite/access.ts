// Ways to an operation: presigned URLs, bucket names in the host, and refusals before the body.
import { Agent } from 'node:http';
import {
  CreateBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
  type S3ClientConfig,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { presignUrl, type UrlToSign } from '../../tooling/presign.ts';
import {
  type Answer,
  clientOf,
  domain,
  elementOf,
  exchange,
  newBucket,
  newName,
  region,
  send,
  type Target,
} from '../target.ts';
import { signedHead, Wire } from '../wire.ts';
import { begin, putPart } from './multipart.ts';
import { readObject } from './objects.ts';

type Room = () => { target: Target; client: S3Client; Bucket: string };

export function describeAccess(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
    await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'presigned' }));
  });
  const room = () => ({ target, client, Bucket });
  describePresigned(room);
  describeExpectedOwners(room);
  describeHosts(room);
  describeContinue(room);
}

function describePresigned(room: Room): void {
  const presign = (path: string, more: Partial<UrlToSign> = {}): string => {
    const { target, Bucket } = room();
    const { accessKeyId, secretAccessKey: secret } = target.keys;
    return presignUrl({
      accessKeyId,
      secret,
      region,
      method: 'GET',
      origin: target.endpoint,
      path: `/${Bucket}/${path}`,
      expiresSeconds: 60,
      timeMs: Date.now(),
      ...more,
    });
  };
  const use = (url: string, method = 'GET', body?: string, more = {}): Promise<Answer> => {
    const { target } = room();
    const { host, pathname, search } = new URL(url);
    return exchange(target, method, `${pathname}${search}`, { host, ...more }, body);
  };

  describe('a presigned URL', () => {
    it('reads, with the headers that it asks for', async () => {
      const query = [['response-content-type', 'text/html']] as const;
      const got = await use(presign('k', { query }));
      expect([got.status, got.text]).toEqual([200, 'presigned']);
      expect(got.headers['content-type']).toBe('text/html');
    });

    it('writes a body that nobody signed, to its key and no other', async () => {
      const { client, Bucket } = room();
      const url = presign('written', { method: 'PUT' });
      expect((await use(url, 'PUT', 'the body')).status).toBe(200);
      expect((await readObject(client, Bucket, 'written')).toString()).toBe('the body');
      const other = await use(url.replace('/written?', '/other?'), 'PUT', 'x');
      expect([other.status, other.code]).toEqual([403, 'SignatureDoesNotMatch']);
    });

    it('that has expired, or is not valid yet, is refused', async () => {
      const expired = await use(presign('k', { timeMs: Date.now() - 61_000 }));
      expect([expired.status, expired.code]).toEqual([403, 'AccessDenied']);
      expect(expired.text).toContain('Request has expired');
      const early = await use(presign('k', { timeMs: Date.now() + 3_600_000 }));
      expect([early.status, early.code]).toEqual([403, 'AccessDenied']);
    });

    it.each([
      ['with a longer life', (url: string) => url.replace('Expires=60', 'Expires=600')],
      ['with another key', (url: string) => url.replace('/k?', '/l?')],
      ['with a slash before its bucket', (url: string) => url.replace(/:\d+\//, '$&%2F')],
      ['with one more parameter', (url: string) => `${url}&versionId=null`],
      [
        'with a changed signature',
        (url: string) => url.replace(/.$/, (c) => (c === '0' ? '1' : '0')),
      ],
      ['with a later date', (url: string) => url.replace(/Date=\d{8}T/, 'Date=20990101T')],
    ])('%s is refused', async (_title, change) => {
      const url = presign('k');
      expect(change(url)).not.toBe(url);
      const got = await use(change(url));
      expect(got.status).toBeGreaterThanOrEqual(400);
      expect(got.text).not.toContain('presigned<');
      expect(got.code).toMatch(/^(SignatureDoesNotMatch|AccessDenied|Authorization.*)$/);
    });

    it('for GET does not DELETE, and takes no header of Amazon’s that was not signed', async () => {
      const { client, Bucket } = room();
      expect((await use(presign('k'), 'DELETE')).code).toBe('SignatureDoesNotMatch');
      const url = presign('copied', { method: 'PUT' });
      const headers = { 'x-amz-copy-source': `${Bucket}/k` };
      const copied = await use(url, 'PUT', '', headers);
      expect([copied.status, copied.code]).toEqual([403, 'AccessDenied']);
      expect((await readObject(client, Bucket, 'k')).toString()).toBe('presigned');
    });

    it('lives for a week at most', async () => {
      const got = await use(presign('k', { expiresSeconds: 604_801 }));
      expect([got.status, got.code]).toEqual([400, 'AuthorizationQueryParametersError']);
    });
  });
}

function describeExpectedOwners(room: Room): void {
  describe('a bucket whose owner is named by the request', () => {
    const owner = 'x-amz-expected-bucket-owner';
    const source = 'x-amz-source-expected-bucket-owner';
    it.each([
      [{ [owner]: 'default/admin' }, 200],
      [{ [owner]: 'default/other' }, 403],
      [{ [source]: 'default/admin' }, 200],
      [{ [source]: '123456789012' }, 403],
    ])('%j: a copy into it is %i', async (headers, status) => {
      const { target, Bucket } = room();
      const copy = { ...headers, 'x-amz-copy-source': `${Bucket}/k` };
      const path = `/${Bucket}/${newName('owned')}`;
      const answer = await send(target, { method: 'PUT', path, headers: copy });
      expect(answer.status).toBe(status);
      const head = await send(target, { method: 'HEAD', path });
      expect(head.status).toBe(status === 200 ? 200 : 404);
    });
  });
}

function describeHosts(room: Room): void {
  /** The SDK with bucket names in the host, and a resolver that knows where that is. */
  function virtualHostClient(target: Target): S3Client {
    const { port } = new URL(target.endpoint);
    const httpAgent = new Agent({
      lookup: (_name: string, options: { all?: boolean }, done: (...given: unknown[]) => void) =>
        options.all
          ? done(null, [{ address: '127.0.0.1', family: 4 }])
          : done(null, '127.0.0.1', 4),
    } as never);
    const requestHandler = { httpAgent } as S3ClientConfig['requestHandler'];
    return clientOf(target, {
      endpoint: `http://${domain}:${port}`,
      forcePathStyle: false,
      requestHandler,
    });
  }

  describe('a bucket named by the host', () => {
    it('is the bucket for all of its operations', async () => {
      const { target, client } = room();
      const hosted = virtualHostClient(target);
      const Bucket = newName();
      await hosted.send(new CreateBucketCommand({ Bucket }));
      for (const Key of ['k', 'a/b', `${Bucket}/k`, '_/health', '/']) {
        await hosted.send(new PutObjectCommand({ Bucket, Key, Body: Key }));
        const { Body } = await hosted.send(new GetObjectCommand({ Bucket, Key }));
        expect(await Body?.transformToString()).toBe(Key);
        expect((await readObject(client, Bucket, Key)).toString()).toBe(Key);
      }
      const { Contents } = await hosted.send(new ListObjectsV2Command({ Bucket }));
      expect(Contents).toHaveLength(5);
    });

    it('is in the place that a completed upload names, just once', async () => {
      const { target, client, Bucket } = room();
      const upload = await begin(client, Bucket, { Key: 'a?b c#/ü' });
      const { ETag } = await putPart(client, upload, 1, 'placed');
      const part = `<Part><PartNumber>1</PartNumber><ETag>${ETag}</ETag></Part>`;
      const answer = await send(target, {
        method: 'POST',
        path: '/a?b c#/ü',
        query: [['uploadId', upload.UploadId]],
        headers: { host: `${Bucket}.${domain}` },
        body: `<CompleteMultipartUpload>${part}</CompleteMultipartUpload>`,
      });
      const place = `http://${Bucket}.${domain}/a%3Fb%20c%23/%C3%BC`;
      expect(elementOf(answer.text, 'Location')).toBe(place);
    });

    it('is not mistaken for a key, with any case and any port in the Host', async () => {
      const { target, Bucket } = room();
      for (const host of [`${Bucket}.${domain}`, `${Bucket}.${domain.toUpperCase()}:12345`]) {
        const got = await send(target, { method: 'GET', path: '/k', headers: { host } });
        expect([got.status, got.text]).toEqual([200, 'presigned']);
      }
    });

    it('that is the domain, or another of the gateway’s, leaves the path as it is', async () => {
      const { target, Bucket } = room();
      const ask = (host: string): Promise<Answer> =>
        send(target, { method: 'GET', path: `/${Bucket}/k`, headers: { host } });
      for (const host of [domain, 'localhost']) {
        const got = await ask(host);
        expect([got.status, got.text]).toEqual([200, 'presigned']);
      }
      // What was signed for somebody else's host is good for nothing here.
      for (const host of [`x${domain}`, 'elsewhere.example']) {
        const got = await ask(host);
        expect([got.status, got.code]).toEqual([421, 'MisdirectedRequest']);
      }
    });

    it('and not there is NoSuchBucket; with no valid name it is no bucket', async () => {
      const { target } = room();
      const missing = `${newName()}.${domain}`;
      const none = await send(target, { method: 'GET', path: '/', headers: { host: missing } });
      expect([none.status, none.code]).toEqual([404, 'NoSuchBucket']);
      const host = `a_b.${domain}`;
      const bad = await send(target, { method: 'GET', path: '/', headers: { host } });
      expect([bad.status, bad.code]).toEqual([400, 'InvalidBucketName']);
    });
  });
}

function describeContinue(room: Room): void {
  const expectLine = 'Expect: 100-continue';
  const body = 'x'.repeat(100_000);

  describe('a client that asks before it sends a body', () => {
    it('is told to go on, once, when it may', async () => {
      const { target, client, Bucket } = room();
      const wire = await Wire.open(target);
      const headers = { 'content-length': String(body.length) };
      const path = `/${Bucket}/continued`;
      wire.write(signedHead(target, { method: 'PUT', path, headers, body }, [expectLine]));
      expect(await wire.until(/\r\n\r\n/)).toBe('HTTP/1.1 100 Continue\r\n\r\n');
      wire.write(body);
      expect(await wire.answer()).toMatchObject({ status: 200 });
      expect(wire.received.match(/HTTP\/1\.1/g)).toHaveLength(2);
      wire.destroy();
      expect((await readObject(client, Bucket, 'continued')).toString()).toBe(body);
    });

    it.each([
      ['NoSuchBucket', 404, () => ({ path: `/${newName()}/k` })],
      ['KeyTooLongError', 400, (b: string) => ({ path: `/${b}/${'k'.repeat(1025)}` })],
      ['PreconditionFailed', 412, () => ({ headers: { 'if-none-match': '*' } })],
      ['NotImplemented', 501, () => ({ headers: { 'x-amz-storage-class': 'GLACIER' } })],
      ['AccessControlListNotSupported', 400, () => ({ headers: { 'x-amz-acl': 'public-read' } })],
      ['InvalidDigest', 400, () => ({ headers: { 'content-md5': 'x' } })],
      ['InvalidRequest', 400, () => ({ headers: { 'x-amz-checksum-crc32': 'x' } })],
      ['EntityTooLarge', 400, () => ({ headers: { 'content-length': '5368709121' } })],
      ['MetadataTooLarge', 400, () => ({ headers: { 'x-amz-meta-a': 'v'.repeat(2048) } })],
      [
        'NoSuchUpload',
        404,
        () => ({
          query: [
            ['partNumber', '1'],
            ['uploadId', 'x'],
          ] as const,
        }),
      ],
      [
        'InvalidAccessKeyId',
        403,
        () => ({ keys: { accessKeyId: 'nobody', secretAccessKey: 'x' } }),
      ],
      ['SignatureDoesNotMatch', 403, () => ({ secret: 'wrong' })],
    ])('and may not hears %s before it sends a byte', async (code, status, made) => {
      const { target, Bucket } = room();
      const given = made(Bucket) as {
        path?: string;
        headers?: Record<string, string>;
        keys?: Target['keys'];
        secret?: string;
      };
      const keys = given.keys ?? { ...target.keys };
      if (given.secret) keys.secretAccessKey = given.secret;
      const asked = {
        method: 'PUT',
        path: `/${Bucket}/k`,
        body,
        ...given,
        headers: { 'content-length': String(body.length), ...given.headers },
      };
      const wire = await Wire.open(target);
      wire.write(signedHead({ ...target, keys }, asked, [expectLine]));
      expect(await wire.answer()).toEqual({ status, code });
      expect(wire.received).not.toContain('100 Continue');
      wire.destroy();
      const { client } = room();
      expect((await readObject(client, Bucket, 'k')).toString()).toBe('presigned');
    });
  });
}
