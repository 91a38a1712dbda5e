// Conditional headers (RFC 9110 section 13, as S3 has it) on reads, writes and copies, and
// CopyObject.
import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  type CopyObjectCommandInput,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { base64Checksum, md5Of } from '../checksums.ts';
import {
  clientOf,
  newBucket,
  newName,
  patternOf,
  refusalOf,
  send,
  type Target,
} from '../target.ts';
import { begin, complete, putPart } from './multipart.ts';
import { readObject } from './objects.ts';

type Room = () => { target: Target; client: S3Client; Bucket: string };

const body = 'the body';
const etag = md5Of(Buffer.from(body));
const past = 'Sat, 01 Jan 2000 00:00:00 GMT';
/** Stands for the time of the request, which is after that of the object. */
const now = 'now';
const future = 'Thu, 01 Jan 2099 00:00:00 GMT';

function dated(headers: Readonly<Record<string, string>>): Record<string, string> {
  const time = new Date().toUTCString();
  const pairs = Object.entries(headers).map(([name, value]) => [
    name,
    value === now ? time : value,
  ]);
  return Object.fromEntries(pairs);
}

export function describeConditions(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
    await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: body }));
  });
  const room = () => ({ target, client, Bucket });
  describeReads(room);
  describeWrites(room);
  describeRaces(room);
  describeCopies(room);
  describeCopyConditions(room);
}

function describeReads(room: Room): void {
  describe('a read', () => {
    it.each([
      [{ 'if-match': `"${etag}"` }, 200],
      [{ 'if-match': etag }, 200],
      [{ 'if-match': '*' }, 200],
      [{ 'if-match': `"x", "${etag}"` }, 200],
      [{ 'if-match': '"x"' }, 412],
      [{ 'if-none-match': `"${etag}"` }, 304],
      [{ 'if-none-match': `W/"${etag}"` }, 304],
      [{ 'if-none-match': '*' }, 304],
      [{ 'if-none-match': '"x", "y"' }, 200],
      [{ 'if-modified-since': past }, 200],
      [{ 'if-modified-since': now }, 304],
      [{ 'if-modified-since': future }, 200],
      [{ 'if-modified-since': 'yesterday' }, 200],
      [{ 'if-unmodified-since': past }, 412],
      [{ 'if-unmodified-since': future }, 200],
      [{ 'if-unmodified-since': 'yesterday' }, 200],
      // The stronger of two decides.
      [{ 'if-match': `"${etag}"`, 'if-unmodified-since': past }, 200],
      [{ 'if-none-match': `"${etag}"`, 'if-modified-since': past }, 304],
      [{ 'if-none-match': '"x"', 'if-modified-since': now }, 200],
      [{ 'if-match': '"x"', 'if-none-match': `"${etag}"` }, 412],
      [{ 'if-match': `"${etag}"`, 'if-none-match': `"${etag}"` }, 304],
      [{ 'if-match': '"x"', range: 'bytes=0-1' }, 412],
      [{ 'if-match': `"${etag}"`, range: 'bytes=0-1' }, 206],
      [{ 'if-none-match': `"${etag}"`, range: 'bytes=99-' }, 304],
    ] as const)('with %j is %i, by GET and by HEAD', async (conditions, status) => {
      const { target, Bucket } = room();
      for (const method of ['GET', 'HEAD']) {
        const headers = dated(conditions);
        const got = await send(target, { method, path: `/${Bucket}/k`, headers });
        expect(got.status).toBe(status);
        if (status === 304) {
          expect([got.body.length, got.headers.etag]).toEqual([0, `"${etag}"`]);
          expect(got.headers['last-modified']).toMatch(/ GMT$/);
        }
        if (status === 412 && method === 'GET') expect(got.code).toBe('PreconditionFailed');
      }
    });
  });
}

