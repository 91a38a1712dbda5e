// What requests state of their bytes and of their object besides: a checksum that is stated is
// compared or refused, and what is stated of the object is given back as it came.
import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListPartsCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  type Answer,
  clientOf,
  newBucket,
  newName,
  refusalOf,
  send,
  type Target,
} from '../target.ts';
import { signedHead, Wire } from '../wire.ts';

type Room = () => { target: Target; client: S3Client; Bucket: string };

export function describeStated(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
  });
  const room = () => ({ target, client, Bucket });
  describeFinalChecksums(room);
  describePartChecksums(room);
  describeEmptyPages(room);
  describeTrailers(room);
  describeRedirects(room);

  it('metadata that is given twice is joined by a comma, as on AWS', async () => {
    const path = `/${Bucket}/twice`;
    // The signature covers the values joined, whichever way they are sent.
    const head = signedHead(target, {
      method: 'PUT',
      path,
      headers: { 'content-length': '0', 'x-amz-meta-list': 'a,b c,d, e' },
    });
    const lines = 'x-amz-meta-list: a\r\nX-Amz-Meta-List: b c\r\nx-amz-meta-list: d, e';
    const wire = await Wire.open(target);
    wire.write(head.replace('x-amz-meta-list: a,b c,d, e', lines));
    expect(await wire.answer()).toMatchObject({ status: 200 });
    wire.destroy();
    const { Metadata } = await client.send(new HeadObjectCommand({ Bucket, Key: 'twice' }));
    expect(Metadata).toEqual({ list: 'a,b c,d, e' });
  });

  it('the last bytes of an object without bytes are all of it', async () => {
    await client.send(new PutObjectCommand({ Bucket, Key: 'empty', Body: '' }));
    const got = await client.send(
      new GetObjectCommand({ Bucket, Key: 'empty', Range: 'bytes=-1' }),
    );
    expect(got.$metadata.httpStatusCode).toBe(200);
    expect(got.ContentRange).toBeUndefined();
  });
}

/** An upload of one part; what completes it. */
async function begin({ client, Bucket }: ReturnType<Room>) {
  const Key = newName('upload');
  const algorithm = { ChecksumAlgorithm: 'SHA256' } as const;
  const begun = await client.send(new CreateMultipartUploadCommand({ Bucket, Key, ...algorithm }));
  const { UploadId } = begun;
  const upload = { Bucket, Key, UploadId };
  const part = { ...upload, PartNumber: 1, Body: 'part', ...algorithm };
  const { ETag, ChecksumSHA256 } = await client.send(new UploadPartCommand(part));
  return { ...upload, ETag, ChecksumSHA256 };
}

function complete(
  { target, Bucket }: ReturnType<Room>,
  upload: { Key: string; UploadId: string | undefined; ETag: string | undefined },
  { headers = {}, inPart = '', number = '1' },
): Promise<Answer> {
  const part = `<PartNumber>${number}</PartNumber><ETag>${upload.ETag}</ETag>${inPart}`;
  return send(target, {
    method: 'POST',
    path: `/${Bucket}/${upload.Key}`,
    query: [['uploadId', upload.UploadId ?? '']],
    headers,
    body: `<CompleteMultipartUpload><Part>${part}</Part></CompleteMultipartUpload>`,
  });
}

const otherSha256 = '47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=';

function describeFinalChecksums(room: Room): void {
  it.each([
    ['is no checksum', { 'x-amz-checksum-sha256': 'invalid' }, 'InvalidRequest'],
    ['has no number of parts', { 'x-amz-checksum-sha256': `${otherSha256}-x` }, 'InvalidRequest'],
    ['is another', { 'x-amz-checksum-sha256': `${otherSha256}-1` }, 'BadDigest'],
    [
      'is one of two',
      { 'x-amz-checksum-sha256': `${otherSha256}-1`, 'x-amz-checksum-crc32': 'AAAAAA==' },
      'InvalidRequest',
    ],
    ['is of no type', { 'x-amz-checksum-type': 'HALF' }, 'InvalidRequest'],
    ['is too short', { 'x-amz-checksum-sha512': 'AA==' }, 'InvalidRequest'],
  ])('an upload whose stated checksum %s is not completed', async (_title, headers, code) => {
    const upload = await begin(room());
    const inPart = `<ChecksumSHA256>${upload.ChecksumSHA256}</ChecksumSHA256>`;
    expect((await complete(room(), upload, { headers, inPart })).code).toBe(code);
    const { client, Bucket } = room();
    const head = client.send(new HeadObjectCommand({ Bucket, Key: upload.Key }));
    expect(await refusalOf(head)).toMatchObject({ status: 404 });
  });
}

