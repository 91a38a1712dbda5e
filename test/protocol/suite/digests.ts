// Digests that clients send with bodies: Content-MD5, x-amz-content-sha256, and checksums in
// headers and trailers. What does not match stores nothing. What comes without one gets one.

import { createHash, createHmac } from 'node:crypto';
import {
  type ChecksumAlgorithm,
  CopyObjectCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ChunkSeed } from '#bursar/authz/aws-chunked.js';
import { encodeChunks } from '../../authz/chunk-encoder.ts';
import { algorithms, base64Checksum } from '../checksums.ts';
import {
  type Answer,
  clientOf,
  elementOf,
  exchange,
  type Message,
  newBucket,
  newName,
  patternOf,
  refusalOf,
  region,
  send,
  signMessage,
  type Target,
} from '../target.ts';

/** A body in frames of aws-chunked without signatures, with a checksum behind it. */
function framed(body: Buffer, trailer: string): string {
  const half = body.length >> 1;
  const frames = [body.subarray(0, half), body.subarray(half)]
    .map((piece) => `${piece.length.toString(16)}\r\n${piece.toString('latin1')}\r\n`)
    .join('');
  return `${frames}0\r\n${trailer}\r\n\r\n`;
}

/** The bytes with the last `from` in them changed. */
function change(bytes: Buffer, from: string, to: string): Buffer {
  const at = bytes.lastIndexOf(from);
  if (at < 0) throw new Error(`there is no ${from}`);
  const end = at + Math.max(from.length, to.length);
  return Buffer.concat([bytes.subarray(0, at), Buffer.from(to), bytes.subarray(end)]);
}

/** The seed of a streamed body's signatures, from the signed head. */
function seedOf(target: Target, headers: Record<string, string>): ChunkSeed {
  const { authorization = '', 'x-amz-date': amzDate = '' } = headers;
  const [, scope = ''] = /Credential=[^/]+\/([^,]+),/.exec(authorization) ?? [];
  const [, signature = ''] = /Signature=(\w+)/.exec(authorization) ?? [];
  const date = amzDate.slice(0, 8);
  const { secretAccessKey } = target.keys;
  const hmac = (key: string | Buffer, text: string) =>
    createHmac('sha256', key).update(text).digest();
  const steps = [date, region, 's3', 'aws4_request'];
  const signingKey = steps.reduce<Buffer | string>(hmac, `AWS4${secretAccessKey}`) as Buffer;
  return { signingKey, scope, amzDate, signature };
}

