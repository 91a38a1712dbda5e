// GetObjectAttributes, and reads of one part.
import {
  type ChecksumAlgorithm,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  GetObjectAttributesCommand,
  type GetObjectAttributesCommandInput,
  GetObjectCommand,
  HeadObjectCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { base64Checksum, compositeChecksum, md5Of } from '../checksums.ts';
import {
  as,
  clientOf,
  newBucket,
  newOpenBucket,
  newPrincipal,
  patternOf,
  refusalOf,
  send,
  type Target,
} from '../target.ts';
import { partBytesMin } from './multipart.ts';
import { newVersionedBucket, putMarker, putVersions } from './versioned.ts';

const ObjectAttributes: GetObjectAttributesCommandInput['ObjectAttributes'] = [
  ...(['ETag', 'Checksum', 'ObjectParts', 'StorageClass', 'ObjectSize'] as const),
];

type Room = () => { target: Target; client: S3Client; Bucket: string; pieces: Buffer[] };

export function describeObjectParts(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  const pieces = [patternOf(partBytesMin, 3), patternOf(partBytesMin, 4), patternOf(1000, 5)];
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
    await upload('composite', 'SHA256');
    await upload('full', 'CRC64NVME');
  }, 60_000);

  async function upload(Key: string, algorithm: ChecksumAlgorithm): Promise<void> {
    const asked = { Bucket, Key, ChecksumAlgorithm: algorithm };
    const { UploadId } = await client.send(new CreateMultipartUploadCommand(asked));
    const Parts = [];
    for (const [i, Body] of pieces.entries()) {
      const part = { ...asked, UploadId, PartNumber: i + 1, Body };
      const { ETag, ChecksumSHA256, ChecksumCRC64NVME } = await client.send(
        new UploadPartCommand(part),
      );
      Parts.push({ PartNumber: i + 1, ETag, ChecksumSHA256, ChecksumCRC64NVME });
    }
    const end = { Bucket, Key, UploadId, MultipartUpload: { Parts } };
    await client.send(new CompleteMultipartUploadCommand(end));
  }

  const room = () => ({ target, client, Bucket, pieces });
  describeAttributes(room);
  describePartReads(room);
}