function describePartChecksums(room: Room): void {
  it.each([
    ['of another algorithm', '<ChecksumCRC32>AAAAAA==</ChecksumCRC32>', 'BadDigest'],
    ['that is none', '<ChecksumSHA256>invalid</ChecksumSHA256>', 'InvalidArgument'],
    [
      'besides another',
      `<ChecksumSHA256>${otherSha256}</ChecksumSHA256><ChecksumCRC32>AAAAAA==</ChecksumCRC32>`,
      'InvalidArgument',
    ],
    ['of other bytes', `<ChecksumSHA256>${otherSha256}</ChecksumSHA256>`, 'InvalidPart'],
  ])('an upload is not completed with a checksum of a part %s', async (_title, inPart, code) => {
    const upload = await begin(room());
    expect((await complete(room(), upload, { inPart })).code).toBe(code);
  });

  it.each(['0', '-4'])('an upload is not completed with a part numbered %s', async (number) => {
    const upload = await begin(room());
    const answer = await complete(room(), upload, { number });
    expect([answer.status, answer.code]).toEqual([400, 'InvalidArgument']);
  });

  it('an upload is completed with the checksums that its parts had', async () => {
    const { Bucket, Key, UploadId, ETag, ChecksumSHA256 } = await begin(room());
    const MultipartUpload = { Parts: [{ PartNumber: 1, ETag, ChecksumSHA256 }] };
    const upload = { Bucket, Key, UploadId, MultipartUpload };
    const completed = await room().client.send(new CompleteMultipartUploadCommand(upload));
    expect(completed.ChecksumSHA256).toMatch(/=-1$/);
  });
}

function describeEmptyPages(room: Room): void {
  it('a page of no parts has none after it', async () => {
    const { client } = room();
    const { Bucket, Key, UploadId, ETag, ChecksumSHA256 } = await begin(room());
    const upload = { Bucket, Key, UploadId };
    const listed = await client.send(new ListPartsCommand({ ...upload, MaxParts: 0 }));
    expect(listed).toMatchObject({ MaxParts: 0, IsTruncated: false });
    expect(listed.NextPartNumberMarker).toBe('0');

    const MultipartUpload = { Parts: [{ PartNumber: 1, ETag, ChecksumSHA256 }] };
    await client.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload }));
    const asked = { Bucket, Key, ObjectAttributes: ['ObjectParts' as const], MaxParts: 0 };
    const { ObjectParts } = await client.send(new GetObjectAttributesCommand(asked));
    expect(ObjectParts).toMatchObject({ MaxParts: 0, IsTruncated: false, TotalPartsCount: 1 });
    expect(ObjectParts?.NextPartNumberMarker).toBe('0');
  });
}

function describeTrailers(room: Room): void {
  it.each([
    ['x-amz-checksum-crc16', 'x-amz-checksum-crc16:AA==\r\n', 'NotImplemented'],
    ['x-amz-checksum-crc32', 'x-amz-checksum-sha1:AA==\r\n', 'MalformedTrailerError'],
    ['x-amz-checksum-crc32', '', 'MalformedTrailerError'],
  ])('a body that announces %s and ends in "%s" is not stored', async (name, trailer, code) => {
    const { target, client, Bucket } = room();
    const Key = newName('trailer');
    const answer = await send(target, {
      method: 'PUT',
      path: `/${Bucket}/${Key}`,
      headers: { 'x-amz-trailer': name, 'x-amz-decoded-content-length': '5' },
      payload: 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
      body: `5\r\nhello\r\n0\r\n${trailer}\r\n`,
    });
    expect(answer.code).toBe(code);
    const head = client.send(new HeadObjectCommand({ Bucket, Key }));
    expect(await refusalOf(head)).toMatchObject({ status: 404 });
  });
}

function describeRedirects(room: Room): void {
  describe('where an object redirects to', () => {
    const WebsiteRedirectLocation = '/elsewhere';

    async function redirectOf(Key: string): Promise<string | undefined> {
      const { client, Bucket } = room();
      const head = await client.send(new HeadObjectCommand({ Bucket, Key }));
      return head.WebsiteRedirectLocation;
    }

    it('is given back to who reads it, and is not copied', async () => {
      const { client, Bucket } = room();
      const source = { Bucket, Key: 'redirect', Body: 'x', Metadata: { a: '1' } };
      await client.send(new PutObjectCommand({ ...source, WebsiteRedirectLocation }));
      expect(await redirectOf('redirect')).toBe(WebsiteRedirectLocation);

      const copy = { Bucket, Key: 'copied', CopySource: `${Bucket}/redirect` };
      await client.send(new CopyObjectCommand(copy));
      expect(await redirectOf('copied')).toBeUndefined();
      const Metadata = { b: '2' };
      const replaced = { ...copy, MetadataDirective: 'REPLACE', Metadata } as const;
      await client.send(new CopyObjectCommand(replaced));
      expect(await redirectOf('copied')).toBeUndefined();
    });

    it.each(['COPY', 'REPLACE'] as const)(
      'is what a copy says that has %s for its metadata',
      async (MetadataDirective) => {
        const { client, Bucket } = room();
        await client.send(new PutObjectCommand({ Bucket, Key: 'plain', Body: 'x' }));
        // Onto itself: the redirect alone is a change.
        const copy = { Bucket, Key: 'plain', CopySource: `${Bucket}/plain`, MetadataDirective };
        await client.send(new CopyObjectCommand({ ...copy, WebsiteRedirectLocation }));
        expect(await redirectOf('plain')).toBe(WebsiteRedirectLocation);
      },
    );

    it('is a path or an address of the web', async () => {
      const { client, Bucket } = room();
      const object = { Bucket, Key: 'nowhere', WebsiteRedirectLocation: 'javascript:alert(1)' };
      expect(await refusalOf(client.send(new PutObjectCommand(object)))).toEqual({
        code: 'InvalidRedirectLocation',
        status: 400,
      });
    });
  });
}
