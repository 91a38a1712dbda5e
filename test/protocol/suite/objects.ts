// Objects: PutObject, GetObject, HeadObject, DeleteObject, DeleteObjects and what travels with
// them.
import { Readable } from 'node:stream';
import {
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { md5Of } from '../checksums.ts';
import {
  clientOf,
  elementOf,
  elementsOf,
  newBucket,
  newName,
  patternOf,
  refusalOf,
  send,
  type Target,
} from '../target.ts';

/** The whole body of an object. */
export async function readObject(client: S3Client, Bucket: string, Key: string): Promise<Buffer> {
  const { Body } = await client.send(new GetObjectCommand({ Bucket, Key }));
  return Buffer.from((await Body?.transformToByteArray()) ?? []);
}

export function describeObjects(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
  });
  const room = () => ({ target, client, Bucket });
  describeRoundTrips(room);
  describeAttributes(room);
  describeDeletions(room);
  describeErrors(room);
}

type Room = () => { target: Target; client: S3Client; Bucket: string };

const KiB = 1024;

function describeRoundTrips(room: Room): void {
  describe('storing an object', () => {
    it.each([0, 1, 64 * KiB - 1, 64 * KiB, 64 * KiB + 1, 256 * KiB, 256 * KiB + 1, 5_000_001])(
      'of %i bytes gives the same bytes back, and their MD5 as ETag',
      async (sizeBytes) => {
        const { client, Bucket } = room();
        const Body = patternOf(sizeBytes);
        const Key = `size/${sizeBytes}`;
        const put = await client.send(new PutObjectCommand({ Bucket, Key, Body }));
        expect(put.ETag).toBe(`"${md5Of(Body)}"`);
        const head = await client.send(new HeadObjectCommand({ Bucket, Key }));
        expect([head.ContentLength, head.ETag]).toEqual([sizeBytes, put.ETag]);
        expect((await readObject(client, Bucket, Key)).equals(Body)).toBe(true);
      },
    );

    it('from a stream, in chunks of HTTP and aws-chunked, is stored as sent', async () => {
      const { client, Bucket } = room();
      const bytes = patternOf(700_000, 7);
      const pieces = [bytes.subarray(0, 1), bytes.subarray(1, 300_000), bytes.subarray(300_000)];
      const Body = Readable.from(pieces);
      const ContentLength = bytes.length;
      await client.send(new PutObjectCommand({ Bucket, Key: 'stream', Body, ContentLength }));
      expect((await readObject(client, Bucket, 'stream')).equals(bytes)).toBe(true);
    });

    it('over another replaces it whole', async () => {
      const { client, Bucket } = room();
      const before = { ContentType: 'text/plain', Metadata: { old: 'yes' }, Body: 'a longer body' };
      await client.send(new PutObjectCommand({ Bucket, Key: 'twice', ...before }));
      await client.send(new PutObjectCommand({ Bucket, Key: 'twice', Body: 'new' }));
      const got = await client.send(new GetObjectCommand({ Bucket, Key: 'twice' }));
      expect(await got.Body?.transformToString()).toBe('new');
      expect(got.Metadata).toEqual({});
      expect(got.ContentType).not.toBe('text/plain');
    });

    it('in a bucket that is not there is NoSuchBucket', async () => {
      const { client } = room();
      const put = new PutObjectCommand({ Bucket: newName(), Key: 'k', Body: 'x' });
      expect(await refusalOf(client.send(put))).toEqual({ code: 'NoSuchBucket', status: 404 });
    });
  });
}

