// Keys that customers bring (SSE-C), as S3 has them: what AWS was seen to answer, and that nothing
// of an object is told, or comes out, without its key.
import { createHash, randomBytes } from 'node:crypto';
import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  GetObjectAttributesCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { beforeAll, describe, expect, it } from 'vitest';
import { formBody, postForm, signPolicy } from '../forms.ts';
import { clientOf, newBucket, newName, refusalOf, send, type Target } from '../target.ts';

const own = 'x-amz-server-side-encryption-customer-';
const large = 6 * 1024 * 1024;

function keyOf(seed: string, bytes = 32) {
  const key = createHash('sha512').update(seed).digest().subarray(0, bytes);
  const text = key.toString('base64');
  const md5 = createHash('md5').update(key).digest('base64');
  return { text, md5 };
}

/** What the SDK takes of a key, whose MD5 it adds by itself. */
function withKey(seed: string) {
  const { text, md5 } = keyOf(seed);
  return { SSECustomerAlgorithm: 'AES256', SSECustomerKey: text, SSECustomerKeyMD5: md5 };
}

function fromKey(seed: string) {
  const { text, md5 } = keyOf(seed);
  return {
    CopySourceSSECustomerAlgorithm: 'AES256',
    CopySourceSSECustomerKey: text,
    CopySourceSSECustomerKeyMD5: md5,
  };
}

function headersOf(seed: string, prefix = own, bytes = 32): Record<string, string> {
  const { text, md5 } = keyOf(seed, bytes);
  return { [`${prefix}algorithm`]: 'AES256', [`${prefix}key`]: text, [`${prefix}key-md5`]: md5 };
}

function md5Of(bytes: Uint8Array): string {
  return `"${createHash('md5').update(bytes).digest('hex')}"`;
}

const missing = { code: 'InvalidRequest', status: 400 };
const wrong = { code: 'AccessDenied', status: 403 };

