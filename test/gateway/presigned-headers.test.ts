// Headers in the query of presigned URLs: they count as if they had been sent, and nothing that was
// signed is passed over. URLs are made by the AWS SDK for JavaScript, which moves headers there by
// default, and by hand, for what no SDK makes.
import { createHash } from 'node:crypto';
import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteBucketPolicyCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadObjectCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  PutObjectTaggingCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3';
import { getSignedUrl } from '@aws-sdk/s3-request-presigner';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  type Answer,
  as,
  clientOf,
  exchange,
  newName,
  newPrincipal,
  refusalOf,
  region,
  send,
  startEmbeddedTarget,
  type Target,
} from '../protocol/target.ts';
import { presignUrl, type UrlToSign } from '../tooling/presign.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let target: Target;
let client: S3Client;
const Bucket = 'presigned';

beforeAll(async () => {
  target = await startEmbeddedTarget();
  client = clientOf(target);
  await client.send(new CreateBucketCommand({ Bucket }));
  await client.send(new PutObjectCommand({ Bucket, Key: 'there', Body: 'old' }));
});

afterAll(() => target?.stop());

function use(url: string, method: string, body?: string, headers = {}): Promise<Answer> {
  const { host, pathname, search } = new URL(url);
  return exchange(target, method, `${pathname}${search}`, { host, ...headers }, body);
}

type Query = UrlToSign['query'];

/** A URL whose query has these pairs. */
function presign(method: string, key: string, query: Query, more: Partial<UrlToSign> = {}): string {
  const { accessKeyId, secretAccessKey: secret } = target.keys;
  return presignUrl({
    ...{ accessKeyId, secret, region, method, origin: target.endpoint },
    ...{ path: `/${Bucket}/${key}`, expiresSeconds: 60, timeMs: Date.now(), query, ...more },
  });
}

async function textOf(Key: string): Promise<string | undefined> {
  const { Body } = await client.send(new GetObjectCommand({ Bucket, Key }));
  return Body?.transformToString();
}

const sha256 = (text: string): string => createHash('sha256').update(text).digest('base64');

describe('a URL by the AWS SDK for JavaScript', () => {
  /** What commands of different kinds have in common is not a type that the SDK exports. */
  const sign = (command: object, signer = client): Promise<string> =>
    getSignedUrl(signer, command as never, { expiresIn: 60 });

  it('gives an object the metadata, tags, class and expected owner that were signed', async () => {
    const Key = newName('k');
    const url = await sign(
      new PutObjectCommand({
        ...{ Bucket, Key, Metadata: { Kind: 'demo', other: 'a, b' }, Tagging: 'a=1&b=%C3%BC' },
        ...{ StorageClass: 'STANDARD', ExpectedBucketOwner: 'default/admin' },
        ...{ WebsiteRedirectLocation: '/elsewhere', ACL: 'bucket-owner-full-control' },
      }),
    );
    expect(new URL(url).searchParams.get('X-Amz-SignedHeaders')).toBe('host');
    const put = await use(url, 'PUT', 'the body');
    expect([put.status, put.text]).toEqual([200, '']);
    const head = await client.send(new HeadObjectCommand({ Bucket, Key }));
    expect(head.Metadata).toEqual({ kind: 'demo', other: 'a, b' });
    expect(head.WebsiteRedirectLocation).toBe('/elsewhere');
    const { TagSet } = await client.send(new GetObjectTaggingCommand({ Bucket, Key }));
    expect(TagSet).toEqual([
      { Key: 'a', Value: '1' },
      { Key: 'b', Value: 'ü' },
    ]);
  });

  it('has the body compared with the checksum that was given', async () => {
    const Key = newName('k');
    const url = await sign(
      new PutObjectCommand({ Bucket, Key, ChecksumSHA256: sha256('the body') }),
    );
    const wrong = await use(url, 'PUT', 'another');
    expect([wrong.status, wrong.code]).toEqual([400, 'BadDigest']);
    expect(await refusalOf(textOf(Key))).toMatchObject({ code: 'NoSuchKey' });
    expect((await use(url, 'PUT', 'the body')).status).toBe(200);
    const asked = await sign(new GetObjectCommand({ Bucket, Key, ChecksumMode: 'ENABLED' }));
    const got = await use(asked, 'GET');
    expect(got.headers['x-amz-checksum-sha256']).toBe(sha256('the body'));
  });

  it('takes any body where the SDK did not know it, and signed the checksum of none', async () => {
    const Key = newName('k');
    const url = await sign(new PutObjectCommand({ Bucket, Key }));
    expect(new URL(url).searchParams.get('x-amz-checksum-crc32')).toBe('AAAAAA==');
    expect((await use(url, 'PUT', 'the body')).status).toBe(200);
    expect(await textOf(Key)).toBe('the body');
    expect((await use(url, 'PUT', '', { 'content-length': '0' })).status).toBe(200);
    expect(await textOf(Key)).toBe('');
  });

  it('uploads by parts, with what the upload was begun with', async () => {
    const Key = newName('k');
    const begun = await use(
      await sign(new CreateMultipartUploadCommand({ Bucket, Key, Metadata: { kind: 'parts' } })),
      'POST',
    );
    const UploadId = /<UploadId>([^<]*)/.exec(begun.text)?.[1];
    const part = { Bucket, Key, UploadId, PartNumber: 1 };
    const { headers } = await use(await sign(new UploadPartCommand(part)), 'PUT', 'one part');
    const MultipartUpload = { Parts: [{ PartNumber: 1, ETag: headers.etag }] };
    await client.send(
      new CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload }),
    );
    const head = await client.send(new HeadObjectCommand({ Bucket, Key }));
    expect(head.Metadata).toEqual({ kind: 'parts' });
  });

  it('copies what it names, if its signer may read that', async () => {
    const Key = newName('k');
    const copy = { Bucket, Key, CopySource: `${Bucket}/there` };
    const url = await sign(
      new CopyObjectCommand({ ...copy, MetadataDirective: 'REPLACE', Metadata: { a: 'b' } }),
    );
    const copied = await use(url, 'PUT', '');
    expect(copied.text).toContain('<CopyObjectResult');
    expect(await textOf(Key)).toBe('old');

    const member = as(target, await newPrincipal(target, { role: 'member' }));
    const theirs = newName('theirs');
    await clientOf(member).send(new CreateBucketCommand({ Bucket: theirs }));
    const stolen = await use(
      await sign(new CopyObjectCommand({ ...copy, Bucket: theirs }), clientOf(member)),
      'PUT',
      '',
    );
    expect([stolen.status, stolen.code]).toEqual([403, 'AccessDenied']);
  });

  it('sends a document with its checksum', async () => {
    const Tagging = { TagSet: [{ Key: 'a', Value: 'b' }] };
    const url = await sign(new PutObjectTaggingCommand({ Bucket, Key: 'there', Tagging }));
    const document =
      '<?xml version="1.0" encoding="UTF-8"?><Tagging ' +
      'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>';
    const wrong = await use(url, 'PUT', document.replace('>b<', '>c<'));
    expect([wrong.status, wrong.code]).toEqual([400, 'BadDigest']);
    expect((await use(url, 'PUT', document)).status).toBe(200);
  });
});

