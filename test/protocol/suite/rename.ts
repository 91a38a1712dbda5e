// RenameObject through the real client: what a rename keeps, what it demands of both keys, who may,
// and what becomes of what was there.
import {
  CopyObjectCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutBucketPolicyCommand,
  PutObjectCommand,
  type PutObjectCommandInput,
  PutObjectLegalHoldCommand,
  RenameObjectCommand,
  type RenameObjectCommandInput,
  type S3Client,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import { md5Of } from '../checksums.ts';
import {
  as,
  clientOf,
  findRecords,
  newBucket,
  newName,
  newPrincipal,
  patternOf,
  refusalOf,
  send,
  type Target,
} from '../target.ts';
import { begin, complete, partBytesMin, putPart } from './multipart.ts';
import { readObject } from './objects.ts';
import { newVersionedBucket, readVersion, setVersioning, shownVersions } from './versioned.ts';

type Room = () => { target: Target; client: S3Client; Bucket: string };

const noSuchKey = { code: 'NoSuchKey', status: 404 };
const denied = { code: 'AccessDenied', status: 403 };
const failed = { code: 'PreconditionFailed', status: 412 };

export function describeRename(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newBucket(client);
  });
  const room = () => ({ target, client, Bucket });
  describe('a rename', () => {
    describeWhatIsKept(room);
    describeDemands(room);
    describeTokens(room);
    describeRights(room);
    describeVersions(room);
    describeRecords(room);
  });
}

async function put(
  { client, Bucket }: { client: S3Client; Bucket: string },
  Key: string,
  Body: string | Buffer,
  more: Partial<PutObjectCommandInput> = {},
): Promise<void> {
  await client.send(new PutObjectCommand({ Bucket, Key, Body, ...more }));
}

function rename(
  { client, Bucket }: { client: S3Client; Bucket: string },
  source: string,
  Key: string,
  more: Partial<RenameObjectCommandInput> = {},
) {
  const RenameSource = source.split('/').map(encodeURIComponent).join('/');
  return client.send(new RenameObjectCommand({ Bucket, Key, RenameSource, ...more }));
}