function describeWrites(room: Room): void {
  describe('a conditional write', () => {
    it('with If-None-Match: * makes an object, but replaces none', async () => {
      const { client, Bucket } = room();
      const Key = newName('once');
      const put = (Body: string) =>
        client.send(new PutObjectCommand({ Bucket, Key, Body, IfNoneMatch: '*' }));
      await put('first');
      expect(await refusalOf(put('second'))).toEqual({ code: 'PreconditionFailed', status: 412 });
      expect((await readObject(client, Bucket, Key)).toString()).toBe('first');
      await client.send(new DeleteObjectCommand({ Bucket, Key }));
      await put('third');
    });

    it('with If-Match replaces just the object that was seen', async () => {
      const { client, Bucket } = room();
      const Key = newName('swap');
      const put = (Body: string, IfMatch: string | undefined) =>
        client.send(new PutObjectCommand({ Bucket, Key, Body, IfMatch }));
      expect(await refusalOf(put('none', '*'))).toEqual({ code: 'NoSuchKey', status: 404 });
      const { ETag } = await client.send(new PutObjectCommand({ Bucket, Key, Body: 'one' }));
      await put('two', ETag);
      expect(await refusalOf(put('three', ETag))).toMatchObject({ status: 412 });
      expect((await readObject(client, Bucket, Key)).toString()).toBe('two');
    });

    it('of a multipart upload is decided when it is completed, which can be repeated', async () => {
      const { client, Bucket } = room();
      const upload = await begin(client, Bucket);
      const part = await putPart(client, upload, 1, 'joined');
      await client.send(new PutObjectCommand({ ...upload, Body: 'there before' }));
      const { target } = room();
      const ask = (headers: Record<string, string>) =>
        send(target, {
          method: 'POST',
          path: `/${Bucket}/${upload.Key}`,
          query: [['uploadId', upload.UploadId]],
          headers,
          body:
            '<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>' +
            `<ETag>${part.ETag}</ETag></Part></CompleteMultipartUpload>`,
        });
      expect((await ask({ 'if-none-match': '*' })).status).toBe(412);
      expect((await ask({ 'if-match': '"x"' })).status).toBe(412);
      expect((await readObject(client, Bucket, upload.Key)).toString()).toBe('there before');
      await complete(client, upload, [part]);
      expect((await readObject(client, Bucket, upload.Key)).toString()).toBe('joined');
    });

    it('of a multipart upload holds only while the key is left alone', async () => {
      const { client, Bucket } = room();
      const Key = newName('conflict');
      const put = async (Body: string) =>
        (await client.send(new PutObjectCommand({ Bucket, Key, Body }))).ETag;
      const start = async () => {
        const upload = await begin(client, Bucket, { Key });
        const part = await putPart(client, upload, 1, 'joined');
        return (conditions: object) =>
          client.send(
            new CompleteMultipartUploadCommand({
              ...{ ...upload, MultipartUpload: { Parts: [part] } },
              ...conditions,
            }),
          );
      };
      const before = await put('before');
      const first = await start();
      const during = await put('during');
      expect(await refusalOf(first({ IfMatch: before }))).toMatchObject({ status: 412 });
      const conflict = { code: 'ConditionalRequestConflict', status: 409 };
      expect(await refusalOf(first({ IfMatch: during }))).toEqual(conflict);
      // The same bytes again are another write all the same.
      const second = await start();
      expect(await put('during')).toBe(during);
      expect(await refusalOf(second({ IfMatch: during }))).toEqual(conflict);
      const third = await start();
      await client.send(new DeleteObjectCommand({ Bucket, Key }));
      expect(await refusalOf(third({ IfMatch: during }))).toMatchObject({ status: 404 });
      expect(await refusalOf(third({ IfNoneMatch: '*' }))).toEqual(conflict);
      expect(await refusalOf(readObject(client, Bucket, Key))).toMatchObject({ status: 404 });
      // So are a write and a delete that leave the key as it was.
      const fourth = await start();
      await put('for a moment');
      await client.send(new DeleteObjectCommand({ Bucket, Key }));
      expect(await refusalOf(fourth({ IfNoneMatch: '*' }))).toEqual(conflict);
      // A new upload is based on what is there now.
      await (await start())({ IfNoneMatch: '*' });
      expect((await readObject(client, Bucket, Key)).toString()).toBe('joined');
      // Without a condition, none of that matters.
      await first({});
    });

    it('a delete with If-Match removes only what was seen', async () => {
      const { client, Bucket } = room();
      const Key = newName('delete');
      const { ETag } = await client.send(new PutObjectCommand({ Bucket, Key, Body: 'x' }));
      const remove = (IfMatch?: string) =>
        client.send(new DeleteObjectCommand({ Bucket, Key, IfMatch }));
      expect(await refusalOf(remove('"x"'))).toMatchObject({ status: 412 });
      await client.send(new HeadObjectCommand({ Bucket, Key }));
      await remove(ETag);
      expect(await refusalOf(remove(ETag))).toMatchObject({ status: 404 });
    });
  });
}

