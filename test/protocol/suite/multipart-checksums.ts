// Checksums of multipart objects, composite and of the full object, against independent ones.
import {
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  HeadObjectCommand,
  ListPartsCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { type Algorithm, base64Checksum, compositeChecksum } from '../checksums.ts';
import {
  clientOf,
  elementOf,
  newBucket,
  newName,
  patternOf,
  refusalOf,
  send,
  type Target,
} from '../target.ts';
import { begin, partBytesMin, type Upload } from './multipart.ts';

type Kind = 'COMPOSITE' | 'FULL_OBJECT';

const kinds: readonly (readonly [Algorithm, Kind])[] = [
  ['CRC32', 'COMPOSITE'],
  ['CRC32', 'FULL_OBJECT'],
  ['CRC32C', 'COMPOSITE'],
  ['CRC32C', 'FULL_OBJECT'],
  ['CRC64NVME', 'FULL_OBJECT'],
  ['SHA1', 'COMPOSITE'],
  ['SHA256', 'COMPOSITE'],
];

const bodies = [patternOf(partBytesMin, 21), patternOf(70_001, 22)];

export function describeMultipartChecksums(targetOf: () => Target): void {
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    client = clientOf(targetOf());
    Bucket = await newBucket(client);
  });

  async function upload(algorithm: Algorithm, kind: Kind) {
    const checksum = { ChecksumAlgorithm: algorithm, ChecksumType: kind };
    const begun = await begin(client, Bucket, checksum);
    const parts: CompletedPart[] = [];
    for (const [i, Body] of bodies.entries()) {
      const asked = { ...begun, PartNumber: i + 1, Body, ChecksumAlgorithm: algorithm };
      const part = await client.send(new UploadPartCommand(asked));
      const name = `Checksum${algorithm}` as const;
      parts.push({ PartNumber: i + 1, ETag: part.ETag, [name]: part[name] });
    }
    return { begun, parts };
  }

  function finish(begun: Upload, Parts: CompletedPart[], more: object = {}) {
    const MultipartUpload = { Parts };
    return client.send(new CompleteMultipartUploadCommand({ ...begun, MultipartUpload, ...more }));
  }

  describe.each(kinds)('the %s checksum of type %s', (algorithm, kind) => {
    const name = `Checksum${algorithm}` as const;
    const expected =
      kind === 'COMPOSITE'
        ? compositeChecksum(algorithm, bodies)
        : base64Checksum(algorithm, Buffer.concat(bodies));

    it('of parts and object are those of the bytes; a wrong one is refused', async () => {
      const { begun, parts } = await upload(algorithm, kind);
      expect(parts.map((part) => part[name])).toEqual(
        bodies.map((body) => base64Checksum(algorithm, body)),
      );
      const listed = await client.send(new ListPartsCommand(begun));
      expect(listed.Parts?.map((part) => part[name])).toEqual(parts.map((part) => part[name]));
      expect([listed.ChecksumAlgorithm, listed.ChecksumType]).toEqual([algorithm, kind]);

      const wrong = base64Checksum(algorithm, Buffer.from('another'));
      const wrongPart = [{ ...parts[0], [name]: wrong }, parts[1] as CompletedPart];
      expect(await refusalOf(finish(begun, wrongPart))).toMatchObject({ code: 'InvalidPart' });
      const claimed = { [name]: kind === 'COMPOSITE' ? `${wrong}-2` : wrong };
      expect(await refusalOf(finish(begun, parts, claimed))).toMatchObject({ code: 'BadDigest' });

      const done = await finish(begun, parts, { [name]: expected });
      expect([done[name], done.ChecksumType]).toEqual([expected, kind]);
      const head = await client.send(new HeadObjectCommand({ ...begun, ChecksumMode: 'ENABLED' }));
      expect([head[name], head.ChecksumType]).toEqual([expected, kind]);
    });
  });

  it('a composite checksum is compared without the number of parts, too', async () => {
    const { begun, parts } = await upload('CRC32C', 'COMPOSITE');
    const bare = (checksum: string) => ({ ChecksumCRC32C: checksum.replace(/-2$/, '') });
    const wrong = bare(compositeChecksum('CRC32C', [...bodies].reverse()));
    expect(await refusalOf(finish(begun, parts, wrong))).toMatchObject({ code: 'BadDigest' });
    const expected = compositeChecksum('CRC32C', bodies);
    const done = await finish(begun, parts, bare(expected));
    expect(done.ChecksumCRC32C).toBe(expected);
  });

  it.each([
    ['SHA1', 'FULL_OBJECT'],
    ['SHA256', 'FULL_OBJECT'],
    ['CRC64NVME', 'COMPOSITE'],
  ] as const)('%s has no type %s', async (ChecksumAlgorithm, ChecksumType) => {
    const asked = { Bucket, Key: 'k', ChecksumAlgorithm, ChecksumType };
    const attempt = client.send(new CreateMultipartUploadCommand(asked));
    expect(await refusalOf(attempt)).toEqual({ code: 'InvalidRequest', status: 400 });
  });

  it('what is claimed of the object and cannot be compared is refused', async () => {
    const plain = await begin(client, Bucket);
    const asked = { ...plain, PartNumber: 1, Body: 'five5' };
    const { ETag } = await client.send(new UploadPartCommand(asked));
    const parts = [{ PartNumber: 1, ETag }];
    const claimed = { ChecksumSHA1: base64Checksum('SHA1', Buffer.from('five5')) };
    const unknown = await refusalOf(finish(plain, parts, claimed));
    expect(unknown).toEqual({ code: 'InvalidRequest', status: 400 });

    // No part has a checksum where the upload was begun without: neither this one, nor another.
    const ofPart = { ChecksumCRC32C: base64Checksum('CRC32C', Buffer.from('five5')) };
    const partClaim = await refusalOf(finish(plain, [{ PartNumber: 1, ETag, ...ofPart }]));
    expect(partClaim).toEqual({ code: 'InvalidPart', status: 400 });
    const typed = await refusalOf(finish(plain, parts, { ChecksumType: 'COMPOSITE' }));
    expect(typed).toEqual({ code: 'InvalidRequest', status: 400 });
    await finish(plain, parts);

    const whole = await upload('CRC32', 'FULL_OBJECT');
    const otherType = finish(whole.begun, whole.parts, { ChecksumType: 'COMPOSITE' });
    expect(await refusalOf(otherType)).toEqual({ code: 'InvalidRequest', status: 400 });
    const done = await finish(whole.begun, whole.parts, { ChecksumType: 'FULL_OBJECT' });
    expect(done.ChecksumType).toBe('FULL_OBJECT');
  });

  it('an upload without an algorithm becomes an object with a CRC-64/NVME', async () => {
    const begun = await begin(client, Bucket);
    const source = newName('source');
    const [large, small] = bodies as [Buffer, Buffer];
    await client.send(new PutObjectCommand({ Bucket, Key: source, Body: large }));
    // One part without a checksum, one with another, one that is copied: none tells of its own.
    const path = `/${Bucket}/${begun.Key}`;
    const query = { partNumber: '1', uploadId: begun.UploadId };
    const bare = await send(targetOf(), {
      ...{ method: 'PUT', path, body: large },
      query: Object.entries(query),
    });
    expect(Object.keys(bare.headers).filter((name) => name.includes('checksum'))).toEqual([]);
    const copy = await client.send(
      new UploadPartCopyCommand({ ...begun, PartNumber: 2, CopySource: `${Bucket}/${source}` }),
    );
    expect(copy.CopyPartResult).not.toHaveProperty('ChecksumCRC64NVME');
    const last = await client.send(
      new UploadPartCommand({
        ...begun,
        ...{ PartNumber: 3, Body: small, ChecksumAlgorithm: 'CRC32C' },
      }),
    );
    expect(last.ChecksumCRC32C).toBe(base64Checksum('CRC32C', small));
    const listed = await client.send(new ListPartsCommand(begun));
    expect(listed.ChecksumAlgorithm).toBeUndefined();
    const parts = (listed.Parts ?? []).map(({ PartNumber, ETag }) => ({ PartNumber, ETag }));
    const whole = Buffer.concat([large, large, small]);
    const wrong = finish(begun, parts, { ChecksumCRC64NVME: base64Checksum('CRC64NVME', small) });
    expect(await refusalOf(wrong)).toEqual({ code: 'BadDigest', status: 400 });
    const done = await finish(begun, parts);
    const expected = base64Checksum('CRC64NVME', whole);
    expect([done.ChecksumCRC64NVME, done.ChecksumType]).toEqual([expected, 'FULL_OBJECT']);
    const head = await client.send(new HeadObjectCommand({ ...begun, ChecksumMode: 'ENABLED' }));
    expect([head.ChecksumCRC64NVME, head.ChecksumType]).toEqual([expected, 'FULL_OBJECT']);
  });

  it('of algorithms that not all SDKs know, an upload has a composite checksum', async () => {
    const key = newName('xxhash');
    const path = `/${Bucket}/${key}`;
    const headers = { 'x-amz-checksum-algorithm': 'XXHASH3' };
    const begun = await send(targetOf(), {
      method: 'POST',
      path,
      query: [['uploads', '']],
      headers,
    });
    expect(begun.headers['x-amz-checksum-type']).toBe('COMPOSITE');
    const UploadId = elementOf(begun.body.toString(), 'UploadId') ?? '';
    const part = { Bucket, Key: key, UploadId, PartNumber: 1, Body: 'hello' };
    const bare = clientOf(targetOf(), { requestChecksumCalculation: 'WHEN_REQUIRED' });
    const { ETag } = await bare.send(new UploadPartCommand(part));
    // XXH3-64 of "hello", by xxHash's reference implementation, as is the next one.
    const list =
      `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${ETag}</ETag>` +
      '<ChecksumXXHASH3>lVXoVVxi3P0=</ChecksumXXHASH3></Part></CompleteMultipartUpload>';
    const query = [['uploadId', UploadId]] as const;
    expect((await send(targetOf(), { method: 'POST', path, query, body: list })).status).toBe(200);
    const head = await send(targetOf(), {
      ...{ method: 'HEAD', path },
      headers: { 'x-amz-checksum-mode': 'ENABLED' },
    });
    // XXH3-64 of these eight bytes.
    expect(head.headers['x-amz-checksum-xxhash3']).toBe('TgHCJrIzOAk=-1');
  });

  it('a part with another checksum than the upload’s is refused', async () => {
    const begun = await begin(client, Bucket, { ChecksumAlgorithm: 'SHA256' });
    const asked = { ...begun, PartNumber: 1, Body: 'x', ChecksumAlgorithm: 'CRC32C' } as const;
    expect(await refusalOf(client.send(new UploadPartCommand(asked)))).toEqual({
      code: 'InvalidRequest',
      status: 400,
    });
  });

  it('a copied part has the upload’s checksum too', async () => {
    const source = await upload('CRC64NVME', 'FULL_OBJECT');
    await finish(source.begun, source.parts);
    const begun = await begin(client, Bucket, { ChecksumAlgorithm: 'SHA256' });
    const CopySource = `${Bucket}/${source.begun.Key}`;
    const CopySourceRange = 'bytes=5242870-5242889';
    const { CopyPartResult } = await client.send(
      new UploadPartCopyCommand({ ...begun, PartNumber: 1, CopySource, CopySourceRange }),
    );
    const slice = Buffer.concat(bodies).subarray(5_242_870, 5_242_890);
    expect(CopyPartResult?.ChecksumSHA256).toBe(base64Checksum('SHA256', slice));
    const { ETag, ChecksumSHA256 } = CopyPartResult ?? {};
    const done = await finish(begun, [{ PartNumber: 1, ETag, ChecksumSHA256 }]);
    expect(done.ChecksumSHA256).toBe(compositeChecksum('SHA256', [slice]));
  });

  it('an object of another size than was announced is refused', async () => {
    const begun = await begin(client, Bucket);
    const asked = { ...begun, PartNumber: 1, Body: 'five5' };
    const { ETag } = await client.send(new UploadPartCommand(asked));
    const parts = [{ PartNumber: 1, ETag }];
    const wrong = finish(begun, parts, { MpuObjectSize: 6 });
    expect(await refusalOf(wrong)).toEqual({ code: 'InvalidRequest', status: 400 });
    await finish(begun, parts, { MpuObjectSize: 5 });
  });
}