function describeAttributes(room: Room): void {
  describe('what travels with an object', () => {
    it('system and user metadata come back as they were given', async () => {
      const { client, Bucket } = room();
      const given = {
        ContentType: 'text/csv; charset=utf-8',
        CacheControl: 'max-age=60, private',
        ContentDisposition: 'attachment; filename="a b.csv"',
        ContentEncoding: 'gzip',
        ContentLanguage: 'de, en',
        Metadata: { 'run-number': '27', spaced: 'a  b' },
      };
      const Expires = new Date('2031-01-02T03:04:05Z');
      await client.send(
        new PutObjectCommand({ Bucket, Key: 'meta', Body: 'x', ...given, Expires }),
      );
      for (const command of [GetObjectCommand, HeadObjectCommand]) {
        const got = await client.send(new command({ Bucket, Key: 'meta' }) as HeadObjectCommand);
        expect(got).toMatchObject({ ...given, ExpiresString: Expires.toUTCString() });
      }
    });

    it('a body without a type is binary/octet-stream, as on S3', async () => {
      const { target, Bucket } = room();
      await send(target, { method: 'PUT', path: `/${Bucket}/untyped`, body: 'x' });
      const got = await send(target, { method: 'HEAD', path: `/${Bucket}/untyped` });
      expect(got.headers['content-type']).toBe('binary/octet-stream');
    });

    it('bytes of metadata that are not ASCII come back as the same bytes', async () => {
      const { target, client, Bucket } = room();
      const word = '=?UTF-8?Q?Z=C3=BCrich?=';
      const Metadata = { plain: '=?UTF-8?B?YWJj?=', word };
      await client.send(new PutObjectCommand({ Bucket, Key: 'words', Body: 'x', Metadata }));
      const words = await client.send(new HeadObjectCommand({ Bucket, Key: 'words' }));
      expect(words.Metadata).toEqual({ plain: 'abc', word });
      const value = Buffer.from('Zürich ☃').toString('latin1');
      const path = `/${Bucket}/bytes`;
      await send(target, {
        method: 'PUT',
        path,
        headers: { 'x-amz-meta-place': value },
        body: 'x',
      });
      const got = await send(target, { method: 'GET', path });
      expect(got.headers['x-amz-meta-place']).toBe(value);
    });

    it('metadata of 2,048 bytes is kept, of 2,049 refused before anything is stored', async () => {
      const { client, Bucket } = room();
      const put = (Key: string, bytes: number) => {
        const Metadata = { name: 'v'.repeat(bytes - 'name'.length) };
        return client.send(new PutObjectCommand({ Bucket, Key, Body: 'x', Metadata }));
      };
      await put('meta-2048', 2048);
      expect(await refusalOf(put('meta-2049', 2049))).toEqual({
        code: 'MetadataTooLarge',
        status: 400,
      });
      const head = client.send(new HeadObjectCommand({ Bucket, Key: 'meta-2049' }));
      expect(await refusalOf(head)).toMatchObject({ status: 404 });
    });

    it.each([
      ['aws-chunked', undefined],
      ['gzip,aws-chunked', 'gzip'],
      ['aws-chunked, gzip', 'gzip'],
      ['gzip', 'gzip'],
    ])(
      'Content-Encoding: %s is kept as %s: framing is not part of an object',
      async (given, kept) => {
        const { target, Bucket } = room();
        const path = `/${Bucket}/encoded`;
        await send(target, {
          method: 'PUT',
          path,
          headers: { 'content-encoding': given },
          body: 'x',
        });
        const got = await send(target, { method: 'HEAD', path });
        expect(got.headers['content-encoding']).toBe(kept);
      },
    );

    it('a GET may ask for other headers than the stored ones', async () => {
      const { client, Bucket } = room();
      await client.send(new PutObjectCommand({ Bucket, Key: 'asked', Body: 'x' }));
      const asked = {
        ResponseContentType: 'text/html',
        ResponseContentLanguage: 'fr',
        ResponseContentEncoding: 'br',
        ResponseContentDisposition: 'inline',
        ResponseCacheControl: 'no-store',
      };
      const got = await client.send(new GetObjectCommand({ Bucket, Key: 'asked', ...asked }));
      expect(got).toMatchObject({
        ContentType: 'text/html',
        ContentLanguage: 'fr',
        ContentEncoding: 'br',
        ContentDisposition: 'inline',
        CacheControl: 'no-store',
      });
    });
  });
}