function describeRaces(room: Room): void {
  describe('a race', () => {
    it.each([
      ['small', 100],
      ['large', 100_000],
    ])('of many to make one %s object is won by exactly one', async (_title, sizeBytes) => {
      const { client, Bucket } = room();
      const Key = newName('race');
      const bodies = Array.from({ length: 20 }, (_, i) => patternOf(sizeBytes, i + 100));
      const outcomes = await Promise.allSettled(
        bodies.map((Body) =>
          client.send(new PutObjectCommand({ Bucket, Key, Body, IfNoneMatch: '*' })),
        ),
      );
      const won = outcomes.flatMap(({ status }, i) => (status === 'fulfilled' ? [i] : []));
      expect(won).toHaveLength(1);
      const codes = outcomes.flatMap((one) =>
        one.status === 'rejected' ? [(one.reason as Error).name] : [],
      );
      expect(new Set(codes)).toEqual(new Set(['PreconditionFailed']));
      const stored = await readObject(client, Bucket, Key);
      expect(stored.equals(bodies[won[0] as number] as Buffer)).toBe(true);
    });

    it('of counters that swap by If-Match loses no step', async () => {
      const { client, Bucket } = room();
      const Key = newName('counter');
      await client.send(new PutObjectCommand({ Bucket, Key, Body: '0' }));
      const step = async (): Promise<void> => {
        for (;;) {
          const { Body, ETag: IfMatch } = await client.send(new GetObjectCommand({ Bucket, Key }));
          const Next = String(Number(await Body?.transformToString()) + 1);
          const put = new PutObjectCommand({ Bucket, Key, Body: Next, IfMatch });
          const outcome = await client.send(put).catch((error: Error) => error.name);
          if (outcome !== 'PreconditionFailed') return;
        }
      };
      await Promise.all(
        Array.from({ length: 5 }, async () => {
          for (let i = 0; i < 3; i++) await step();
        }),
      );
      expect((await readObject(client, Bucket, Key)).toString()).toBe('15');
    });
  });
}

function describeCopies(room: Room): void {
  describe('a copy', () => {
    const given = { ContentType: 'text/x-source', Metadata: { from: 'source' } };

    it.each([
      ['small', 100],
      ['large', 18_000_000],
    ])(
      'of a %s object has its bytes, attributes and ETag, and outlives it',
      async (_title, size) => {
        const { client, Bucket } = room();
        const Body = patternOf(size, 41);
        const other = await newBucket(client);
        await client.send(new PutObjectCommand({ Bucket, Key: 'from', Body, ...given }));
        const CopySource = `${Bucket}/from`;
        const copied = await client.send(
          new CopyObjectCommand({ Bucket: other, Key: 'to', CopySource }),
        );
        expect(copied.CopyObjectResult).toMatchObject({
          ETag: `"${md5Of(Body)}"`,
          ChecksumCRC32: base64Checksum('CRC32', Body),
          LastModified: expect.any(Date),
        });
        await client.send(new DeleteObjectCommand({ Bucket, Key: 'from' }));
        const head = await client.send(new HeadObjectCommand({ Bucket: other, Key: 'to' }));
        expect(head).toMatchObject({ ...given, ContentLength: size });
        expect((await readObject(client, other, 'to')).equals(Body)).toBe(true);
      },
    );

    it('with REPLACE has the request’s attributes, onto itself too', async () => {
      const { client, Bucket } = room();
      await client.send(new PutObjectCommand({ Bucket, Key: 'self', Body: 'x', ...given }));
      const asked: CopyObjectCommandInput = { Bucket, Key: 'self', CopySource: `${Bucket}/self` };
      expect(await refusalOf(client.send(new CopyObjectCommand(asked)))).toEqual({
        code: 'InvalidRequest',
        status: 400,
      });
      const changed = { ContentType: 'text/x-new', Metadata: { to: 'self' } };
      await client.send(
        new CopyObjectCommand({ ...asked, ...changed, MetadataDirective: 'REPLACE' }),
      );
      const head = await client.send(new HeadObjectCommand({ Bucket, Key: 'self' }));
      expect(head).toMatchObject(changed);
      expect(head.Metadata).toEqual(changed.Metadata);
      expect((await readObject(client, Bucket, 'self')).toString()).toBe('x');
    });

    it('onto itself may name a storage class alone; a failed condition comes first', async () => {
      const { client, Bucket } = room();
      await client.send(new PutObjectCommand({ Bucket, Key: 'classed', Body: 'x', ...given }));
      const asked = { Bucket, Key: 'classed', CopySource: `${Bucket}/classed` };
      const copied = await client.send(
        new CopyObjectCommand({ ...asked, StorageClass: 'STANDARD' }),
      );
      expect(copied.CopyObjectResult?.ETag).toBe(`"${md5Of(Buffer.from('x'))}"`);
      const head = await client.send(new HeadObjectCommand({ Bucket, Key: 'classed' }));
      expect(head).toMatchObject(given);
      expect(
        await refusalOf(client.send(new CopyObjectCommand({ ...asked, IfNoneMatch: '*' }))),
      ).toEqual({ code: 'PreconditionFailed', status: 412 });
    });

    it('can be given another checksum than its source has', async () => {
      const { client, Bucket } = room();
      const Body = patternOf(300_000, 42);
      await client.send(new PutObjectCommand({ Bucket, Key: 'summed', Body }));
      const asked = { Bucket, Key: 'resummed', CopySource: `${Bucket}/summed` };
      const { CopyObjectResult } = await client.send(
        new CopyObjectCommand({ ...asked, ChecksumAlgorithm: 'SHA256' }),
      );
      expect(CopyObjectResult?.ChecksumSHA256).toBe(base64Checksum('SHA256', Body));
    });

    it.each([
      ['a key that is not there', (b: string) => `${b}/none`, 'NoSuchKey', 404],
      ['a bucket that is not there', () => `${newName()}/k`, 'NoSuchBucket', 404],
      ['no key', (b: string) => `${b}/`, 'InvalidArgument', 400],
      ['no slash', (b: string) => b, 'InvalidArgument', 400],
      ['nothing', () => '/', 'InvalidArgument', 400],
      ['a bad escape', (b: string) => `${b}/%zz`, 'InvalidArgument', 400],
      ['a key of 1,025 bytes', (b: string) => `${b}/${'k'.repeat(1025)}`, 'KeyTooLongError', 400],
      ['no version', (b: string) => `${b}/k?versionId=abc`, 'InvalidArgument', 400],
    ])('of %s is refused and makes nothing', async (_title, source, code, status) => {
      const { client, target, Bucket } = room();
      const path = `/${Bucket}/not made`;
      const headers = { 'x-amz-copy-source': source(Bucket) };
      const answer = await send(target, { method: 'PUT', path, headers });
      expect([answer.status, answer.code]).toEqual([status, code]);
      const head = client.send(new HeadObjectCommand({ Bucket, Key: 'not made' }));
      expect(await refusalOf(head)).toMatchObject({ status: 404 });
    });

    it('with an unknown directive is refused', async () => {
      const { target, Bucket } = room();
      const headers = {
        'x-amz-copy-source': `${Bucket}/k`,
        'x-amz-metadata-directive': 'MERGE',
      };
      const answer = await send(target, { method: 'PUT', path: `/${Bucket}/new`, headers });
      expect([answer.status, answer.code]).toEqual([400, 'InvalidArgument']);
    });
  });
}