describe('a header in the query of a presigned URL', () => {
  it.each<[string, Query, number, string | undefined]>([
    ['If-None-Match: *', [['If-None-Match', '*']], 412, 'PreconditionFailed'],
    ['If-Match', [['if-match', '"another"']], 412, 'PreconditionFailed'],
    ['an owner', [['x-amz-expected-bucket-owner', 'default/x']], 403, 'AccessDenied'],
    ['a class', [['x-amz-storage-class', 'GLACIER']], 501, 'NotImplemented'],
    ['encryption', [['x-amz-server-side-encryption', 'AES1']], 400, 'InvalidArgument'],
    ['a list', [['x-amz-acl', 'public-read']], 400, 'AccessControlListNotSupported'],
    ['a tag that is none', [['x-amz-tagging', 'a=!']], 400, 'InvalidTag'],
    ['a copy of nothing', [['x-amz-copy-source', `${Bucket}/nothing`]], 404, 'NoSuchKey'],
    ['a checksum', [['X-Amz-Checksum-Crc32', 'AAAAAQ==']], 400, 'BadDigest'],
    ['Content-MD5', [['Content-MD5', '1B2M2Y8AsgTpgAmY7PhCfg==']], 400, 'BadDigest'],
    ['a lock', [['x-amz-object-lock-legal-hold', 'ON']], 400, 'InvalidRequest'],
    ['metadata without bounds', [['x-amz-meta-a', 'x'.repeat(3000)]], 400, 'MetadataTooLarge'],
    ['a header that S3 does not know', [['x-amz-unknown', '1']], 501, 'NotImplemented'],
    ['a parameter that S3 does not know', [['unknown', '1']], 501, 'NotImplemented'],
    ['a date that is not the signature’s', [['x-amz-date', '1']], 501, 'NotImplemented'],
    ['no name of a header', [['x-amz-meta-ü', '1']], 501, 'NotImplemented'],
    ['no value of a header', [['x-amz-meta-a', 'b\r\nc: d']], 400, 'InvalidArgument'],
    [
      'one that is given twice',
      [
        ['x-amz-meta-a', '1'],
        ['X-Amz-Meta-A', '2'],
      ],
      400,
      'InvalidArgument',
    ],
    [
      'a parameter that is given twice',
      [
        ['response-expires', '1'],
        ['response-expires', '2'],
      ],
      400,
      'InvalidArgument',
    ],
  ])('%s is no less than the header', async (_title, query, status, code) => {
    const answer = await use(presign('PUT', 'there', query), 'PUT', 'new');
    expect([answer.status, answer.code]).toEqual([status, code]);
    expect(await textOf('there')).toBe('old');
  });

  it('counts in any letters, and what is for logs alone does not', async () => {
    const Key = newName('k');
    const query = [
      ['X-AMZ-META-Kind', ' demo '],
      ['Content-Type', 'image/png'],
      ['x-anything', 'for the log'],
      ['x-id', 'PutObject'],
    ] as const;
    expect((await use(presign('PUT', Key, query), 'PUT', 'new')).status).toBe(200);
    const head = await client.send(new HeadObjectCommand({ Bucket, Key }));
    expect([head.Metadata, head.ContentType]).toEqual([{ kind: 'demo' }, 'image/png']);
  });

  it('may be anything that is no header, where only something is read', async () => {
    const read = await use(presign('GET', 'there', [['requestedBy', 'me']]), 'GET');
    expect([read.status, read.text]).toEqual([200, 'old']);
    const unknown = await use(presign('GET', 'there', [['x-amz-requested', 'me']]), 'GET');
    expect([unknown.status, unknown.code]).toEqual([501, 'NotImplemented']);
  });

  it('is refused where a header says another thing, and taken where it says the same', async () => {
    const Key = newName('k');
    const url = presign('PUT', Key, [['Content-Type', 'image/png']]);
    const other = await use(url, 'PUT', 'new', { 'content-type': 'text/html' });
    expect([other.status, other.code]).toEqual([400, 'InvalidArgument']);
    expect((await use(url, 'PUT', 'new', { 'content-type': 'image/png' })).status).toBe(200);
    const tagged = presign('PUT', Key, [['x-amz-tagging', 'a=b']]);
    const unsigned = await use(tagged, 'PUT', 'new', { 'x-amz-tagging': 'a=b' });
    expect([unsigned.status, unsigned.code]).toEqual([403, 'AccessDenied']);
  });

  it('counts where its name is signed as a header’s, too', async () => {
    const Key = newName('k');
    const query = [['x-amz-meta-a', 'b']] as const;
    const url = presign('PUT', Key, query, { headers: { 'x-amz-meta-a': 'b' } });
    expect(new URL(url).searchParams.get('X-Amz-SignedHeaders')).toBe('host;x-amz-meta-a');
    expect((await use(url, 'PUT', 'new')).status).toBe(200);
    const { Metadata } = await client.send(new HeadObjectCommand({ Bucket, Key }));
    expect(Metadata).toEqual({ a: 'b' });
  });

  it('locks a version that nothing else protects', async () => {
    const locked = newName('locked');
    await client.send(
      new CreateBucketCommand({ Bucket: locked, ObjectLockEnabledForBucket: true }),
    );
    const md5 = createHash('md5').update('new').digest('base64');
    const query = [
      ['x-amz-object-lock-legal-hold', 'ON'],
      ['content-md5', md5],
    ] as const;
    const url = presign('PUT', '', query, { path: `/${locked}/k` });
    expect((await use(url, 'PUT', 'new')).status).toBe(200);
    const held = await client.send(new HeadObjectCommand({ Bucket: locked, Key: 'k' }));
    expect(held.ObjectLockLegalHoldStatus).toBe('ON');
  });

  it('is what rules decide by', async () => {
    const put = async (query: Query): Promise<number> =>
      (await use(presign('PUT', newName('k'), query), 'PUT', 'new')).status;
    const forbid = (Condition: object): Promise<unknown> => {
      const Resource = `arn:aws:s3:::${Bucket}/*`;
      const rule = { Effect: 'Deny', Principal: '*', Action: 's3:PutObject', Resource, Condition };
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement: [rule] });
      return client.send(new PutBucketPolicyCommand({ Bucket, Policy }));
    };
    await forbid({ StringNotEquals: { 's3:RequestObjectTag/kind': 'demo' } });
    expect(await put([['x-amz-tagging', 'kind=demo']])).toBe(200);
    expect(await put([['x-amz-tagging', 'kind=other']])).toBe(403);
    expect(await put([])).toBe(403);
    await forbid({ StringNotEquals: { 's3:x-amz-acl': 'bucket-owner-full-control' } });
    expect(await put([['X-Amz-Acl', 'bucket-owner-full-control']])).toBe(200);
    expect(await put([])).toBe(403);
    await forbid({ StringEquals: { 's3:x-amz-content-sha256': 'UNSIGNED-PAYLOAD' } });
    expect(await put([])).toBe(403);
    expect(await put([['X-Amz-Content-Sha256', 'UNSIGNED-PAYLOAD']])).toBe(403);
    const hash = createHash('sha256').update('new').digest('hex');
    expect(await put([['X-Amz-Content-Sha256', hash]])).toBe(403);
    await client.send(new DeleteBucketPolicyCommand({ Bucket }));
  });
});

describe('a request that is not presigned', () => {
  it('is refused for a header in its query', async () => {
    const path = `/${Bucket}/there`;
    for (const query of [[['x-amz-acl', 'private']], [['If-None-Match', '*']]] as const) {
      const signed = await send(target, { method: 'PUT', path, query, body: 'new' });
      expect([signed.status, signed.code]).toEqual([400, 'InvalidArgument']);
    }
    const stranger = await exchange(target, 'GET', `${path}?x-amz-checksum-mode=ENABLED`);
    expect([stranger.status, stranger.code]).toEqual([400, 'InvalidArgument']);
    expect(await textOf('there')).toBe('old');
  });
});