function describeWhatIsKept(room: Room): void {
  it.each([0, 10, 300_000])('keeps %i bytes, and all that is said of them', async (sizeBytes) => {
    const { client, Bucket } = room();
    const body = patternOf(sizeBytes);
    const given = { ContentType: 'text/x-kept', Metadata: { a: 'b' }, Tagging: 'x=1&y=2' };
    const [from, to] = [`from/${sizeBytes}`, `to/é ${sizeBytes}`];
    await put(room(), from, body, { ...given, CacheControl: 'max-age=1' });
    const before = await client.send(new HeadObjectCommand({ Bucket, Key: from }));
    await rename(room(), from, to);
    expect(await refusalOf(readObject(client, Bucket, from))).toEqual(noSuchKey);
    expect((await readObject(client, Bucket, to)).equals(body)).toBe(true);
    const { $metadata: _, ...after } = await client.send(
      new HeadObjectCommand({ Bucket, Key: to }),
    );
    const { $metadata: _2, ...was } = before;
    expect(after).toEqual(was);
    const { TagSet } = await client.send(new GetObjectTaggingCommand({ Bucket, Key: to }));
    expect(TagSet?.map(({ Key, Value }) => `${Key}=${Value}`)).toEqual(['x=1', 'y=2']);
    const { Contents = [] } = await client.send(
      new ListObjectsV2Command({ Bucket, Prefix: 'to/' }),
    );
    expect(Contents.find(({ Key }) => Key === to)?.LastModified).toEqual(was.LastModified);
  });

  it('keeps the parts of an object', async () => {
    const { client, Bucket } = room();
    const upload = await begin(client, Bucket, { Key: 'parts' });
    const bodies = [patternOf(partBytesMin, 1), patternOf(1000, 2)];
    const parts = [];
    for (const [i, body] of bodies.entries()) {
      parts.push(await putPart(client, upload, i + 1, body));
    }
    await complete(client, upload, parts);
    const was = { Bucket, Key: 'parts', PartNumber: 2 };
    const before = await client.send(new HeadObjectCommand(was));
    await rename(room(), 'parts', 'renamed-parts');
    const now = { Bucket, Key: 'renamed-parts', PartNumber: 2 };
    const after = await client.send(new HeadObjectCommand(now));
    expect([after.ETag, after.PartsCount]).toEqual([before.ETag, 2]);
    const bytes = await readObject(client, Bucket, 'renamed-parts');
    expect(bytes.equals(Buffer.concat(bodies))).toBe(true);
  });

  it('keeps more than a gigabyte in very many extents', async () => {
    const { client, Bucket } = room();
    const body = patternOf(partBytesMin);
    await put(room(), 'one', body);
    const upload = await begin(client, Bucket, { Key: 'many' });
    const CopySource = `${Bucket}/one`;
    const parts = await Promise.all(
      Array.from({ length: 230 }, async (_, i) => {
        const PartNumber = i + 1;
        const asked = { ...upload, PartNumber, CopySource };
        const { CopyPartResult } = await client.send(new UploadPartCopyCommand(asked));
        return { PartNumber, ETag: CopyPartResult?.ETag };
      }),
    );
    const { ETag } = await complete(client, upload, parts);
    await rename(room(), 'many', 'many-2');
    await client.send(
      new CopyObjectCommand({ Bucket, Key: 'copy', CopySource: `${Bucket}/many-2` }),
    );
    await client.send(new DeleteObjectCommand({ Bucket, Key: 'many-2' }));
    const Range = `bytes=${200 * partBytesMin - 5}-${200 * partBytesMin + 4}`;
    const read = await client.send(new GetObjectCommand({ Bucket, Key: 'copy', Range }));
    const bytes = Buffer.from((await read.Body?.transformToByteArray()) ?? []);
    expect(bytes.equals(Buffer.concat([body.subarray(-5), body.subarray(0, 5)]))).toBe(true);
    expect(read.ContentRange).toBe(`${Range.replace('=', ' ')}/${230 * partBytesMin}`);
    expect(ETag).toMatch(/-230"$/);
    for (const Key of ['copy', 'one']) {
      await client.send(new DeleteObjectCommand({ Bucket, Key }));
    }
    // Two hundred and more requests.
  }, 120_000);

  it('replaces what is there, and lets go of that alone', async () => {
    const { client, Bucket } = room();
    const [large, other] = [patternOf(200_000, 3), patternOf(200_000, 4)];
    await put(room(), 'r1', large);
    await put(room(), 'r2', other);
    await client.send(new CopyObjectCommand({ Bucket, Key: 'r3', CopySource: `${Bucket}/r1` }));
    await rename(room(), 'r1', 'r2');
    await client.send(new DeleteObjectCommand({ Bucket, Key: 'r3' }));
    expect((await readObject(client, Bucket, 'r2')).equals(large)).toBe(true);
    await rename(room(), 'r2', 'r1');
    await rename(room(), 'r1', 'r4');
    expect((await readObject(client, Bucket, 'r4')).equals(large)).toBe(true);
  });

  it('is of the key alone, or of /BUCKET/KEY of the same bucket', async () => {
    const { client, Bucket } = room();
    await put(room(), 'a/b c', 'x');
    await rename(room(), `/${Bucket}/a/b c`, 'a/d');
    await rename(room(), 'a/d', '/a/e');
    await rename(room(), '/a/e', 'a/f');
    expect((await readObject(client, Bucket, 'a/f')).toString()).toBe('x');
    expect(await refusalOf(rename(room(), '/elsewhere/a/f', 'a/g'))).toEqual(noSuchKey);
  });

  it.each([
    ['onto itself', 'same', 'InvalidRequest'],
    ['of nothing', '', 'InvalidArgument'],
    ['of half a percent sign', '%E9%', 'InvalidArgument'],
    ['of a key that is too long', 'k'.repeat(1025), 'KeyTooLongError'],
  ])('%s is refused', async (_title, RenameSource, code) => {
    const { client, Bucket } = room();
    await put(room(), 'same', 'x');
    const asked = new RenameObjectCommand({ Bucket, Key: 'same', RenameSource });
    expect(await refusalOf(client.send(asked))).toEqual({ code, status: 400 });
  });

  it('without its source is refused', async () => {
    const { target, Bucket } = room();
    const message = { method: 'PUT', path: `/${Bucket}/k` } as const;
    const answer = await send(target, { ...message, query: [['renameObject', '']] });
    expect([answer.status, answer.code]).toEqual([400, 'InvalidArgument']);
  });
}

function describeDemands(room: Room): void {
  const body = 'demanded';
  const etag = `"${md5Of(Buffer.from(body))}"`;
  const [past, future] = [new Date('2000-01-01T00:00:00Z'), new Date('2099-01-01T00:00:00Z')];
  const now = () => new Date(Math.ceil(Date.now() / 1000) * 1000 - 1000);

  it.each<[string, Partial<RenameObjectCommandInput>, boolean]>([
    ['its source has the ETag', { SourceIfMatch: etag }, true],
    ['its source has another ETag', { SourceIfMatch: '"x"' }, false],
    ['its source has not the ETag', { SourceIfNoneMatch: '"x"' }, true],
    ['its source is not that', { SourceIfNoneMatch: etag }, false],
    ['there is no source', { SourceIfNoneMatch: '*' }, false],
    ['its source is younger', { SourceIfModifiedSince: past }, true],
    ['its source is older', { SourceIfUnmodifiedSince: future }, true],
    ['its source is too young', { SourceIfUnmodifiedSince: past }, false],
    ['nothing is there', { DestinationIfNoneMatch: '*' }, false],
    ['what is there has the ETag', { DestinationIfMatch: etag }, true],
    ['what is there has another ETag', { DestinationIfMatch: '"x"' }, false],
    ['what is there is not that', { DestinationIfNoneMatch: etag }, false],
    ['what is there is younger', { DestinationIfModifiedSince: past }, true],
    ['what is there is older', { DestinationIfUnmodifiedSince: future }, true],
    ['what is there is too young', { DestinationIfUnmodifiedSince: past }, false],
    [
      'the ETag is right, whatever its time',
      { SourceIfMatch: etag, SourceIfUnmodifiedSince: past },
      true,
    ],
  ])('is done only if %s', async (_title, demands, isDone) => {
    const { client, Bucket } = room();
    for (const key of ['d1', 'd2']) await put(room(), key, body, { Metadata: { key } });
    const renaming = rename(room(), 'd1', 'd2', demands);
    if (isDone) await renaming;
    else expect(await refusalOf(renaming)).toEqual(failed);
    const there = await client.send(new HeadObjectCommand({ Bucket, Key: 'd2' }));
    expect(there.Metadata).toEqual({ key: isDone ? 'd1' : 'd2' });
    const left = client.send(new HeadObjectCommand({ Bucket, Key: 'd1' }));
    expect(await left.then(() => false).catch(() => true)).toBe(isDone);
  });

  it.each<[string, Partial<RenameObjectCommandInput>, object | null]>([
    ['nothing is there', { DestinationIfNoneMatch: '*' }, null],
    ['what is there has the ETag', { DestinationIfMatch: etag }, noSuchKey],
    ['what is there was changed', { DestinationIfModifiedSince: past }, failed],
    ['nothing was changed', { DestinationIfUnmodifiedSince: past }, null],
  ])('to a new key is done if %s', async (_title, demands, refusal) => {
    await put(room(), 'n1', body);
    const renaming = rename(room(), 'n1', newName('n'), demands);
    if (refusal) expect(await refusalOf(renaming)).toEqual(refusal);
    else await renaming;
  });

  it('is refused for what was not changed since', async () => {
    await put(room(), 'm1', body);
    await put(room(), 'm2', body);
    const later = new Date(Date.now() + 1000);
    await expect.poll(() => now() >= later, { timeout: 5000 }).toBe(true);
    const since = now();
    const bySource = rename(room(), 'm1', 'm2', { SourceIfModifiedSince: since });
    expect(await refusalOf(bySource)).toEqual(failed);
    const byTarget = rename(room(), 'm1', 'm2', { DestinationIfModifiedSince: since });
    expect(await refusalOf(byTarget)).toEqual(failed);
  });

  it('is done once, where many ask for it at once', async () => {
    const { client, Bucket } = room();
    await put(room(), 'race', body);
    const tries = Array.from({ length: 8 }, (_, i) =>
      rename(room(), 'race', `race-${i}`).then(
        () => i,
        (error: Error) => error.name,
      ),
    );
    const outcomes = await Promise.all(tries);
    const done = outcomes.filter((one) => typeof one === 'number');
    expect([done.length, new Set(outcomes.filter((one) => typeof one === 'string'))]).toEqual([
      1,
      new Set(['NoSuchKey']),
    ]);
    const { Contents = [] } = await client.send(
      new ListObjectsV2Command({ Bucket, Prefix: 'race' }),
    );
    expect(Contents.map(({ Key }) => Key)).toEqual([`race-${done[0]}`]);
  });
}

function describeTokens(room: Room): void {
  it('that is asked for again with its token does nothing once more', async () => {
    const { client, Bucket } = room();
    await put(room(), 't1', 'first');
    const once = { ClientToken: newName('token') };
    await rename(room(), 't1', 't2', once);
    await put(room(), 't1', 'second');
    await rename(room(), 't1', 't2', once);
    expect((await readObject(client, Bucket, 't1')).toString()).toBe('second');
    expect((await readObject(client, Bucket, 't2')).toString()).toBe('first');
    const mismatch = { code: 'IdempotencyParameterMismatch', status: 400 };
    expect(await refusalOf(rename(room(), 't1', 't3', once))).toEqual(mismatch);
    const demanding = { ...once, DestinationIfNoneMatch: '*' };
    expect(await refusalOf(rename(room(), 't1', 't2', demanding))).toEqual(mismatch);
    await rename(room(), 't1', 't2', { ClientToken: newName('token') });
    expect((await readObject(client, Bucket, 't2')).toString()).toBe('second');
  });

  it('has a token that is its requester’s own', async () => {
    const { target, Bucket } = room();
    const bob = clientOf(as(target, await newPrincipal(target, { role: 'admin' })));
    const once = { ClientToken: newName('token') };
    await put(room(), 'o1', 'x');
    await rename(room(), 'o1', 'o2', once);
    await rename({ client: bob, Bucket }, 'o2', 'o3', once);
  });

  it('has a token of at most 64 characters', async () => {
    await put(room(), 'l1', 'x');
    const given = { ClientToken: 'x'.repeat(65) };
    const refusal = { code: 'InvalidArgument', status: 400 };
    expect(await refusalOf(rename(room(), 'l1', 'l2', given))).toEqual(refusal);
  });

  it('sent many times at once with one token is done once', async () => {
    const { target, client, Bucket } = room();
    await put(room(), 'w1', 'x');
    const once = { ClientToken: newName('token') };
    await Promise.all(Array.from({ length: 6 }, () => rename(room(), 'w1', 'w2', once)));
    expect((await readObject(client, Bucket, 'w2')).toString()).toBe('x');
    const records = await findRecords(target, [
      ['bucket', Bucket],
      ['action', 's3:RenameObject'],
      ['prefix', 'w'],
    ]);
    expect(records.filter(({ version }) => version !== undefined)).toHaveLength(1);
  });
}

function describeRights(room: Room): void {
  const statement = (Bucket: string, name: string, actions: string[], prefix: string) => ({
    Effect: 'Allow',
    Principal: { AWS: [`arn:aws:iam::default:user/${name}`] },
    Action: actions.map((action) => `s3:${action}`),
    Resource: [`arn:aws:s3:::${Bucket}/${prefix}*`],
  });

  it.each<[string, Record<string, string[]>, boolean]>([
    [
      'reads and deletes one, and writes the other',
      { 'in/': ['GetObject', 'DeleteObject'], 'out/': ['PutObject'] },
      true,
    ],
    ['may not read the one', { 'in/': ['DeleteObject'], 'out/': ['PutObject'] }, false],
    ['may not delete the one', { 'in/': ['GetObject'], 'out/': ['PutObject'] }, false],
    ['may not write the other', { 'in/': ['GetObject', 'DeleteObject', 'PutObject'] }, false],
  ])('by who %s', async (_title, allowed, isAllowed) => {
    const { target, client } = room();
    const Bucket = await newBucket(client);
    const name = newName('who');
    const keys = await newPrincipal(target, { name });
    await put({ client, Bucket }, 'in/k', 'x');
    const Statement = Object.entries(allowed).map(([prefix, actions]) =>
      statement(Bucket, name, actions, prefix),
    );
    const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
    await client.send(new PutBucketPolicyCommand({ Bucket, Policy }));
    const who = { client: clientOf(as(target, keys)), Bucket };
    const renaming = rename(who, 'in/k', 'out/k');
    if (isAllowed) await renaming;
    else expect(await refusalOf(renaming)).toEqual(denied);
    if (isAllowed) expect(await refusalOf(rename(who, 'in/k', 'out/k'))).toEqual(denied);
  });

  it('of an object with tags needs the rights to read and to write these', async () => {
    const { target, client } = room();
    const Bucket = await newBucket(client);
    const name = newName('who');
    const keys = await newPrincipal(target, { name });
    await put({ client, Bucket }, 'k', 'x', { Tagging: 'a=1' });
    const actions = ['GetObject', 'DeleteObject', 'PutObject'];
    const allow = async (more: string[]) => {
      const Statement = [statement(Bucket, name, [...actions, ...more], '')];
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
      await client.send(new PutBucketPolicyCommand({ Bucket, Policy }));
    };
    const who = { client: clientOf(as(target, keys)), Bucket };
    await allow(['GetObjectTagging']);
    expect(await refusalOf(rename(who, 'k', 'l'))).toEqual(denied);
    await allow(['GetObjectTagging', 'PutObjectTagging']);
    await rename(who, 'k', 'l');
  });
}

function describeVersions(room: Room): void {
  it('leaves a version under a marker where the bucket keeps versions', async () => {
    const { client } = room();
    const Bucket = await newVersionedBucket(client);
    await put({ client, Bucket }, 'a', 'old');
    await put({ client, Bucket }, 'a', 'new', { Tagging: 't=1' });
    await put({ client, Bucket }, 'b', 'replaced');
    await rename({ client, Bucket }, 'a', 'b');
    const shown = await shownVersions(client, Bucket);
    const forms = shown.map((one) => one.replace(/@[0-9a-f]{32}/, ''));
    expect(forms.sort()).toEqual(['a', 'a', 'a!*', 'b', 'b*']);
    expect(await readVersion(client, Bucket, 'b')).toBe('new');
    expect(await refusalOf(readVersion(client, Bucket, 'a'))).toEqual(noSuchKey);
    const marker = shown.find((one) => one.endsWith('!*')) ?? '';
    const VersionId = /@([0-9a-f]{32})/.exec(marker)?.[1];
    await client.send(new DeleteObjectCommand({ Bucket, Key: 'a', VersionId }));
    expect(await readVersion(client, Bucket, 'a')).toBe('new');
    const onto = { client, Bucket };
    await client.send(new DeleteObjectCommand({ Bucket, Key: 'a' }));
    expect(await refusalOf(rename(onto, 'a', 'c'))).toEqual(noSuchKey);
  });

  it('moves the null version where versioning is suspended, and keeps others', async () => {
    const { client } = room();
    const Bucket = await newBucket(client);
    await put({ client, Bucket }, 'a', 'null');
    await setVersioning(client, Bucket, 'Enabled');
    await put({ client, Bucket }, 'b', 'named');
    await setVersioning(client, Bucket, 'Suspended');
    await rename({ client, Bucket }, 'a', 'c');
    await rename({ client, Bucket }, 'b', 'd');
    const shown = await shownVersions(client, Bucket);
    const forms = shown.map((one) => one.replace(/@[0-9a-f]{32}/, '@id'));
    expect(forms.sort()).toEqual(['a@null!*', 'b@id', 'b@null!*', 'c@null*', 'd@null*']);
    expect(await readVersion(client, Bucket, 'c')).toBe('null');
    expect(await readVersion(client, Bucket, 'd')).toBe('named');
  });

  it('is refused for what object lock holds', async () => {
    const { target, client } = room();
    const Bucket = newName();
    const headers = { 'x-amz-bucket-object-lock-enabled': 'true' };
    await send(target, { method: 'PUT', path: `/${Bucket}`, headers });
    await put({ client, Bucket }, 'held', 'x', { ObjectLockLegalHoldStatus: 'ON' });
    expect(await refusalOf(rename({ client, Bucket }, 'held', 'k'))).toEqual(denied);
    const LegalHold = { Status: 'OFF' } as const;
    await client.send(new PutObjectLegalHoldCommand({ Bucket, Key: 'held', LegalHold }));
    await rename({ client, Bucket }, 'held', 'k');
    expect(await readVersion(client, Bucket, 'k')).toBe('x');
  });
}

function describeRecords(room: Room): void {
  it('is in two records, each with both keys, and stores nothing more', async () => {
    const { target, Bucket } = room();
    await put(room(), 'rec/1', 'recorded');
    await rename(room(), 'rec/1', 'rec/2');
    const found = await findRecords(target, [
      ['bucket', Bucket],
      ['action', 's3:RenameObject'],
      ['prefix', 'rec/'],
    ]);
    expect(found).toHaveLength(2);
    const [there, here] = found;
    expect(there).toMatchObject({
      ...{ key: 'rec/2', size: 8, etag: md5Of(Buffer.from('recorded')), status: 200 },
      ...{ version: there.index, storedBytes: 0, storedObjects: 0, price: 'put' },
      change: { renamed: { key: 'rec/1', version: here.supersedes } },
    });
    expect(here).toMatchObject({
      ...{ index: there.index + 1, key: 'rec/1', requestId: there.requestId, storedBytes: 0 },
      change: { renamedTo: { key: 'rec/2', version: there.index } },
    });
    expect(here.version).toBeUndefined();
    expect(here.cost).toBeUndefined();
  });
}
