// Server-side encryption as S3 has it: what is asked for, what is answered, and that policies know.
import { createHash, randomBytes } from 'node:crypto';
import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteBucketEncryptionCommand,
  GetBucketEncryptionCommand,
  GetObjectCommand,
  HeadObjectCommand,
  PutBucketEncryptionCommand,
  PutObjectCommand,
  type S3Client,
  type ServerSideEncryptionRule,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { formBody, postForm, signPolicy } from '../forms.ts';
import { clientOf, newBucket, newName, refusalOf, send, type Target } from '../target.ts';

const header = 'x-amz-server-side-encryption';
const large = 6 * 1024 * 1024;

export function describeEncryption(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
  });

  const encryptionOf = async (Key: string) =>
    (await client.send(new HeadObjectCommand({ Bucket, Key }))).ServerSideEncryption;
  const setDocument = (inner: string) =>
    send(target, {
      ...{ method: 'PUT', path: `/${Bucket}`, query: [['encryption', '']] },
      body: `<ServerSideEncryptionConfiguration>${inner}</ServerSideEncryptionConfiguration>`,
    });
  const byDefault = (inner: string) =>
    `<ApplyServerSideEncryptionByDefault>${inner}</ApplyServerSideEncryptionByDefault>`;

  describe('an object', () => {
    it.each([
      ['small', 100],
      ['large', large],
      ['empty', 0],
    ])('that is %s is encrypted, whether that is asked for or not', async (Key, size) => {
      const Body = Buffer.alloc(size, 'plain text ');
      for (const asked of [{}, { ServerSideEncryption: 'AES256' } as const]) {
        const put = await client.send(new PutObjectCommand({ Bucket, Key, Body, ...asked }));
        expect(put.ServerSideEncryption).toBe('AES256');
      }
      const got = await client.send(new GetObjectCommand({ Bucket, Key }));
      expect(got.ServerSideEncryption).toBe('AES256');
      expect(Buffer.from((await got.Body?.transformToByteArray()) ?? []).equals(Body)).toBe(true);
      expect(await encryptionOf(Key)).toBe('AES256');
    });

    it('is read by any range of it', async () => {
      const Key = newName('ranges');
      const Body = Buffer.from(
        Uint8Array.from({ length: large }, (_, i) => (i * 7 + i / 256) % 251),
      );
      await client.send(new PutObjectCommand({ Bucket, Key, Body }));
      for (const [from, to] of [
        [0, 0],
        [15, 17],
        [262_143, 262_144],
        [1_000_001, 3_000_000],
        [large - 1, large - 1],
      ] as const) {
        const Range = `bytes=${from}-${to}`;
        const { Body: part } = await client.send(new GetObjectCommand({ Bucket, Key, Range }));
        const bytes = Buffer.from((await part?.transformToByteArray()) ?? []);
        expect(bytes.equals(Body.subarray(from, to + 1)), Range).toBe(true);
      }
    });

    it('of parts says so from the start, and so does each part', async () => {
      const Key = newName('parts');
      const source = newName('source');
      const Body = Buffer.alloc(large, 1);
      await client.send(new PutObjectCommand({ Bucket, Key: source, Body }));
      const begun = await client.send(new CreateMultipartUploadCommand({ Bucket, Key }));
      const { UploadId } = begun;
      const one = { Bucket, Key, UploadId, PartNumber: 1 };
      const sent = await client.send(new UploadPartCommand({ ...one, Body }));
      const CopySource = `${Bucket}/${source}`;
      const two = { Bucket, Key, UploadId, PartNumber: 2, CopySource };
      const copied = await client.send(new UploadPartCopyCommand(two));
      const Parts = [sent.ETag, copied.CopyPartResult?.ETag].map((ETag, i) => {
        return { ETag, PartNumber: i + 1 };
      });
      const completing = { Bucket, Key, UploadId, MultipartUpload: { Parts } };
      const done = await client.send(new CompleteMultipartUploadCommand(completing));
      // The same again is answered the same.
      const again = await client.send(new CompleteMultipartUploadCommand(completing));
      for (const one of [begun, sent, copied, done, again]) {
        expect(one.ServerSideEncryption).toBe('AES256');
      }
    });

    it('can be copied onto itself to be encrypted, and says what a copy is', async () => {
      const Key = newName('self');
      await client.send(new PutObjectCommand({ Bucket, Key, Body: 'again' }));
      const CopySource = `${Bucket}/${Key}`;
      const same = { Bucket, Key, CopySource };
      expect(await refusalOf(client.send(new CopyObjectCommand(same)))).toMatchObject({
        code: 'InvalidRequest',
      });
      const asked = { ...same, ServerSideEncryption: 'AES256' } as const;
      const copied = await client.send(new CopyObjectCommand(asked));
      expect(copied.ServerSideEncryption).toBe('AES256');
    });

    it.each([
      ['another method', { [header]: 'AES128' }, 400, 'InvalidArgument'],
      ['KMS, which protects no key here', { [header]: 'aws:kms' }, 501, 'NotImplemented'],
      ['two layers', { [header]: 'aws:kms:dsse' }, 501, 'NotImplemented'],
      ['a key without KMS', { [`${header}-aws-kms-key-id`]: 'k' }, 400, 'InvalidArgument'],
      [
        'a key with AES256',
        { [header]: 'AES256', [`${header}-aws-kms-key-id`]: 'k' },
        ...([400, 'InvalidArgument'] as const),
      ],
      ['a bucket key', { [`${header}-bucket-key-enabled`]: 'true' }, 400, 'InvalidArgument'],
      [
        "a customer's key that does not come",
        { [`${header}-customer-algorithm`]: 'AES256' },
        ...([400, 'InvalidArgument'] as const),
      ],
    ])('is refused with %s, and is not there', async (_, headers, status, code) => {
      const path = `/${Bucket}/${newName('refused')}`;
      const answer = await send(target, { method: 'PUT', path, headers, body: 'x' });
      expect([answer.status, answer.code]).toEqual([status, code]);
      expect((await send(target, { method: 'HEAD', path })).status).toBe(404);
    });

    it.each([
      ['AES256', [[header, 'AES256']], 204, undefined],
      ['another method', [[header, 'AES128']], 400, 'InvalidArgument'],
      ['KMS, which protects no key here', [[header, 'aws:kms']], 501, 'NotImplemented'],
      [
        "a customer's key that does not come",
        [[`${header}-customer-algorithm`, 'AES256']],
        ...([400, 'InvalidArgument'] as const),
      ],
      [
        'a key without KMS',
        [
          [header, 'AES256'],
          [`${header}-aws-kms-key-id`, 'k'],
        ],
        ...([400, 'InvalidArgument'] as const),
      ],
    ] as const)(
      'is asked for in the fields of a form, with %s',
      async (_, fields, status, code) => {
        const key = newName('form');
        const conditions = fields.map(([name, value]) => ({ [name]: value }));
        const signed = signPolicy(target.keys, [{ bucket: Bucket }, { key }, ...conditions]);
        const body = formBody([['key', key], ...fields, ...signed], { content: 'x' });
        const posted = await postForm(target, Bucket, body);
        expect([posted.status, posted.code]).toEqual([status, code]);
        const head = await send(target, { method: 'HEAD', path: `/${Bucket}/${key}` });
        const said = [head.status, head.headers[header]];
        expect(said).toEqual(status === 204 ? [200, 'AES256'] : [404, undefined]);
        if (status === 204) expect(posted.headers[header]).toBe('AES256');
        // Whoever adds such a field to a form that was signed without it changes nothing.
        const bare = signPolicy(target.keys, [{ bucket: Bucket }, { key: `${key}-bare` }]);
        const added = formBody([['key', `${key}-bare`], ...fields, ...bare], { content: 'x' });
        expect((await postForm(target, Bucket, added)).status).toBe(403);
      },
    );

    it('is not read with headers of encryption, and no part has them', async () => {
      const path = `/${Bucket}/small`;
      const asked = await send(target, { method: 'GET', path, headers: { [header]: 'AES256' } });
      expect([asked.status, asked.code]).toEqual([400, 'InvalidArgument']);
      const query = [
        ['partNumber', '1'],
        ['uploadId', 'x'],
      ] as const;
      const part = { method: 'PUT', path, query, headers: { [header]: 'AES256' }, body: 'x' };
      expect((await send(target, part)).code).toBe('InvalidArgument');
    });
  });

  describe("a bucket's encryption", () => {
    const get = async () => {
      const found = await client.send(new GetBucketEncryptionCommand({ Bucket }));
      return found.ServerSideEncryptionConfiguration?.Rules;
    };
    const aes = (BucketKeyEnabled: boolean): ServerSideEncryptionRule[] => [
      {
        ...{ ApplyServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' as const } },
        BucketKeyEnabled,
      },
    ];

    it('is AES256 where nothing is set, and else as it was set', async () => {
      expect(await get()).toEqual(aes(false));
      const ServerSideEncryptionConfiguration = { Rules: aes(true) };
      const set = { Bucket, ServerSideEncryptionConfiguration };
      await client.send(new PutBucketEncryptionCommand(set));
      expect(await get()).toEqual(aes(true));
      await client.send(new PutObjectCommand({ Bucket, Key: 'set', Body: 'x' }));
      expect(await encryptionOf('set')).toBe('AES256');
      // As on AWS, a copy onto itself is a change where the bucket's encryption is set.
      const itself = { Bucket, Key: 'set', CopySource: `${Bucket}/set` };
      await client.send(new CopyObjectCommand(itself));
      await client.send(new DeleteBucketEncryptionCommand({ Bucket }));
      expect(await get()).toEqual(aes(false));
      expect(await refusalOf(client.send(new CopyObjectCommand(itself)))).toMatchObject({
        code: 'InvalidRequest',
      });
    });

    it.each([
      ['nothing', '', 400, 'MalformedXML'],
      ['a rule of nothing', '<Rule/>', 400, 'MalformedXML'],
      [
        'another method',
        `<Rule>${byDefault('<SSEAlgorithm>AES</SSEAlgorithm>')}</Rule>`,
        ...([400, 'MalformedXML'] as const),
      ],
      [
        'two rules',
        `<Rule>${byDefault('<SSEAlgorithm>AES256</SSEAlgorithm>')}</Rule>`.repeat(2),
        ...([400, 'MalformedXML'] as const),
      ],
      [
        'a key with AES256',
        `<Rule>${byDefault(
          '<SSEAlgorithm>AES256</SSEAlgorithm><KMSMasterKeyID>k</KMSMasterKeyID>',
        )}</Rule>`,
        ...([400, 'InvalidArgument'] as const),
      ],
      [
        'KMS, which protects no key here',
        `<Rule>${byDefault('<SSEAlgorithm>aws:kms</SSEAlgorithm>')}</Rule>`,
        ...([501, 'NotImplemented'] as const),
      ],
    ])('is refused with %s', async (_, inner, status, code) => {
      const answer = await setDocument(inner);
      expect([answer.status, answer.code]).toEqual([status, code]);
      expect(await get()).toEqual(aes(false));
    });

    it('may say that it takes no keys of customers', async () => {
      const types = '<BlockedEncryptionTypes><EncryptionType>SSE-C</EncryptionType>';
      const rule = byDefault('<SSEAlgorithm>AES256</SSEAlgorithm>');
      const key = randomBytes(32);
      const customer = { SSECustomerAlgorithm: 'AES256', SSECustomerKey: key.toString('base64') };
      const md5 = createHash('md5').update(key).digest('base64');
      const of = { Bucket, Key: 'blocked', ...customer, SSECustomerKeyMD5: md5 };
      await client.send(new PutObjectCommand({ ...of, Body: 'before' }));
      const answer = await setDocument(`<Rule>${rule}${types}</BlockedEncryptionTypes></Rule>`);
      expect(answer.status).toBe(200);
      const [set] = (await get()) ?? [];
      expect(set?.BlockedEncryptionTypes?.EncryptionType).toEqual(['SSE-C']);
      const denied = { code: 'AccessDenied', status: 403 };
      const put = client.send(new PutObjectCommand({ ...of, Body: 'after' }));
      expect(await refusalOf(put)).toMatchObject(denied);
      const begun = client.send(new CreateMultipartUploadCommand(of));
      expect(await refusalOf(begun)).toMatchObject(denied);
      // What it has is read as before.
      const { Body } = await client.send(new GetObjectCommand(of));
      expect(await Body?.transformToString()).toBe('before');
    });
  });

  it('a policy can demand that writers ask for it', async () => {
    const guarded = await newBucket(client);
    const statement = {
      ...{ Effect: 'Deny', Principal: '*', Action: 's3:PutObject' },
      Resource: `arn:aws:s3:::${guarded}/*`,
      Condition: { StringNotEquals: { [`s3:${header}`]: 'AES256' } },
    };
    const policy = { Version: '2012-10-17', Statement: [statement] };
    const query = [['policy', '']] as const;
    const body = JSON.stringify(policy);
    expect(
      (await send(target, { method: 'PUT', path: `/${guarded}`, query, body })).status,
    ).toBeLessThan(300);
    const put = { Bucket: guarded, Key: 'k', Body: 'x' };
    expect(await refusalOf(client.send(new PutObjectCommand(put)))).toMatchObject({
      code: 'AccessDenied',
    });
    await client.send(new PutObjectCommand({ ...put, ServerSideEncryption: 'AES256' }));
  });
}
