// Tags of objects, which can change while a version does not.
import {
  CopyObjectCommand,
  DeleteObjectTaggingCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  PutObjectTaggingCommand,
  type S3Client,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  as,
  clientOf,
  newBucket,
  newPrincipal,
  refusalOf,
  send,
  type Target,
  unblock,
} from '../target.ts';
import { newVersionedBucket, putMarker, putVersions } from './versioned.ts';

type TagMap = Record<string, string>;

export function describeObjectTagging(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newVersionedBucket(client);
  });
  const room = () => ({ target, client, Bucket });
  describeTags(room);
  describeRefusals(room);
  describeRules(room);
}

type Room = () => { target: Target; client: S3Client; Bucket: string };

function putTags(client: S3Client, Bucket: string, Key: string, tags: TagMap, VersionId?: string) {
  const TagSet = Object.entries(tags).map(([Key, Value]) => ({ Key, Value }));
  const asked = { Bucket, Key, VersionId, Tagging: { TagSet } };
  return client.send(new PutObjectTaggingCommand(asked));
}

async function tagsOf(client: S3Client, Bucket: string, Key: string, VersionId?: string) {
  const { TagSet = [] } = await client.send(
    new GetObjectTaggingCommand({ Bucket, Key, VersionId }),
  );
  return Object.fromEntries(TagSet.map(({ Key, Value }) => [Key, Value]));
}

function describeTags(room: Room): void {
  describe('the tags of an object', () => {
    it('are put, replaced and deleted while the object stays as it is', async () => {
      const { client } = room();
      const Bucket = await newBucket(client);
      const { ETag } = await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'x' }));
      const { LastModified } = await client.send(new GetObjectCommand({ Bucket, Key: 'k' }));
      await putTags(client, Bucket, 'k', { a: '1', b: 'zwei +=' });
      expect(await tagsOf(client, Bucket, 'k')).toEqual({ a: '1', b: 'zwei +=' });
      await putTags(client, Bucket, 'k', { c: '' });
      expect(await tagsOf(client, Bucket, 'k')).toEqual({ c: '' });
      const got = await client.send(new GetObjectCommand({ Bucket, Key: 'k' }));
      expect([got.ETag, got.LastModified, got.TagCount]).toEqual([ETag, LastModified, 1]);
      const asked = new DeleteObjectTaggingCommand({ Bucket, Key: 'k' });
      expect((await client.send(asked)).$metadata.httpStatusCode).toBe(204);
      expect(await tagsOf(client, Bucket, 'k')).toEqual({});
      await client.send(new DeleteObjectTaggingCommand({ Bucket, Key: 'k' }));
    });

    it('are those of one version, which answers name', async () => {
      const { client, Bucket } = room();
      const [first = '', second = ''] = await putVersions(client, Bucket, 'k', ['1', '2']);
      expect((await putTags(client, Bucket, 'k', { of: 'old' }, first)).VersionId).toBe(first);
      expect((await putTags(client, Bucket, 'k', { of: 'new' })).VersionId).toBe(second);
      expect(await tagsOf(client, Bucket, 'k', first)).toEqual({ of: 'old' });
      expect(await tagsOf(client, Bucket, 'k')).toEqual({ of: 'new' });
      const asked = { Bucket, Key: 'k', VersionId: first };
      expect((await client.send(new DeleteObjectTaggingCommand(asked))).VersionId).toBe(first);
      expect(await tagsOf(client, Bucket, 'k', first)).toEqual({});
      expect(await tagsOf(client, Bucket, 'k')).toEqual({ of: 'new' });
    });

    it('go along with a copy as they are then', async () => {
      const { client, Bucket } = room();
      await client.send(new PutObjectCommand({ Bucket, Key: 'from', Body: 'x', Tagging: 'a=1' }));
      await putTags(client, Bucket, 'from', { a: '2' });
      const CopySource = `${Bucket}/from`;
      await client.send(new CopyObjectCommand({ Bucket, Key: 'to', CopySource }));
      await putTags(client, Bucket, 'from', { a: '3' });
      expect(await tagsOf(client, Bucket, 'to')).toEqual({ a: '2' });
    });
  });
}