function describeDeletions(room: Room): void {
  const deletion = (keys: readonly string[]) =>
    `<Delete>${keys.map((key) => `<Object><Key>${key}</Key></Object>`).join('')}</Delete>`;

  describe('deleting objects', () => {
    it('one by one: it is gone, and deleting it again is no error', async () => {
      const { client, Bucket } = room();
      await client.send(new PutObjectCommand({ Bucket, Key: 'gone', Body: 'x' }));
      for (let i = 0; i < 2; i++) {
        const { $metadata } = await client.send(new DeleteObjectCommand({ Bucket, Key: 'gone' }));
        expect($metadata.httpStatusCode).toBe(204);
      }
      const got = client.send(new GetObjectCommand({ Bucket, Key: 'gone' }));
      expect(await refusalOf(got)).toEqual({ code: 'NoSuchKey', status: 404 });
    });

    it('1,000 at once deletes each and names each, whether it was there or not', async () => {
      const { client, Bucket } = room();
      const keys = Array.from({ length: 1000 }, (_, i) => `many/${i}`);
      for (const Key of keys.slice(0, 20)) {
        await client.send(new PutObjectCommand({ Bucket, Key, Body: 'x' }));
      }
      const Objects = keys.map((Key) => ({ Key }));
      const done = await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
      expect(done.Deleted?.map(({ Key }) => Key)).toEqual(keys);
      expect(done.Errors ?? []).toEqual([]);
      const left = await client.send(new ListObjectsV2Command({ Bucket, Prefix: 'many/' }));
      expect(left.KeyCount).toBe(0);
    });

    it('quietly tells only of failures; where one key fails, the others are deleted', async () => {
      const { client, Bucket } = room();
      await client.send(new PutObjectCommand({ Bucket, Key: 'quiet', Body: 'x' }));
      const long = 'k'.repeat(1025);
      const Delete = { Quiet: true, Objects: [{ Key: 'quiet' }, { Key: long }] };
      const done = await client.send(new DeleteObjectsCommand({ Bucket, Delete }));
      expect(done.Deleted ?? []).toEqual([]);
      expect(done.Errors).toEqual([
        { Key: long, Code: 'KeyTooLongError', Message: expect.any(String) },
      ]);
      const head = client.send(new HeadObjectCommand({ Bucket, Key: 'quiet' }));
      expect(await refusalOf(head)).toMatchObject({ status: 404 });
    });

    it.each([
      ['1,001 keys', deletion(Array.from({ length: 1001 }, (_, i) => `k${i}`))],
      ['no key', '<Delete></Delete>'],
      ['an empty key', deletion([''])],
      ['another document', '<Remove><Object><Key>stays</Key></Object></Remove>'],
      ['half a document', '<Delete><Object><Key>stays</Key></Object>'],
    ])('a list with %s is malformed and deletes nothing', async (_title, body) => {
      const { target, client, Bucket } = room();
      for (const Key of ['stays', 'k0']) {
        await client.send(new PutObjectCommand({ Bucket, Key, Body: 'x' }));
      }
      const asked = { method: 'POST', path: `/${Bucket}`, query: [['delete', '']] as const, body };
      const answer = await send(target, asked);
      expect([answer.status, answer.code]).toEqual([400, 'MalformedXML']);
      for (const Key of ['stays', 'k0']) {
        await client.send(new HeadObjectCommand({ Bucket, Key }));
      }
    });

    it('without any digest of the list, or with a wrong one, deletes nothing', async () => {
      const { target, client, Bucket } = room();
      await client.send(new PutObjectCommand({ Bucket, Key: 'stays', Body: 'x' }));
      const asked = {
        method: 'POST',
        path: `/${Bucket}`,
        query: [['delete', '']] as const,
        body: deletion(['stays']),
      };
      const missing = await send(target, { ...asked, payload: 'UNSIGNED-PAYLOAD' });
      expect([missing.status, missing.code]).toEqual([400, 'InvalidRequest']);
      const headers = { 'content-md5': Buffer.alloc(16).toString('base64') };
      const wrong = await send(target, { ...asked, headers });
      expect([wrong.status, wrong.code]).toEqual([400, 'BadDigest']);
      await client.send(new HeadObjectCommand({ Bucket, Key: 'stays' }));
    });

    it('only where the ETag is the one that was named', async () => {
      const { client, Bucket } = room();
      const { ETag } = await client.send(new PutObjectCommand({ Bucket, Key: 'tag', Body: 'x' }));
      const remove = (tag: string | undefined) => {
        const Delete = { Objects: [{ Key: 'tag', ETag: tag }] };
        return client.send(new DeleteObjectsCommand({ Bucket, Delete }));
      };
      const refused = await remove('"0123"');
      expect(refused.Errors?.map(({ Code }) => Code)).toEqual(['PreconditionFailed']);
      const done = await remove(ETag);
      expect(done.Deleted?.map(({ Key }) => Key)).toEqual(['tag']);
    });
  });
}

function describeErrors(room: Room): void {
  describe('an error', () => {
    it('is a document that names its code, message, key and request', async () => {
      const { target, Bucket } = room();
      const got = await send(target, { method: 'GET', path: `/${Bucket}/not & there` });
      expect([got.status, got.headers['content-type']]).toEqual([404, 'application/xml']);
      expect(got.text).toMatch(/^<\?xml version="1\.0" encoding="UTF-8"\?>\n<Error>.*<\/Error>$/s);
      expect(got.code).toBe('NoSuchKey');
      expect(elementOf(got.text, 'Message')).toBe('The specified key does not exist.');
      expect(elementsOf(got.text, 'Resource')).toEqual([]);
      expect(elementOf(got.text, 'HostId')).toBe(got.headers['x-amz-id-2']);
      expect(elementOf(got.text, 'Key')).toBe('not &amp; there');
      expect(elementOf(got.text, 'RequestId')).toBe(got.headers['x-amz-request-id']);
      expect(elementsOf(got.text, 'RequestId')).toHaveLength(1);
    });

    it('of a HEAD has no body, and says in headers what it would', async () => {
      const { target, Bucket } = room();
      const got = await send(target, { method: 'HEAD', path: `/${Bucket}/none` });
      expect([got.status, got.body.length]).toEqual([404, 0]);
      expect(got.headers).toMatchObject({
        'x-bursar-error-code': 'NoSuchKey',
        'x-bursar-error-message': 'The specified key does not exist.',
      });
      expect(got.headers['x-amz-request-id']).toMatch(/^[0-9A-F]{16}$/);
    });

    it('without credentials is AccessDenied, whether or not the bucket is there', async () => {
      const { target, Bucket } = room();
      const anonymous = { ...target, keys: { accessKeyId: 'nobody', secretAccessKey: 'x' } };
      const answers = await Promise.all(
        [Bucket, newName()].map((name) => send(anonymous, { method: 'GET', path: `/${name}` })),
      );
      expect(answers.map(({ status, code }) => [status, code])).toEqual([
        [403, 'InvalidAccessKeyId'],
        [403, 'InvalidAccessKeyId'],
      ]);
    });
  });
}
