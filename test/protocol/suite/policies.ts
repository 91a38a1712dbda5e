// Bucket policies and the tags of objects, as S3 has them.
import {
  CopyObjectCommand,
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteBucketPolicyCommand,
  DeleteObjectCommand,
  GetBucketPolicyCommand,
  GetBucketPolicyStatusCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadObjectCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  as,
  clientOf,
  newOpenBucket,
  newPrincipal,
  refusalOf,
  send,
  type Target,
} from '../target.ts';
import { begin, complete, putPart } from './multipart.ts';
import { readObject } from './objects.ts';

const noPolicy = { code: 'NoSuchBucketPolicy', status: 404 };

export function describePolicies(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newOpenBucket(client);
  });
  const policyOf = (...statements: object[]): string =>
    JSON.stringify({ Version: '2012-10-17', Statement: statements }, null, 3);
  const put = (Policy: string) => client.send(new PutBucketPolicyCommand({ Bucket, Policy }));
  const get = () => client.send(new GetBucketPolicyCommand({ Bucket }));
  const statusOf = async () =>
    (await client.send(new GetBucketPolicyStatusCommand({ Bucket }))).PolicyStatus?.IsPublic;

  describe('a bucket policy', () => {
    const allow = (more: object = {}) => ({
      Effect: 'Allow',
      Principal: '*',
      Action: 's3:GetObject',
      Resource: `arn:aws:s3:::${Bucket}/*`,
      ...more,
    });

    it('comes back as it was sent, is replaced, and is gone once deleted', async () => {
      expect(await refusalOf(get())).toEqual(noPolicy);
      expect(await refusalOf(statusOf())).toEqual(noPolicy);
      const first = policyOf(allow());
      const { $metadata } = await put(first);
      expect($metadata.httpStatusCode).toBe(204);
      expect((await get()).Policy).toBe(first);
      expect(await statusOf()).toBe(true);
      const Condition = { IpAddress: { 'aws:SourceIp': '192.0.2.0/24' } };
      const second = policyOf(allow({ Sid: 'näher', Condition }));
      await put(second);
      expect((await get()).Policy).toBe(second);
      expect(await statusOf()).toBe(false);
      for (let times = 0; times < 2; times++) {
        const deleted = await client.send(new DeleteBucketPolicyCommand({ Bucket }));
        expect(deleted.$metadata.httpStatusCode).toBe(204);
      }
      expect(await refusalOf(get())).toEqual(noPolicy);
    });

    it('that is not understood in full is refused, and the one before it stays', async () => {
      const kept = policyOf(allow());
      await put(kept);
      const faults = [
        'no policy',
        policyOf(allow({ Action: 's3:NoSuchAction' })),
        policyOf(allow({ Resource: 'arn:aws:s3:::another-bucket/*' })),
        policyOf(allow({ Condition: { StringEquals: { 's3:NoSuchKey': 'x' } } })),
        policyOf(allow({ Sid: 'x'.repeat(21_000) })),
      ];
      for (const fault of faults) {
        expect(await refusalOf(put(fault))).toEqual({ code: 'MalformedPolicy', status: 400 });
      }
      expect((await get()).Policy).toBe(kept);
      const empty = { method: 'PUT', path: `/${Bucket}`, query: [['policy', '']] as const };
      expect((await send(target, empty)).code).toBe('MalformedPolicy');
    });
  });

  describe('a copy into the bucket of another', () => {
    const anybody = (Action: string, bucket: string, key: string) => ({
      Effect: 'Allow',
      Principal: '*',
      Action,
      Resource: `arn:aws:s3:::${bucket}/${key}`,
    });

    it('can be read by who made it, as long as its source can', async () => {
      const [person, other] = await Promise.all(
        [1, 2].map(async () => clientOf(as(target, await newPrincipal(target)))),
      );
      const From = await newOpenBucket(client);
      const open = policyOf(anybody('s3:GetObject', From, 'open/*'));
      await client.send(new PutBucketPolicyCommand({ Bucket: From, Policy: open }));
      const source = { Bucket: From, Key: 'open/a' };
      await client.send(new PutObjectCommand({ ...source, Body: 'readable' }));
      await put(policyOf(anybody('s3:PutObject', Bucket, '*')));
      const copied = { Bucket, Key: 'copied' };
      const copy = () =>
        person!.send(new CopyObjectCommand({ ...copied, CopySource: `${From}/open/a` }));
      const read = (who: S3Client, Key = 'copied') => readObject(who, Bucket, Key);
      const denied = { code: 'AccessDenied', status: 403 };

      await copy();
      expect((await read(person!)).toString()).toBe('readable');
      expect(await refusalOf(read(other!))).toEqual(denied);
      await person!.send(new PutObjectCommand({ Bucket, Key: 'written', Body: 'x' }));
      expect(await refusalOf(read(person!, 'written'))).toEqual(denied);

      await client.send(new PutObjectCommand({ ...copied, Body: 'secret' }));
      expect(await refusalOf(read(person!))).toEqual(denied);

      await copy();
      const deny = { ...anybody('s3:GetObject', Bucket, 'copied'), Effect: 'Deny' };
      await put(policyOf(anybody('s3:PutObject', Bucket, '*'), deny));
      expect(await refusalOf(read(person!))).toEqual(denied);

      await put(policyOf(anybody('s3:PutObject', Bucket, '*')));
      expect((await read(person!)).toString()).toBe('readable');
      await client.send(new DeleteBucketPolicyCommand({ Bucket: From }));
      expect(await refusalOf(read(person!))).toEqual(denied);

      await client.send(new DeleteObjectCommand(source));
      await client.send(new DeleteBucketCommand({ Bucket: From }));
      await person!.send(new CreateBucketCommand({ Bucket: From }));
      await person!.send(new PutObjectCommand({ ...source, Body: 'of another bucket' }));
      expect(await refusalOf(read(person!))).toEqual(denied);
    });
  });

  describe('tags', () => {
    const at = (Key: string) => ({ Bucket, Key });
    const tagsOf = async (Key: string) =>
      (await client.send(new GetObjectTaggingCommand(at(Key)))).TagSet;
    const Tagging = 'Hello=World&7=x%20y&1=a%2Bb+c&empty';
    const tags = [
      { Key: '1', Value: 'a+b c' },
      { Key: '7', Value: 'x y' },
      { Key: 'Hello', Value: 'World' },
      { Key: 'empty', Value: '' },
    ];

    it('come with an object, are listed by their keys, and are counted', async () => {
      await client.send(new PutObjectCommand({ ...at('tagged'), Body: 'x', Tagging }));
      expect(await tagsOf('tagged')).toEqual(tags);
      expect((await client.send(new GetObjectCommand(at('tagged')))).TagCount).toBe(4);
      expect((await client.send(new HeadObjectCommand(at('tagged')))).TagCount).toBe(4);
      await client.send(new PutObjectCommand({ ...at('tagged'), Body: 'y' }));
      expect(await tagsOf('tagged')).toEqual([]);
      expect((await client.send(new HeadObjectCommand(at('tagged')))).TagCount).toBeUndefined();
    });

    it('go along with a copy, unless it brings its own', async () => {
      await client.send(new PutObjectCommand({ ...at('from'), Body: 'x', Tagging }));
      const copy = { CopySource: `${Bucket}/from` };
      await client.send(new CopyObjectCommand({ ...at('to'), ...copy }));
      expect(await tagsOf('to')).toEqual(tags);
      const TaggingDirective = 'REPLACE';
      const own = { ...copy, TaggingDirective, Tagging: 'own=1' } as const;
      await client.send(new CopyObjectCommand({ ...at('to'), ...own }));
      expect(await tagsOf('to')).toEqual([{ Key: 'own', Value: '1' }]);
      // The new tags are what is changed, so a copy onto itself is no mistake.
      await client.send(new CopyObjectCommand({ ...at('from'), ...copy, TaggingDirective }));
      expect(await tagsOf('from')).toEqual([]);
      expect((await readObject(client, Bucket, 'from')).toString()).toBe('x');
    });

    it('of a multipart upload are those it was begun with', async () => {
      const upload = await begin(client, Bucket, { Key: 'parts', Tagging });
      const part = await putPart(client, upload, 1, 'part');
      await complete(client, upload, [part]);
      expect(await tagsOf('parts')).toEqual(tags);
    });

    const many = (count: number) => Array.from({ length: count }, (_, i) => `t${i}=`).join('&');
    it.each([
      ['ten of the longest', `${many(9)}&${'k'.repeat(128)}=${'v'.repeat(256)}`, undefined],
      ['nothing between its separators', '&a=1&&', undefined],
      ['eleven', many(11), 'BadRequest'],
      ['a name twice', 'a=1&a=2', 'InvalidArgument'],
      ['no name', '=1', 'InvalidTag'],
      ['a name of 129 characters', `${'k'.repeat(129)}=`, 'InvalidTag'],
      ['a value of 257 characters', `k=${'v'.repeat(257)}`, 'InvalidTag'],
      ['a character that tags cannot have', 'k=%3C', 'InvalidTag'],
      ["a name of AWS's own", 'aws:x=1', 'InvalidTag'],
      ['what is no encoding', 'k=%ff', 'InvalidArgument'],
    ])('%s: %s gives %s', async (_title, text, code) => {
      const headers = { 'x-amz-tagging': text };
      const asked = { method: 'PUT', path: `/${Bucket}/limits`, headers, body: 'x' };
      expect((await send(target, asked)).code).toBe(code);
    });
  });
}