function describeAttributes(room: Room): void {
  const ask = (Key: string, more: Partial<GetObjectAttributesCommandInput> = {}) => {
    const { client, Bucket } = room();
    const asked = { Bucket, ObjectAttributes, ...more, Key };
    return client.send(new GetObjectAttributesCommand(asked));
  };

  describe('the attributes of an object', () => {
    it('are its ETag without quotes, checksum, class and size, if asked for', async () => {
      const { client, Bucket } = room();
      const Body = Buffer.from('attributes');
      const given = { Bucket, Key: 'plain', Body, ChecksumAlgorithm: 'SHA1' } as const;
      await client.send(new PutObjectCommand(given));
      const { $metadata: _, LastModified, ...told } = await ask('plain');
      expect(told).toEqual({
        ETag: md5Of(Body),
        Checksum: { ChecksumSHA1: base64Checksum('SHA1', Body), ChecksumType: 'FULL_OBJECT' },
        StorageClass: 'STANDARD',
        ObjectSize: Body.length,
      });
      const head = await client.send(new HeadObjectCommand({ Bucket, Key: 'plain' }));
      expect(LastModified).toEqual(head.LastModified);
      const some = await ask('plain', { ObjectAttributes: ['ObjectSize'] });
      expect([some.ObjectSize, some.ETag, some.StorageClass]).toEqual([10, undefined, undefined]);
    });

    it('of one that was uploaded in parts have each part with its checksum', async () => {
      const { pieces } = room();
      const { ObjectParts, Checksum, ObjectSize } = await ask('composite');
      expect(ObjectSize).toBe(2 * partBytesMin + 1000);
      expect(Checksum).toEqual({
        // Here S3 leaves out of how many parts it is.
        ChecksumSHA256: compositeChecksum('SHA256', pieces).replace(/-3$/, ''),
        ChecksumType: 'COMPOSITE',
      });
      expect(ObjectParts).toEqual({
        ...{ TotalPartsCount: 3, PartNumberMarker: '0', NextPartNumberMarker: '3' },
        ...{ MaxParts: 1000, IsTruncated: false },
        Parts: pieces.map((piece, i) => ({
          PartNumber: i + 1,
          Size: piece.length,
          ChecksumSHA256: base64Checksum('SHA256', piece),
        })),
      });
      const full = await ask('full');
      expect(full.Checksum?.ChecksumType).toBe('FULL_OBJECT');
      // As on S3, the parts of a checksum of the whole object are not told one by one.
      expect(full.ObjectParts).toEqual({ TotalPartsCount: 3 });
    });

    it('tell of parts page by page', async () => {
      const first = await ask('composite', { MaxParts: 2 });
      expect(first.ObjectParts).toMatchObject({ IsTruncated: true, NextPartNumberMarker: '2' });
      const rest = await ask('composite', { MaxParts: 2, PartNumberMarker: '2' });
      expect(rest.ObjectParts).toMatchObject({ IsTruncated: false, PartNumberMarker: '2' });
      expect(rest.ObjectParts?.Parts?.map(({ PartNumber }) => PartNumber)).toEqual([3]);
      const behind = await ask('composite', { PartNumberMarker: '7' });
      expect(behind.ObjectParts).toMatchObject({ IsTruncated: false, PartNumberMarker: '7' });
      expect(behind.ObjectParts?.Parts ?? []).toEqual([]);
    });

    it('are those of the version that is named', async () => {
      const { client } = room();
      const versioned = await newVersionedBucket(client);
      const [first = ''] = await putVersions(client, versioned, 'k', ['1', '22']);
      const marker = await putMarker(client, versioned, 'k');
      const old = await ask('k', { Bucket: versioned, VersionId: first });
      expect([old.ObjectSize, old.VersionId]).toEqual([1, first]);
      expect(await refusalOf(ask('k', { Bucket: versioned }))).toEqual({
        code: 'NoSuchKey',
        status: 404,
      });
      expect(await refusalOf(ask('k', { Bucket: versioned, VersionId: marker }))).toEqual({
        code: 'MethodNotAllowed',
        status: 405,
      });
    });

    it.each([
      ['none', {}, 'InvalidRequest'],
      ['an unknown one', { 'x-amz-object-attributes': 'ETag,Color' }, 'InvalidArgument'],
      [
        'what is behind no part',
        { 'x-amz-object-attributes': 'ETag', 'x-amz-part-number-marker': '-1' },
        'InvalidArgument',
      ],
    ])('are refused where %s is asked for', async (_title, headers, code) => {
      const { target, Bucket } = room();
      const query = [['attributes', '']] as const;
      const asked = { method: 'GET', path: `/${Bucket}/composite`, query };
      const answer = await send(target, { ...asked, headers: headers as Record<string, string> });
      expect([answer.status, answer.code]).toEqual([400, code]);
    });

    it('are for who may read the object, not for who may only read its attributes', async () => {
      const { target, client } = room();
      const Bucket = await newOpenBucket(client);
      await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'x' }));
      const other = clientOf(as(target, await newPrincipal(target)));
      const allow = async (...Action: string[]) => {
        const Resource = `arn:aws:s3:::${Bucket}/*`;
        const Statement = [{ Effect: 'Allow', Principal: '*', Action, Resource }];
        const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
        await client.send(new PutBucketPolicyCommand({ Bucket, Policy }));
      };
      const attempt = () =>
        other.send(new GetObjectAttributesCommand({ Bucket, Key: 'k', ObjectAttributes }));
      const denied = { code: 'AccessDenied', status: 403 };
      await allow('s3:GetObjectAttributes');
      expect(await refusalOf(attempt())).toEqual(denied);
      await allow('s3:GetObject');
      expect(await refusalOf(attempt())).toEqual(denied);
      await allow('s3:GetObject', 's3:GetObjectAttributes');
      expect((await attempt()).ObjectSize).toBe(1);
    });
  });
}