export function describeDigests(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
  });

  /** A PUT of `message`, and whether an object is there afterwards. */
  async function put(message: Partial<Message>): Promise<Answer & { stored: boolean }> {
    const path = `/${Bucket}/${newName('digest')}`;
    const answer = await send(target, { method: 'PUT', path, ...message });
    const head = await send(target, { method: 'HEAD', path });
    return { ...answer, stored: head.status === 200 };
  }

  const body = patternOf(5000, 3);
  const small = Buffer.from('hello');

  /** A PUT of `small` that announces the trailer `name`, and brings `trailer`. */
  const streamed = (name: string, value: string, trailer = name) =>
    put({
      headers: {
        'x-amz-trailer': name,
        'x-amz-decoded-content-length': String(small.length),
        'content-encoding': 'aws-chunked',
      },
      payload: 'STREAMING-UNSIGNED-PAYLOAD-TRAILER',
      body: framed(small, `${trailer}:${value}`),
    });

  describe('Content-MD5', () => {
    it.each([
      ['of the body is accepted', createHash('md5').update(body).digest('base64'), 200, undefined],
      ['of another body is refused', createHash('md5').digest('base64'), 400, 'BadDigest'],
      ['that is too short is refused', 'AAAA', 400, 'InvalidDigest'],
      ['that is not base64 is refused', '*'.repeat(24), 400, 'InvalidDigest'],
      ['that is empty is refused', '', 400, 'InvalidDigest'],
    ])('%s', async (_title, md5, status, code) => {
      const answer = await put({ headers: { 'content-md5': md5 }, body });
      expect([answer.status, answer.code, answer.stored]).toEqual([status, code, status === 200]);
    });
  });

  it('a body that is not the signed one stores nothing', async () => {
    const payload = createHash('sha256').update('another body').digest('hex');
    const answer = await put({ body, payload });
    expect([answer.status, answer.code, answer.stored]).toEqual([
      400,
      'XAmzContentSHA256Mismatch',
      false,
    ]);
  });

  it('by default the SDK sends a CRC-32, which is kept and given back when asked for', async () => {
    const stored = await client.send(new PutObjectCommand({ Bucket, Key: 'default', Body: body }));
    expect(stored.ChecksumCRC32).toBe(base64Checksum('CRC32', body));
    expect(stored.ChecksumType).toBe('FULL_OBJECT');
    const asked = { Bucket, Key: 'default', ChecksumMode: 'ENABLED' } as const;
    const head = await client.send(new HeadObjectCommand(asked));
    expect([head.ChecksumCRC32, head.ChecksumType]).toEqual([stored.ChecksumCRC32, 'FULL_OBJECT']);
    const plain = await send(target, { method: 'HEAD', path: `/${Bucket}/default` });
    expect(plain.headers['x-amz-checksum-crc32']).toBeUndefined();
  });

  describe.each(algorithms)('the checksum %s', (algorithm) => {
    const name = `x-amz-checksum-${algorithm.toLowerCase()}`;
    const right = base64Checksum(algorithm, small);
    const wrong = base64Checksum(algorithm, body);

    it('that the SDK computes is kept, and the SDK verifies it on the way back', async () => {
      const Key = `sdk-${algorithm}`;
      const ChecksumAlgorithm = algorithm as ChecksumAlgorithm;
      await client.send(new PutObjectCommand({ Bucket, Key, Body: body, ChecksumAlgorithm }));
      const asked = { Bucket, Key, ChecksumMode: 'ENABLED' } as const;
      const got = await client.send(new GetObjectCommand(asked));
      expect(Buffer.from((await got.Body?.transformToByteArray()) ?? []).equals(body)).toBe(true);
      expect(got[`Checksum${algorithm}`]).toBe(base64Checksum(algorithm, body));
    });

    it('in a header is compared with the body', async () => {
      const good = await put({ headers: { [name]: right }, body: small });
      expect([good.status, good.headers[name], good.stored]).toEqual([200, right, true]);
      const bad = await put({ headers: { [name]: wrong }, body: small });
      expect([bad.status, bad.code, bad.stored]).toEqual([400, 'BadDigest', false]);
    });

    it.each(['', 'AAAA', '!', `${right}=`])('in a header as "%s" is refused', async (text) => {
      const answer = await put({ headers: { [name]: text }, body: small });
      expect([answer.status, answer.code, answer.stored]).toEqual([400, 'InvalidRequest', false]);
    });

    it('in a trailer is compared with the body', async () => {
      const good = await streamed(name, right);
      expect([good.status, good.headers[name], good.stored]).toEqual([200, right, true]);
      const bad = await streamed(name, wrong);
      expect([bad.status, bad.code, bad.stored]).toEqual([400, 'BadDigest', false]);
      const other = await streamed(name, right, 'x-amz-checksum-other');
      expect([other.status, other.stored]).toEqual([400, false]);
    });
  });

  // Of "hello": FIPS 180, RFC 1321 and xxHash's reference implementation.
  const newer = [
    ['MD5', '5d41402abc4b2a76b9719d911017c592'],
    [
      'SHA512',
      '9b71d224bd62f3785d96d46ad3ea3d73319bfbc2890caadae2dff72519673ca7' +
        '2323c3d99ba5c11d7c7acc6e14b8c5da0c4663475c2e5c3adef46f73bcdec043',
    ],
    ['XXHASH64', '26c7827d889f6da3'],
    ['XXHASH3', '9555e8555c62dcfd'],
    ['XXHASH128', 'b5e9c1ad071b3e7fc779cfaa5e523818'],
  ] as const;
  describe.each(newer)('the checksum %s, which not all SDKs know,', (algorithm, hex) => {
    const name = `x-amz-checksum-${algorithm.toLowerCase()}`;
    const bytes = Buffer.from(hex, 'hex');
    const right = bytes.toString('base64');
    const wrong = Buffer.from(bytes.map((byte) => byte ^ 1)).toString('base64');

    it('in a header is compared with the body, kept, and shown', async () => {
      const path = `/${Bucket}/${algorithm}`;
      const good = await send(target, {
        method: 'PUT',
        path,
        headers: { [name]: right },
        body: small,
      });
      expect([good.status, good.headers[name], good.headers['x-amz-checksum-type']]).toEqual([
        200,
        right,
        'FULL_OBJECT',
      ]);
      const headers = { 'x-amz-checksum-mode': 'ENABLED' };
      const head = await send(target, { method: 'HEAD', path, headers });
      expect([head.headers[name], head.headers['x-amz-checksum-crc64nvme']]).toEqual([
        right,
        undefined,
      ]);
      const bad = await put({ headers: { [name]: wrong }, body: small });
      expect([bad.status, bad.code, bad.stored]).toEqual([400, 'BadDigest', false]);
      const short = await put({ headers: { [name]: 'AAAA' }, body: small });
      expect([short.status, short.code, short.stored]).toEqual([400, 'InvalidRequest', false]);
    });

    it('in a trailer is compared with the body', async () => {
      const good = await streamed(name, right);
      expect([good.status, good.headers[name], good.stored]).toEqual([200, right, true]);
      const bad = await streamed(name, wrong);
      expect([bad.status, bad.code, bad.stored]).toEqual([400, 'BadDigest', false]);
    });

    it('of a large body is the one that a copy of it computes anew', async () => {
      const [Key, copied] = [`large-${algorithm}`, `copied-${algorithm}`];
      const large = patternOf(700_001, 5);
      await send(target, { method: 'PUT', path: `/${Bucket}/${Key}`, body: large });
      const copy = await send(target, {
        method: 'PUT',
        path: `/${Bucket}/${copied}`,
        headers: {
          'x-amz-copy-source': `/${Bucket}/${Key}`,
          'x-amz-checksum-algorithm': algorithm,
        },
      });
      const value = elementOf(copy.body.toString(), `Checksum${algorithm}`) ?? '';
      const again = await put({ headers: { [name]: value }, body: large });
      expect([again.status, again.headers[name]]).toEqual([200, value]);
    });
  });

  describe('without a checksum of the client', () => {
    it.each([
      ['empty', Buffer.alloc(0)],
      ['small', small],
      ['large', patternOf(700_001, 6)],
    ])('%s objects get a CRC-64/NVME, which is shown where checksums are', async (title, bytes) => {
      const path = `/${Bucket}/without-${title}`;
      const expected = base64Checksum('CRC64NVME', bytes);
      const shown = ({ headers }: Answer) => [
        headers['x-amz-checksum-crc64nvme'],
        headers['x-amz-checksum-type'],
      ];
      const md5 = createHash('md5').update(bytes).digest('base64');
      const stored = await send(target, {
        method: 'PUT',
        path,
        headers: { 'content-md5': md5 },
        body: bytes,
      });
      expect(shown(stored)).toEqual([expected, 'FULL_OBJECT']);
      const headers = { 'x-amz-checksum-mode': 'ENABLED' };
      for (const method of ['HEAD', 'GET']) {
        expect(shown(await send(target, { method, path, headers }))).toEqual(shown(stored));
        expect(shown(await send(target, { method, path }))).toEqual([undefined, undefined]);
      }
      const Key = `without-${title}`;
      const asked = { Bucket, Key, ObjectAttributes: ['Checksum' as const] };
      const { Checksum } = await client.send(new GetObjectAttributesCommand(asked));
      expect(Checksum).toEqual({ ChecksumCRC64NVME: expected, ChecksumType: 'FULL_OBJECT' });
      const listed = await client.send(new ListObjectsV2Command({ Bucket, Prefix: Key }));
      expect(listed.Contents?.[0]).toMatchObject({
        ChecksumAlgorithm: ['CRC64NVME'],
        ChecksumType: 'FULL_OBJECT',
      });
      const CopySource = `${Bucket}/${Key}`;
      const copy = await client.send(
        new CopyObjectCommand({ Bucket, Key: `copy-of-${title}`, CopySource }),
      );
      expect(copy.CopyObjectResult?.ChecksumCRC64NVME).toBe(expected);
    });
  });

  describe('contradictory checksums', () => {
    const crc32 = base64Checksum('CRC32', small);
    const sha1 = base64Checksum('SHA1', small);
    it.each([
      ['two of them', { 'x-amz-checksum-crc32': crc32, 'x-amz-checksum-sha1': sha1 }],
      [
        'one as header and trailer',
        { 'x-amz-checksum-crc32': crc32, 'x-amz-trailer': 'x-amz-checksum-crc32' },
      ],
      [
        'another than the SDK names',
        { 'x-amz-checksum-crc32': crc32, 'x-amz-sdk-checksum-algorithm': 'SHA256' },
      ],
    ])('%s are refused', async (_title, headers) => {
      const answer = await put({ headers, body: small });
      expect([answer.status, answer.code, answer.stored]).toEqual([400, 'InvalidRequest', false]);
    });

    it('an unknown algorithm is refused', async () => {
      const headers = { 'x-amz-sdk-checksum-algorithm': 'CRC16' };
      const answer = await put({ headers, body: small });
      expect([answer.status, answer.code, answer.stored]).toEqual([400, 'InvalidRequest', false]);
    });
  });

  describe('aws-chunked frames', () => {
    const headers = {
      'x-amz-trailer': 'x-amz-checksum-crc32',
      'x-amz-decoded-content-length': '5',
      'content-encoding': 'aws-chunked',
    };
    const payload = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER';
    const trailer = `x-amz-checksum-crc32:${base64Checksum('CRC32', small)}`;
    it.each([
      ['more than they announced', framed(Buffer.from('hello!'), trailer)],
      ['less than they announced', framed(Buffer.from('hell'), trailer)],
      ['an end that never comes', framed(small, trailer).slice(0, -9)],
      ['no frames at all', 'hello'],
      ['a size that is none', 'x\r\nhello\r\n0\r\n\r\n'],
      ['a frame without its end', '5\r\nhello0\r\n\r\n'],
    ])('with %s store nothing', async (_title, frames) => {
      const answer = await put({ headers, payload, body: frames });
      expect([answer.status, answer.stored]).toEqual([400, false]);
    });

    it.each([
      ['as they were signed', 200, (bytes: Buffer) => bytes],
      ['with a changed byte', 403, (bytes: Buffer) => change(bytes, 'sign me', 'sign mE')],
      [
        'with a changed signature',
        403,
        (bytes: Buffer) => change(bytes, '-signature=', '-signature=x'),
      ],
      ['without the last one', 400, (bytes: Buffer) => bytes.subarray(0, bytes.lastIndexOf('0;'))],
    ])('signed one by one, %s, are %i', async (_title, status, changed) => {
      const pieces = [patternOf(70_000, 9), Buffer.from('sign me')];
      const sum = pieces.reduce((bytes, piece) => bytes + piece.length, 0);
      const path = `/${Bucket}/${newName('signed')}`;
      const message = {
        method: 'PUT',
        path,
        payload: 'STREAMING-AWS4-HMAC-SHA256-PAYLOAD',
        headers: {
          'x-amz-decoded-content-length': String(sum),
          'content-encoding': 'aws-chunked',
        },
      };
      const { headers } = signMessage(target, message);
      const bytes = changed(encodeChunks(pieces, seedOf(target, headers), null).bytes);
      const answer = await exchange(target, 'PUT', path, headers, bytes);
      expect(answer.status).toBe(status);
      const stored = await send(target, { method: 'GET', path });
      if (status === 200) expect(stored.body.equals(Buffer.concat(pieces))).toBe(true);
      else expect(stored.status).toBe(404);
    });

    it('an SDK that signs its body in one piece is told of a changed byte', async () => {
      const signed = clientOf(target);
      signed.middlewareStack.add(
        (next) => (args) => {
          (args.request as { body: unknown }).body = 'hellO';
          return next(args);
        },
        { step: 'finalizeRequest', priority: 'low', name: 'change the body' },
      );
      const attempt = signed.send(new PutObjectCommand({ Bucket, Key: 'changed', Body: small }));
      expect(await refusalOf(attempt)).toMatchObject({ status: 400 });
      const head = client.send(new HeadObjectCommand({ Bucket, Key: 'changed' }));
      expect(await refusalOf(head)).toMatchObject({ status: 404 });
    });
  });
}