function describeCopyConditions(room: Room): void {
  describe('the source of a copy', () => {
    it.each([
      [{ 'if-match': `"${etag}"` }, 200],
      [{ 'if-match': '"x"' }, 412],
      [{ 'if-none-match': '"x"' }, 200],
      [{ 'if-none-match': `"${etag}"` }, 412],
      [{ 'if-modified-since': past }, 200],
      [{ 'if-modified-since': now }, 412],
      [{ 'if-unmodified-since': future }, 200],
      [{ 'if-unmodified-since': past }, 412],
      [{ 'if-match': `"${etag}"`, 'if-unmodified-since': past }, 200],
      [{ 'if-none-match': `"${etag}"`, 'if-modified-since': past }, 412],
    ] as const)('held to %j is %i, for objects and for parts', async (conditions, status) => {
      const { target, client, Bucket } = room();
      const headers: Record<string, string> = { 'x-amz-copy-source': `${Bucket}/k` };
      for (const [name, value] of Object.entries(dated(conditions))) {
        headers[`x-amz-copy-source-${name}`] = value;
      }
      const copied = await send(target, { method: 'PUT', path: `/${Bucket}/copied`, headers });
      expect(copied.status).toBe(status);
      const upload = await begin(client, Bucket);
      const query = [
        ['partNumber', '1'],
        ['uploadId', upload.UploadId],
      ] as const;
      const path = `/${Bucket}/${upload.Key}`;
      const part = await send(target, { method: 'PUT', path, query, headers });
      expect(part.status).toBe(status);
    });

    it('may be held to conditions together with its destination', async () => {
      const { client, Bucket } = room();
      const Key = newName('both');
      const copy = (more: Partial<CopyObjectCommandInput>) =>
        client.send(new CopyObjectCommand({ Bucket, Key, CopySource: `${Bucket}/k`, ...more }));
      await copy({ IfNoneMatch: '*', CopySourceIfMatch: etag });
      expect(await refusalOf(copy({ IfNoneMatch: '*' }))).toMatchObject({ status: 412 });
      expect(await refusalOf(copy({ IfMatch: '"x"' }))).toMatchObject({ status: 412 });
      await copy({ IfMatch: `"${etag}"` });
    });
  });
}