function describePartReads(room: Room): void {
  describe('a part', () => {
    it('is read by its number, and HEAD says how long it is', async () => {
      const { client, Bucket, pieces } = room();
      const sizeBytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
      let start = 0;
      for (const [i, piece] of pieces.entries()) {
        const asked = { Bucket, Key: 'composite', PartNumber: i + 1 };
        const range = `bytes ${start}-${start + piece.length - 1}/${sizeBytes}`;
        const checked = { ...asked, ChecksumMode: 'ENABLED' } as const;
        const head = await client.send(new HeadObjectCommand(checked));
        expect(head).toMatchObject({
          ...{ ContentLength: piece.length, PartsCount: 3, ContentRange: range },
          ...{ ChecksumSHA256: base64Checksum('SHA256', piece), ChecksumType: 'COMPOSITE' },
        });
        expect(head.$metadata.httpStatusCode).toBe(206);
        const bare = await client.send(new HeadObjectCommand(asked));
        expect([bare.ChecksumSHA256, bare.ChecksumType]).toEqual([undefined, undefined]);
        const full = await client.send(new HeadObjectCommand({ ...checked, Key: 'full' }));
        expect([full.ChecksumCRC64NVME, full.ChecksumType]).toEqual([
          base64Checksum('CRC64NVME', piece),
          'FULL_OBJECT',
        ]);
        // The SDK compares what it gets.
        const got = await client.send(new GetObjectCommand(checked));
        expect(got.ChecksumSHA256).toBe(head.ChecksumSHA256);
        const bytes = Buffer.from((await got.Body?.transformToByteArray()) ?? []);
        expect([got.ContentRange, got.PartsCount, bytes.equals(piece)]).toEqual([range, 3, true]);
        start += piece.length;
      }
    });

    it('is all there is of an object that was written at once', async () => {
      const { client, Bucket } = room();
      await client.send(new PutObjectCommand({ Bucket, Key: 'whole', Body: 'whole' }));
      const got = await client.send(new GetObjectCommand({ Bucket, Key: 'whole', PartNumber: 1 }));
      expect(await got.Body?.transformToString()).toBe('whole');
      expect([got.$metadata.httpStatusCode, got.ContentRange, got.PartsCount]).toEqual([
        ...[206, 'bytes 0-4/5', undefined],
      ]);
      await client.send(new PutObjectCommand({ Bucket, Key: 'empty', Body: '' }));
      const empty = await client.send(
        new GetObjectCommand({ Bucket, Key: 'empty', PartNumber: 1 }),
      );
      expect([empty.ContentLength, empty.ContentRange]).toEqual([0, undefined]);
    });

    it.each([
      ['behind the last one', 'composite', '4', {}, 416, 'InvalidPartNumber'],
      ['of an object that has one', 'whole', '2', {}, 416, 'InvalidPartNumber'],
      ['0', 'composite', '0', {}, 400, 'InvalidArgument'],
      ['10,001', 'composite', '10001', {}, 400, 'InvalidArgument'],
      ['that is no number', 'composite', 'x', {}, 400, 'InvalidArgument'],
      ['with a range', 'composite', '1', { range: 'bytes=0-1' }, 400, 'InvalidRequest'],
    ])('%s is refused', async (_title, key, number, headers, status, code) => {
      const { target, client, Bucket } = room();
      await client.send(new PutObjectCommand({ Bucket, Key: 'whole', Body: 'whole' }));
      const query = [['partNumber', number]] as const;
      const asked = { method: 'GET', path: `/${Bucket}/${key}`, query };
      const answer = await send(target, { ...asked, headers: headers as Record<string, string> });
      expect([answer.status, answer.code]).toEqual([status, code]);
    });
  });
}