export function describeCustomerKeys(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
  });

  const read = async (Key: string, more: object = {}) => {
    const got = await client.send(new GetObjectCommand({ Bucket, Key, ...more }));
    return Buffer.from((await got.Body?.transformToByteArray()) ?? []);
  };

  it.each([
    ['small', 100],
    ['large', large],
    ['empty', 0],
  ])('an object that is %s is read with its key alone', async (name, size) => {
    const Key = newName(name);
    const Body = randomBytes(size);
    const put = await client.send(new PutObjectCommand({ Bucket, Key, Body, ...withKey('a') }));
    const said = { SSECustomerAlgorithm: 'AES256', SSECustomerKeyMD5: keyOf('a').md5 };
    expect(put).toMatchObject(said);
    expect(put.ServerSideEncryption).toBeUndefined();
    expect(put.ETag).toMatch(/^"[0-9a-f]{32}"$/);
    expect(put.ETag).not.toBe(md5Of(Body));
    // Twice, since what is small stays in memory.
    for (let i = 0; i < 2; i++) {
      const of = { Bucket, Key };
      expect((await read(Key, withKey('a'))).equals(Body)).toBe(true);
      expect(await refusalOf(client.send(new GetObjectCommand(of)))).toMatchObject(missing);
      const another = { ...of, ...withKey('b'), IfNoneMatch: put.ETag };
      expect(await refusalOf(client.send(new GetObjectCommand(another)))).toMatchObject(wrong);
    }
    const path = `/${Bucket}/${Key}`;
    for (const [headers, status] of [
      [{}, 400],
      [headersOf('b'), 403],
      [headersOf('a'), 200],
    ] as const) {
      const head = await send(target, { method: 'HEAD', path, headers });
      expect(head.status).toBe(status);
      expect(head.headers.etag).toBe(status === 200 ? put.ETag : undefined);
      expect(head.headers['x-amz-server-side-encryption']).toBeUndefined();
    }
    const asked = { Bucket, Key, ObjectAttributes: ['ETag', 'ObjectSize'] as const };
    const attributes = { ...asked, ObjectAttributes: [...asked.ObjectAttributes] };
    const told = await client.send(
      new GetObjectAttributesCommand({ ...attributes, ...withKey('a') }),
    );
    expect(told).toMatchObject({ ETag: put.ETag?.slice(1, -1), ObjectSize: size });
    for (const [more, refused] of [
      [{}, missing],
      [withKey('b'), wrong],
    ] as const) {
      const asking = client.send(new GetObjectAttributesCommand({ ...attributes, ...more }));
      expect(await refusalOf(asking)).toMatchObject(refused);
    }
  });

  it('any range of it comes out, and checksums are of what was sent', async () => {
    const Key = newName('ranges');
    const Body = randomBytes(large);
    const ChecksumAlgorithm = 'SHA256' as const;
    const put = { Bucket, Key, Body, ChecksumAlgorithm, ...withKey('a') };
    await client.send(new PutObjectCommand(put));
    for (const [from, to] of [
      [0, 0],
      [15, 17],
      [262_143, 262_144],
      [1_000_001, 3_000_000],
      [large - 1, large - 1],
    ] as const) {
      const part = await read(Key, { Range: `bytes=${from}-${to}`, ...withKey('a') });
      expect(part.equals(Body.subarray(from, to + 1)), `${from}`).toBe(true);
    }
    const asked = { Bucket, Key, ChecksumMode: 'ENABLED' as const, ...withKey('a') };
    const { ChecksumSHA256 } = await client.send(new HeadObjectCommand(asked));
    expect(ChecksumSHA256).toBe(createHash('sha256').update(Body).digest('base64'));
  });

  const base = headersOf('a');
  const without = (name: string) =>
    Object.fromEntries(Object.entries(base).filter(([one]) => one !== own + name));
  it.each<[string, Record<string, string>, string, string]>([
    [
      'another method of encryption besides',
      { ...base, [`${own}algorithm`]: 'KMS', 'x-amz-server-side-encryption': 'AES256' },
      'InvalidArgument',
      'Server Side Encryption with Customer provided key is incompatible with the encryption ' +
        'method specified',
    ],
    [
      'another algorithm',
      { ...base, [`${own}algorithm`]: 'KMS' },
      'InvalidEncryptionAlgorithmError',
      'The Encryption request you specified is not valid. Supported value: AES256.',
    ],
    [
      'no algorithm',
      without('algorithm'),
      'InvalidArgument',
      'Requests specifying Server Side Encryption with Customer provided keys must provide a ' +
        'valid encryption algorithm.',
    ],
    [
      'no key',
      without('key'),
      'InvalidArgument',
      'Requests specifying Server Side Encryption with Customer provided keys must provide an ' +
        'appropriate secret key.',
    ],
    [
      'no MD5',
      without('key-md5'),
      'InvalidArgument',
      'Requests specifying Server Side Encryption with Customer provided keys must provide the ' +
        'client calculated MD5 of the secret key.',
    ],
    [
      'a key of 10 bytes',
      headersOf('a', own, 10),
      'InvalidArgument',
      'The secret key was invalid for the specified algorithm.',
    ],
    [
      'the MD5 of another key',
      { ...base, [`${own}key-md5`]: keyOf('b').md5 },
      'InvalidArgument',
      'The calculated MD5 hash of the key did not match the hash that was provided.',
    ],
  ])('a write with %s is refused, and makes nothing', async (_, headers, code, message) => {
    const path = `/${Bucket}/${newName('refused')}`;
    const answer = await send(target, { method: 'PUT', path, headers, body: 'x' });
    expect([answer.status, answer.code]).toEqual([400, code]);
    expect(answer.text).toContain(`<Message>${message}</Message>`);
    expect(answer.text).not.toContain(base[`${own}key`] as string);
    expect((await send(target, { method: 'HEAD', path })).status).toBe(404);
  });

  it('what has no key of a customer is not read with one, nor copied', async () => {
    const Key = newName('plain');
    await client.send(new PutObjectCommand({ Bucket, Key, Body: 'x' }));
    const get = new GetObjectCommand({ Bucket, Key, ...withKey('a') });
    expect(await refusalOf(client.send(get))).toMatchObject(missing);
    const CopySource = `${Bucket}/${Key}`;
    const copy = new CopyObjectCommand({ Bucket, Key: 'no', CopySource, ...fromKey('a') });
    expect(await refusalOf(client.send(copy))).toMatchObject(missing);
  });

  describe('an upload', () => {
    const begin = (Key: string, more: object) =>
      client.send(new CreateMultipartUploadCommand({ Bucket, Key, ...more }));

    it('has its parts with the key that it was begun with', async () => {
      const Key = newName('parts');
      const source = newName('source');
      const [first, second, third] = [randomBytes(large), randomBytes(large), randomBytes(77)];
      await client.send(
        new PutObjectCommand({ Bucket, Key: source, Body: second, ...withKey('b') }),
      );
      const begun = await begin(Key, withKey('a'));
      const said = { SSECustomerAlgorithm: 'AES256', SSECustomerKeyMD5: keyOf('a').md5 };
      expect(begun).toMatchObject(said);
      expect(begun.ServerSideEncryption).toBeUndefined();
      const { UploadId } = begun;
      const one = { Bucket, Key, UploadId, PartNumber: 1, Body: first };
      for (const more of [{}, withKey('b')]) {
        const refused = await refusalOf(client.send(new UploadPartCommand({ ...one, ...more })));
        expect(refused).toMatchObject(missing);
      }
      const sent = await client.send(new UploadPartCommand({ ...one, ...withKey('a') }));
      expect(sent).toMatchObject(said);
      expect(sent.ETag).not.toBe(md5Of(first));
      const two = {
        ...{ Bucket, Key, UploadId, PartNumber: 2, CopySource: `${Bucket}/${source}` },
        ...{ CopySourceRange: `bytes=5-${large - 1}`, ...withKey('a') },
      };
      expect(await refusalOf(client.send(new UploadPartCopyCommand(two)))).toMatchObject(missing);
      const copied = await client.send(new UploadPartCopyCommand({ ...two, ...fromKey('b') }));
      expect(copied).toMatchObject(said);
      const three = { ...one, PartNumber: 3, Body: third, ...withKey('a') };
      const last = await client.send(new UploadPartCommand(three));
      const Parts = [sent.ETag, copied.CopyPartResult?.ETag, last.ETag].map((ETag, i) => {
        return { ETag, PartNumber: i + 1 };
      });
      const completing = { Bucket, Key, UploadId, MultipartUpload: { Parts } };
      const another = { ...completing, ...withKey('b') };
      const refused = await refusalOf(client.send(new CompleteMultipartUploadCommand(another)));
      expect(refused).toMatchObject(missing);
      // As on AWS, the list of parts needs no key.
      const done = await client.send(new CompleteMultipartUploadCommand(completing));
      expect(done.ServerSideEncryption).toBeUndefined();
      expect(done.ETag).toMatch(/-3"$/);
      const whole = Buffer.concat([first, second.subarray(5), third]);
      expect((await read(Key, withKey('a'))).equals(whole)).toBe(true);
      const [from, to] = [large - 3, 2 * large + 3];
      const range = await read(Key, { Range: `bytes=${from}-${to}`, ...withKey('a') });
      expect(range.equals(whole.subarray(from, to + 1))).toBe(true);
      const part = await read(Key, { PartNumber: 3, ...withKey('a') });
      expect(part.equals(third)).toBe(true);
      const plain = client.send(new GetObjectCommand({ Bucket, Key }));
      expect(await refusalOf(plain)).toMatchObject(missing);
      const CopySource = `${Bucket}/${Key}`;
      const copy = { Bucket, Key: newName('copy'), CopySource, ...fromKey('a') };
      await client.send(new CopyObjectCommand(copy));
      expect((await read(copy.Key)).equals(whole)).toBe(true);
    });

    it('without a key takes no part with one', async () => {
      const Key = newName('parts');
      const { UploadId } = await begin(Key, {});
      const part = { Bucket, Key, UploadId, PartNumber: 1, Body: 'x', ...withKey('a') };
      expect(await refusalOf(client.send(new UploadPartCommand(part)))).toMatchObject(missing);
    });
  });

  it('copies are made from and to any key, or none', async () => {
    const Body = randomBytes(large);
    const [Key, Plain] = [newName('from'), newName('plain')];
    await client.send(new PutObjectCommand({ Bucket, Key, Body, ...withKey('a') }));
    await client.send(new PutObjectCommand({ Bucket, Key: Plain, Body }));
    for (const [source, from, to, readBy] of [
      [Key, fromKey('a'), {}, {}],
      [Key, fromKey('a'), withKey('a'), withKey('a')],
      [Key, fromKey('a'), withKey('b'), withKey('b')],
      [Plain, {}, withKey('b'), withKey('b')],
    ] as const) {
      const copy = { Bucket, Key: newName('to'), CopySource: `${Bucket}/${source}` };
      const made = await client.send(new CopyObjectCommand({ ...copy, ...from, ...to }));
      const isPlain = !('SSECustomerKey' in to);
      expect(made.ServerSideEncryption).toBe(isPlain ? 'AES256' : undefined);
      expect(made.SSECustomerKeyMD5).toBe(isPlain ? undefined : to.SSECustomerKeyMD5);
      expect(made.CopyObjectResult?.ETag === md5Of(Body)).toBe(isPlain);
      expect((await read(copy.Key, readBy)).equals(Body)).toBe(true);
      if (isPlain) continue;
      const bare = client.send(new GetObjectCommand({ Bucket, Key: copy.Key }));
      expect(await refusalOf(bare)).toMatchObject(missing);
    }
    // Onto itself another key is a change, and what was under the old one is not read with it.
    const itself = { Bucket, Key, CopySource: `${Bucket}/${Key}` };
    for (const [more, refused] of [
      [{}, missing],
      [withKey('a'), missing],
      [fromKey('b'), wrong],
    ] as const) {
      const copy = client.send(new CopyObjectCommand({ ...itself, ...more }));
      expect(await refusalOf(copy)).toMatchObject(refused);
    }
    await client.send(new CopyObjectCommand({ ...itself, ...fromKey('a'), ...withKey('b') }));
    expect((await read(Key, withKey('b'))).equals(Body)).toBe(true);
    const old = client.send(new GetObjectCommand({ Bucket, Key, ...withKey('a') }));
    expect(await refusalOf(old)).toMatchObject(wrong);
  });

  it('each version has the key that it was written with', async () => {
    const versioned = await newBucket(client);
    const VersioningConfiguration = { Status: 'Enabled' as const };
    await client.send(
      new PutBucketVersioningCommand({ Bucket: versioned, VersioningConfiguration }),
    );
    const of = { Bucket: versioned, Key: 'k' };
    const [first] = [
      await client.send(new PutObjectCommand({ ...of, Body: 'one', ...withKey('a') })),
      await client.send(new PutObjectCommand({ ...of, Body: 'two', ...withKey('b') })),
    ] as const;
    const old = { ...of, VersionId: first?.VersionId };
    const got = await client.send(new GetObjectCommand({ ...old, ...withKey('a') }));
    expect(await got.Body?.transformToString()).toBe('one');
    const other = client.send(new GetObjectCommand({ ...old, ...withKey('b') }));
    expect(await refusalOf(other)).toMatchObject(wrong);
  });

  it('a form brings one in its fields, and a presigned URL in headers that it signs', async () => {
    const key = newName('form');
    const fields = Object.entries(headersOf('a'));
    const conditions = fields.map(([name, value]) => ({ [name]: value }));
    const signed = signPolicy(target.keys, [{ bucket: Bucket }, { key }, ...conditions]);
    const body = formBody([['key', key], ...fields, ...signed], { content: 'of a form' });
    const posted = await postForm(target, Bucket, body);
    expect(posted.status).toBe(204);
    expect(posted.headers[`${own}key-md5`]).toBe(keyOf('a').md5);
    const get = new GetObjectCommand({ Bucket, Key: key, ...withKey('a') });
    const url = await getSignedUrl(client, get);
    expect(new URL(url).searchParams.get('X-Amz-SignedHeaders')).toContain(`${own}key`);
    const got = await fetch(url, { headers: headersOf('a') });
    expect(await got.text()).toBe('of a form');
    expect((await fetch(url, { headers: headersOf('b') })).status).toBe(403);
    expect((await fetch(url)).status).toBe(403);
    // In a URL a key would be in the logs of whatever the URL passes.
    const query = Object.entries(headersOf('a'));
    const asked = { method: 'GET', path: `/${Bucket}/${key}`, query };
    const answer = await send(target, asked);
    expect([answer.status, answer.text.includes(keyOf('a').text)]).toEqual([400, false]);
  });

  it('a signature that does not fit is told without the key', async () => {
    const path = `/${Bucket}/signed`;
    const url = `${target.endpoint}${path}`;
    const get = new GetObjectCommand({ Bucket, Key: 'signed', ...withKey('a') });
    const signed = await getSignedUrl(client, get);
    const answer = await fetch(`${url}${new URL(signed).search}`, { headers: headersOf('b') });
    const text = await answer.text();
    expect(text).toContain('SignatureDoesNotMatch');
    expect(text).not.toContain(keyOf('b').text);
    const hex = Buffer.from(keyOf('b').text)
      .toString('hex')
      .replace(/..(?!$)/g, '$& ');
    expect(text).not.toContain(hex);
  });
}