function describeRefusals(room: Room): void {
  const documentOf = (...tags: string[]) =>
    `<Tagging><TagSet>${tags.map((one) => `<Tag>${one}</Tag>`).join('')}</TagSet></Tagging>`;
  const tag = (key: string, value = '') => `<Key>${key}</Key><Value>${value}</Value>`;
  const eleven = Array.from({ length: 11 }, (_, i) => tag(`t${i}`));

  it('without a set are none', async () => {
    const { target, client, Bucket } = room();
    await client.send(new PutObjectCommand({ Bucket, Key: 'setless', Body: 'x', Tagging: 'a=1' }));
    const query = [['tagging', '']] as const;
    const sent = { method: 'PUT', path: `/${Bucket}/setless`, query, body: '<Tagging/>' };
    expect((await send(target, sent)).status).toBe(200);
    expect(await tagsOf(client, Bucket, 'setless')).toEqual({});
  });

  describe('tags that cannot be', () => {
    it.each([
      ['11 of them', documentOf(...eleven), 'BadRequest'],
      ['one twice', documentOf(tag('a', '1'), tag('a', '2')), 'InvalidTag'],
      ['a key that is too long', documentOf(tag('k'.repeat(129))), 'InvalidTag'],
      ['a value that is too long', documentOf(tag('k', 'v'.repeat(257))), 'InvalidTag'],
      ['a key without a letter', documentOf(tag('')), 'InvalidTag'],
      ["a key of AWS's own", documentOf(tag('aws:x')), 'InvalidTag'],
      ['a character that none has', documentOf(tag('a;b')), 'InvalidTag'],
      ['a tag without a value', documentOf('<Key>a</Key>'), 'MalformedXML'],
      ['another element', '<Tagging><TagSet><Other/></TagSet></Tagging>', 'MalformedXML'],
      ['half a document', '<Tagging><TagSet>', 'MalformedXML'],
      ['nothing', '', 'MissingRequestBodyError'],
    ])('%s are refused, and those before stay', async (_title, body, code) => {
      const { target, client, Bucket } = room();
      await client.send(new PutObjectCommand({ Bucket, Key: 'kept', Body: 'x', Tagging: 'a=1' }));
      const query = [['tagging', '']] as const;
      const answer = await send(target, { method: 'PUT', path: `/${Bucket}/kept`, query, body });
      expect([answer.status, answer.code]).toEqual([400, code]);
      expect(await tagsOf(client, Bucket, 'kept')).toEqual({ a: '1' });
    });

    it('of what is not there, or is deleted, are refused', async () => {
      const { client, Bucket } = room();
      await putVersions(client, Bucket, 'gone', ['x']);
      const marker = await putMarker(client, Bucket, 'gone');
      const attempts = (Key: string, VersionId?: string) => [
        () => putTags(client, Bucket, Key, { a: '1' }, VersionId),
        () => tagsOf(client, Bucket, Key, VersionId),
        () => client.send(new DeleteObjectTaggingCommand({ Bucket, Key, VersionId })),
      ];
      for (const [key, id, code, status] of [
        ['none', undefined, 'NoSuchKey', 404],
        ['gone', undefined, 'MethodNotAllowed', 405],
        ['gone', 'f'.repeat(32), 'NoSuchVersion', 404],
        ['gone', marker, 'MethodNotAllowed', 405],
      ] as const) {
        for (const attempt of attempts(key, id)) {
          expect(await refusalOf(attempt())).toEqual({ code, status });
        }
      }
    });
  });
}

function describeRules(room: Room): void {
  it('a policy decides by the tags that are brought, those there, and the version', async () => {
    const { target, client } = room();
    const Bucket = await newVersionedBucket(client);
    await unblock(client, Bucket);
    const [open = '', shut = ''] = await putVersions(client, Bucket, 'k', ['open', 'shut']);
    await putTags(client, Bucket, 'k', { read: 'all' }, open);
    const rule = (Action: string | string[], Condition: object) => {
      const Resource = `arn:aws:s3:::${Bucket}/*`;
      return { Effect: 'Allow', Principal: '*', Action, Resource, Condition };
    };
    const Statement = [
      rule('s3:GetObjectVersion', { StringEquals: { 's3:ExistingObjectTag/read': 'all' } }),
      rule('s3:PutObjectVersionTagging', { StringEquals: { 's3:RequestObjectTag/read': 'all' } }),
      rule('s3:GetObjectVersionTagging', { StringEquals: { 's3:VersionId': shut } }),
    ];
    const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
    await client.send(new PutBucketPolicyCommand({ Bucket, Policy }));
    const other = clientOf(as(target, await newPrincipal(target)));
    const denied = { code: 'AccessDenied', status: 403 };
    const get = (VersionId?: string) =>
      other.send(new GetObjectCommand({ Bucket, Key: 'k', VersionId }));
    await get(open);
    expect(await refusalOf(get(shut))).toEqual(denied);
    expect(await refusalOf(get())).toEqual(denied);
    expect(await tagsOf(other, Bucket, 'k', shut)).toEqual({});
    expect(await refusalOf(tagsOf(other, Bucket, 'k', open))).toEqual(denied);
    expect(await refusalOf(putTags(other, Bucket, 'k', { read: 'some' }, shut))).toEqual(denied);
    expect(await refusalOf(putTags(other, Bucket, 'k', { read: 'all' }))).toEqual(denied);
    await putTags(other, Bucket, 'k', { read: 'all' }, shut);
    await get(shut);
  });
}
