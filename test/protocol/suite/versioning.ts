// Versions: what is kept, what a delete leaves, and how each is read, copied and brought back.
// Nothing here depends on the store.
import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutBucketPolicyCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  as,
  clientOf,
  elementOf,
  elementsOf,
  findRecords,
  newBucket,
  newPrincipal,
  patternOf,
  refusalOf,
  send,
  type Target,
  unblock,
} from '../target.ts';
import {
  newVersionedBucket,
  putMarker,
  putVersions,
  readVersion,
  setVersioning,
  shownVersions,
} from './versioned.ts';

type Room = () => { target: Target; client: S3Client; Bucket: string };

export function describeVersioning(targetOf: () => Target): void {
  let target: Target;
  let client: S3Client;
  let Bucket: string;
  beforeAll(async () => {
    target = targetOf();
    client = clientOf(target);
    Bucket = await newVersionedBucket(client);
  });
  const room = () => ({ target, client, Bucket });
  describeKeeping(room);
  describeMarkers(room);
  describeEnds(room);
  describeNullVersions(room);
  describeCopies(room);
  describeConditions(room);
  describeRecords(room);
}

const idForm = /^[0-9a-f]{32}$/;
const noSuchKey = { code: 'NoSuchKey', status: 404 };
const noSuchVersion = { code: 'NoSuchVersion', status: 404 };

function describeKeeping(room: Room): void {
  describe('a bucket with versioning', () => {
    it.each([10, 300_000])('keeps each version of %i bytes, and names it', async (sizeBytes) => {
      const { client, Bucket } = room();
      const Key = `kept/${sizeBytes}`;
      const bodies = [1, 2, 3].map((seed) => patternOf(sizeBytes, seed));
      const ids = await putVersions(client, Bucket, Key, bodies);
      expect(new Set(ids).size).toBe(3);
      for (const id of ids) expect(id).toMatch(idForm);
      for (const [i, VersionId] of ids.entries()) {
        const asked = { Bucket, Key, VersionId };
        const got = await client.send(new GetObjectCommand(asked));
        const bytes = Buffer.from((await got.Body?.transformToByteArray()) ?? []);
        expect([got.VersionId, bytes.equals(bodies[i] as Buffer)]).toEqual([VersionId, true]);
        const head = await client.send(new HeadObjectCommand(asked));
        expect([head.VersionId, head.ETag]).toEqual([VersionId, got.ETag]);
        const part = await client.send(new GetObjectCommand({ ...asked, Range: 'bytes=2-5' }));
        expect(await part.Body?.transformToByteArray()).toEqual(
          new Uint8Array((bodies[i] as Buffer).subarray(2, 6)),
        );
      }
      const newest = await client.send(new HeadObjectCommand({ Bucket, Key }));
      expect(newest.VersionId).toBe(ids[2]);
    });

    it('lists a key once among objects, and each version among versions', async () => {
      const { client, Bucket } = room();
      const ids = await putVersions(client, Bucket, 'listed/k', ['1', '2']);
      const listed = await client.send(new ListObjectsV2Command({ Bucket, Prefix: 'listed/' }));
      expect(listed.Contents?.map(({ Key }) => Key)).toEqual(['listed/k']);
      expect(await shownVersions(client, Bucket, { Prefix: 'listed/' })).toEqual(
        [`listed/k@${ids[0]}`, `listed/k@${ids[1]}*`].sort(),
      );
    });

    it('keeps all of 30 writes at once, and one is the newest', async () => {
      const { client, Bucket } = room();
      const bodies = Array.from({ length: 30 }, (_, i) => `body ${i}`);
      const puts = bodies.map((Body) => {
        return client.send(new PutObjectCommand({ Bucket, Key: 'race', Body }));
      });
      const ids = (await Promise.all(puts)).map(({ VersionId }) => VersionId ?? '');
      expect(new Set(ids).size).toBe(30);
      const shown = await shownVersions(client, Bucket, { Prefix: 'race' });
      expect(shown.map((one) => one.replace('*', ''))).toEqual(
        ids.map((id) => `race@${id}`).sort(),
      );
      expect(shown.filter((one) => one.endsWith('*'))).toHaveLength(1);
      const read = await Promise.all(ids.map((id) => readVersion(client, Bucket, 'race', id)));
      expect(read).toEqual(bodies);
    });

    it.each([
      ['an empty id', ''],
      ['no id', 'a-version'],
      ['an id in capitals', 'A'.repeat(32)],
    ])('refuses %s as no version', async (_title, id) => {
      const { target, Bucket } = room();
      for (const method of ['GET', 'DELETE']) {
        const asked = { method, path: `/${Bucket}/kept/10`, query: [['versionId', id]] as const };
        const answer = await send(target, asked);
        expect([answer.status, answer.code]).toEqual([400, 'InvalidArgument']);
        expect(elementOf(answer.text, 'ArgumentName')).toBe('versionId');
      }
    });

    it('tells a version that is not there from a key, and gives none of another key', async () => {
      const { client, Bucket } = room();
      const [id = ''] = await putVersions(client, Bucket, 'mine', ['x']);
      await putVersions(client, Bucket, 'other', ['x']);
      const get = (Key: string, VersionId: string) =>
        refusalOf(client.send(new GetObjectCommand({ Bucket, Key, VersionId })));
      expect(await get('other', id)).toEqual(noSuchVersion);
      expect(await get('mine', 'f'.repeat(32))).toEqual(noSuchVersion);
      expect(await get('mine', 'null')).toEqual(noSuchVersion);
    });

    it('names no version where there never was versioning', async () => {
      const { target, client } = room();
      const plain = await newBucket(client);
      const put = await client.send(new PutObjectCommand({ Bucket: plain, Key: 'k', Body: 'x' }));
      const got = await client.send(new GetObjectCommand({ Bucket: plain, Key: 'k' }));
      const deleted = await client.send(new DeleteObjectCommand({ Bucket: plain, Key: 'k' }));
      expect([put, got, deleted].map(({ VersionId }) => VersionId)).toEqual(
        Array.from({ length: 3 }),
      );
      expect(deleted.DeleteMarker).toBeUndefined();
      const gone = await send(target, { method: 'GET', path: `/${plain}/k` });
      expect([gone.code, gone.headers['x-amz-delete-marker']]).toEqual(['NoSuchKey', undefined]);
    });
  });
}

function describeMarkers(room: Room): void {
  describe('a delete in a bucket with versioning', () => {
    it('puts a marker; deleting that brings the object back', async () => {
      const { target, client, Bucket } = room();
      const Key = 'undone';
      const [id = ''] = await putVersions(client, Bucket, Key, ['back again']);
      const deleted = await client.send(new DeleteObjectCommand({ Bucket, Key }));
      expect(deleted.DeleteMarker).toBe(true);
      expect(deleted.VersionId).toMatch(idForm);
      const path = `/${Bucket}/${Key}`;
      for (const method of ['GET', 'HEAD']) {
        const gone = await send(target, { method, path });
        expect(gone.status).toBe(404);
        expect(gone.headers).toMatchObject({
          'x-amz-delete-marker': 'true',
          'x-amz-version-id': deleted.VersionId,
        });
      }
      expect((await send(target, { method: 'GET', path })).code).toBe('NoSuchKey');
      expect(await readVersion(client, Bucket, Key, id)).toBe('back again');
      const VersionId = deleted.VersionId;
      const undone = await client.send(new DeleteObjectCommand({ Bucket, Key, VersionId }));
      expect([undone.DeleteMarker, undone.VersionId]).toEqual([true, VersionId]);
      expect(await readVersion(client, Bucket, Key)).toBe('back again');
    });

    it('is no object: a marker that is named cannot be read', async () => {
      const { target, client, Bucket } = room();
      const id = await putMarker(client, Bucket, 'never/there');
      const query = [['versionId', id]] as const;
      for (const method of ['GET', 'HEAD']) {
        const answer = await send(target, { method, path: `/${Bucket}/never/there`, query });
        expect(answer.status).toBe(405);
        expect(answer.headers).toMatchObject({
          allow: 'DELETE',
          'x-amz-delete-marker': 'true',
          'x-amz-version-id': id,
          'last-modified': expect.stringMatching(/GMT$/),
        });
      }
    });

    it('of what is deleted, or was never there, puts another marker', async () => {
      const { client, Bucket } = room();
      const ids = [
        await putMarker(client, Bucket, 'twice'),
        await putMarker(client, Bucket, 'twice'),
      ];
      expect(await shownVersions(client, Bucket, { Prefix: 'twice' })).toEqual(
        [`twice@${ids[0]}!`, `twice@${ids[1]}!*`].sort(),
      );
    });

    it('hides the key from listings of objects', async () => {
      const { client, Bucket } = room();
      await putVersions(client, Bucket, 'hidden/k', ['x']);
      await putMarker(client, Bucket, 'hidden/k');
      const listed = await client.send(new ListObjectsV2Command({ Bucket, Prefix: 'hidden/' }));
      expect(listed.KeyCount).toBe(0);
    });
  });
}

function describeEnds(room: Room): void {
  describe('deleting a version', () => {
    it('is for good: the one before the newest is the newest then', async () => {
      const { client, Bucket } = room();
      const Key = 'ends';
      const [first = '', second = ''] = await putVersions(client, Bucket, Key, ['1', '2']);
      for (let times = 0; times < 2; times++) {
        const asked = { Bucket, Key, VersionId: second };
        const { $metadata, DeleteMarker } = await client.send(new DeleteObjectCommand(asked));
        expect([$metadata.httpStatusCode, DeleteMarker]).toEqual([204, undefined]);
      }
      expect(await refusalOf(readVersion(client, Bucket, Key, second))).toEqual(noSuchVersion);
      expect(await readVersion(client, Bucket, Key)).toBe('1');
      await client.send(new DeleteObjectCommand({ Bucket, Key, VersionId: first }));
      expect(await refusalOf(readVersion(client, Bucket, Key))).toEqual(noSuchKey);
      expect(await shownVersions(client, Bucket, { Prefix: Key })).toEqual([]);
    });

    it('many at once tells of each what it was', async () => {
      const { client, Bucket } = room();
      const [first = '', second = ''] = await putVersions(client, Bucket, 'list/a', ['1', '2']);
      const marker = await putMarker(client, Bucket, 'list/b');
      await putVersions(client, Bucket, 'list/c', ['x']);
      const Objects = [
        { Key: 'list/a', VersionId: first },
        { Key: 'list/b', VersionId: marker },
        { Key: 'list/c' },
        { Key: 'list/a', VersionId: 'no-version' },
        { Key: 'list/a', VersionId: 'e'.repeat(32) },
      ];
      const Delete = { Objects };
      const { Deleted = [], Errors = [] } = await client.send(
        new DeleteObjectsCommand({ Bucket, Delete }),
      );
      expect(Deleted).toEqual([
        { Key: 'list/a', VersionId: first },
        { Key: 'list/b', VersionId: marker, DeleteMarker: true, DeleteMarkerVersionId: marker },
        { Key: 'list/c', DeleteMarker: true, DeleteMarkerVersionId: expect.stringMatching(idForm) },
        { Key: 'list/a', VersionId: 'e'.repeat(32) },
      ]);
      expect(Errors).toEqual([
        {
          ...{ Key: 'list/a', VersionId: 'no-version', Code: 'NoSuchVersion' },
          Message: expect.any(String),
        },
      ]);
      expect(await readVersion(client, Bucket, 'list/a')).toBe('2');
      expect(await shownVersions(client, Bucket, { Prefix: 'list/a' })).toEqual([
        `list/a@${second}*`,
      ]);
    });
  });
}

function describeNullVersions(room: Room): void {
  describe('the null version', () => {
    it('is what was there before versioning, and stays', async () => {
      const { client } = room();
      const Bucket = await newBucket(client);
      await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'before' }));
      await setVersioning(client, Bucket, 'Enabled');
      const got = await client.send(new GetObjectCommand({ Bucket, Key: 'k' }));
      expect(got.VersionId).toBe('null');
      const [id = ''] = await putVersions(client, Bucket, 'k', ['after']);
      expect(await readVersion(client, Bucket, 'k', 'null')).toBe('before');
      expect(await shownVersions(client, Bucket)).toEqual([`k@${id}*`, 'k@null']);
      await client.send(new DeleteObjectCommand({ Bucket, Key: 'k', VersionId: 'null' }));
      expect(await shownVersions(client, Bucket)).toEqual([`k@${id}*`]);
    });

    it('is the only one that is replaced while versioning is suspended', async () => {
      const { client } = room();
      const Bucket = await newVersionedBucket(client);
      const [id = ''] = await putVersions(client, Bucket, 'k', ['kept']);
      await setVersioning(client, Bucket, 'Suspended');
      for (const Body of ['one', 'two']) {
        const put = await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body }));
        expect(put.VersionId).toBeUndefined();
      }
      expect(await shownVersions(client, Bucket)).toEqual([`k@${id}`, 'k@null*'].sort());
      expect(await readVersion(client, Bucket, 'k')).toBe('two');
      const deleted = await client.send(new DeleteObjectCommand({ Bucket, Key: 'k' }));
      expect([deleted.DeleteMarker, deleted.VersionId]).toEqual([true, 'null']);
      expect(await shownVersions(client, Bucket)).toEqual([`k@${id}`, 'k@null!*'].sort());
      await client.send(new DeleteObjectCommand({ Bucket, Key: 'k', VersionId: 'null' }));
      expect(await readVersion(client, Bucket, 'k')).toBe('kept');
    });

    it('is the version that a bucket without versioning has', async () => {
      const { client } = room();
      const Bucket = await newBucket(client);
      await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'x' }));
      expect(await readVersion(client, Bucket, 'k', 'null')).toBe('x');
      expect(await shownVersions(client, Bucket)).toEqual(['k@null*']);
      await client.send(new DeleteObjectCommand({ Bucket, Key: 'k', VersionId: 'null' }));
      expect(await shownVersions(client, Bucket)).toEqual([]);
    });
  });
}

function describeCopies(room: Room): void {
  describe('a copy', () => {
    it('of a version has its bytes, and says what it was made of and what it is', async () => {
      const { client, Bucket } = room();
      const [first = ''] = await putVersions(client, Bucket, 'source', ['old', 'new']);
      const CopySource = `${Bucket}/source?versionId=${first}`;
      const copy = await client.send(new CopyObjectCommand({ Bucket, Key: 'copy', CopySource }));
      expect(copy.CopySourceVersionId).toBe(first);
      expect(copy.VersionId).toMatch(idForm);
      expect(await readVersion(client, Bucket, 'copy', copy.VersionId)).toBe('old');
    });

    it('of an older version onto its own key brings it back as the newest', async () => {
      const { client, Bucket } = room();
      const [first = ''] = await putVersions(client, Bucket, 'restored', ['old', 'new']);
      const CopySource = `${Bucket}/restored?versionId=${first}`;
      await client.send(new CopyObjectCommand({ Bucket, Key: 'restored', CopySource }));
      expect(await readVersion(client, Bucket, 'restored')).toBe('old');
      const onto = { Bucket, Key: 'restored', CopySource: `${Bucket}/restored` };
      expect(await refusalOf(client.send(new CopyObjectCommand(onto)))).toEqual({
        code: 'InvalidRequest',
        status: 400,
      });
    });

    it('of a version fills a part of an upload', async () => {
      const { client, Bucket } = room();
      const [first = ''] = await putVersions(client, Bucket, 'pieces', ['old', 'newer']);
      const Key = 'of pieces';
      const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key }));
      const part = { Bucket, Key, UploadId, PartNumber: 1 };
      const CopySource = `${Bucket}/pieces?versionId=${first}`;
      const copied = await client.send(new UploadPartCopyCommand({ ...part, CopySource }));
      expect(copied.CopySourceVersionId).toBe(first);
      const Parts = [{ PartNumber: 1, ETag: copied.CopyPartResult?.ETag }];
      const end = { Bucket, Key, UploadId, MultipartUpload: { Parts } };
      const done = await client.send(new CompleteMultipartUploadCommand(end));
      expect(done.VersionId).toMatch(idForm);
      expect(await readVersion(client, Bucket, Key, done.VersionId)).toBe('old');
      const again = await client.send(new CompleteMultipartUploadCommand(end));
      expect(again.VersionId).toBe(done.VersionId);
    });

    it('of what is deleted is refused, by its name and by its marker', async () => {
      const { client, Bucket } = room();
      await putVersions(client, Bucket, 'marked', ['x']);
      const marker = await putMarker(client, Bucket, 'marked');
      const copy = (CopySource: string) =>
        refusalOf(client.send(new CopyObjectCommand({ Bucket, Key: 'none', CopySource })));
      const invalid = { code: 'InvalidRequest', status: 400 };
      expect(await copy(`${Bucket}/marked`)).toEqual(noSuchKey);
      expect(await copy(`${Bucket}/marked?versionId=${marker}`)).toEqual(invalid);
      expect(await copy(`${Bucket}/marked?versionId=${'f'.repeat(32)}`)).toEqual(noSuchVersion);
      expect(await copy(`${Bucket}/marked?versionId=x`)).toEqual({
        code: 'InvalidArgument',
        status: 400,
      });
    });
  });

  it('a multipart upload over an object is another version of it', async () => {
    const { client, Bucket } = room();
    const Key = 'multipart';
    const [before = ''] = await putVersions(client, Bucket, Key, ['small']);
    const { UploadId } = await client.send(new CreateMultipartUploadCommand({ Bucket, Key }));
    const part = { Bucket, Key, UploadId, PartNumber: 1, Body: 'part' };
    const { ETag } = await client.send(new UploadPartCommand(part));
    const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] };
    const end = { Bucket, Key, UploadId, MultipartUpload };
    const { VersionId } = await client.send(new CompleteMultipartUploadCommand(end));
    expect(await readVersion(client, Bucket, Key, before)).toBe('small');
    expect(await readVersion(client, Bucket, Key, VersionId)).toBe('part');
  });
}

function describeConditions(room: Room): void {
  const failed = { code: 'PreconditionFailed', status: 412 };

  describe('a condition', () => {
    it('on what is not there holds over a marker', async () => {
      const { client, Bucket } = room();
      const put = (more: object) =>
        client.send(new PutObjectCommand({ Bucket, Key: 'cond', Body: 'x', ...more }));
      const { ETag } = await put({ IfNoneMatch: '*' });
      expect(await refusalOf(put({ IfNoneMatch: '*' }))).toEqual(failed);
      await putMarker(client, Bucket, 'cond');
      expect(await refusalOf(put({ IfMatch: ETag }))).toEqual(noSuchKey);
      await put({ IfNoneMatch: '*' });
    });

    it('of a delete is on the version that it names', async () => {
      const { client, Bucket } = room();
      const Key = 'conditional';
      const [VersionId = ''] = await putVersions(client, Bucket, Key, ['old', 'newer']);
      const head = await client.send(new HeadObjectCommand({ Bucket, Key, VersionId }));
      const newest = await client.send(new HeadObjectCommand({ Bucket, Key }));
      const remove = (more: object) =>
        client.send(new DeleteObjectCommand({ Bucket, Key, VersionId, ...more }));
      const past = new Date('2015-01-01T00:00:00Z');
      expect(await refusalOf(remove({ IfMatch: newest.ETag }))).toEqual(failed);
      expect(await refusalOf(remove({ IfMatchSize: 5 }))).toEqual(failed);
      expect(await refusalOf(remove({ IfMatchLastModifiedTime: past }))).toEqual(failed);
      await remove({
        IfMatch: head.ETag,
        IfMatchSize: 3,
        IfMatchLastModifiedTime: head.LastModified,
      });
      expect(await refusalOf(readVersion(client, Bucket, Key, VersionId))).toEqual(noSuchVersion);
      // It is not there any more.
      await remove({ IfMatchSize: 5, IfMatchLastModifiedTime: past });
    });

    it('of a delete on time or size holds for each key of a list', async () => {
      const { client, Bucket } = room();
      await putVersions(client, Bucket, 'sized', ['four']);
      const { LastModified } = await client.send(new HeadObjectCommand({ Bucket, Key: 'sized' }));
      const remove = async (more: object) => {
        const Delete = { Objects: [{ Key: 'sized', ...more }] };
        const done = await client.send(new DeleteObjectsCommand({ Bucket, Delete }));
        return done.Errors?.[0]?.Code ?? done.Deleted?.[0]?.DeleteMarker;
      };
      expect(await remove({ Size: 5 })).toBe('PreconditionFailed');
      expect(await remove({ LastModifiedTime: new Date(0) })).toBe('PreconditionFailed');
      expect(await remove({ Size: 4, LastModifiedTime: LastModified })).toBe(true);
    });

    it('can be demanded by a policy, of writes and of deletes', async () => {
      const { target, client } = room();
      const Bucket = await newVersionedBucket(client);
      await unblock(client, Bucket);
      const rule = (Action: string, Condition: object) => {
        const Resource = `arn:aws:s3:::${Bucket}/*`;
        return { Effect: 'Allow', Principal: '*', Action, Resource, Condition };
      };
      const Statement = [
        rule('s3:PutObject', { Null: { 's3:if-none-match': 'false' } }),
        rule('s3:PutObject', { Bool: { 's3:ObjectCreationOperation': 'false' } }),
        rule('s3:DeleteObject', { Null: { 's3:if-match': 'false' } }),
      ];
      const Policy = JSON.stringify({ Version: '2012-10-17', Statement });
      await client.send(new PutBucketPolicyCommand({ Bucket, Policy }));
      const other = clientOf(as(target, await newPrincipal(target)));
      const at = { Bucket, Key: 'k' };
      const IfNoneMatch = '*';
      const denied = { code: 'AccessDenied', status: 403 };
      const put = (more: object) => other.send(new PutObjectCommand({ ...at, Body: 'x', ...more }));
      expect(await refusalOf(put({}))).toEqual(denied);
      await put({ IfNoneMatch });
      const { UploadId } = await other.send(
        new CreateMultipartUploadCommand({ Bucket, Key: 'parts' }),
      );
      const part = { Bucket, Key: 'parts', UploadId };
      const { ETag } = await other.send(
        new UploadPartCommand({ ...part, PartNumber: 1, Body: 'part' }),
      );
      const end = { ...part, MultipartUpload: { Parts: [{ PartNumber: 1, ETag }] } };
      const complete = (more: object) =>
        other.send(new CompleteMultipartUploadCommand({ ...end, ...more }));
      expect(await refusalOf(complete({}))).toEqual(denied);
      await complete({ IfNoneMatch });
      const remove = (more: object) => other.send(new DeleteObjectCommand({ ...at, ...more }));
      expect(await refusalOf(remove({}))).toEqual(denied);
      const list = async (more: object) => {
        const Objects = [
          { Key: 'k', ...more },
          { Key: 'other', ETag: '*' },
        ];
        const done = await other.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
        return done.Errors?.map(({ Code }) => Code);
      };
      expect(await list({})).toEqual(['AccessDenied', 'NoSuchKey']);
      // To compare a tag needs the right to read; to ask for any does not.
      expect(await refusalOf(remove({ IfMatch: ETag }))).toEqual(denied);
      expect((await remove({ IfMatch: '*' })).DeleteMarker).toBe(true);
      expect(await list({ ETag: '*' })).toEqual(['NoSuchKey', 'NoSuchKey']);
    });

    it('of a delete that is not understood deletes nothing', async () => {
      const { target, client, Bucket } = room();
      await putVersions(client, Bucket, 'odd', ['x']);
      for (const name of ['x-amz-if-match-size', 'x-amz-if-match-last-modified-time']) {
        const headers = { [name]: 'soon' };
        const asked = { method: 'DELETE', path: `/${Bucket}/odd`, headers };
        const answer = await send(target, asked);
        expect([answer.status, answer.code]).toEqual([400, 'InvalidArgument']);
      }
      expect(await readVersion(client, Bucket, 'odd')).toBe('x');
    });
  });
}

function describeRecords(room: Room): void {
  it('the record of a write, a delete and a read says which version it was', async () => {
    const { target, client, Bucket } = room();
    const Key = 'recorded';
    const path = `/${Bucket}/${Key}`;
    const answers = [
      await send(target, { method: 'PUT', path, body: 'x' }),
      await send(target, { method: 'DELETE', path }),
    ];
    const [id = '', marker = ''] = answers.map(({ headers }) => headers['x-amz-version-id']);
    await readVersion(client, Bucket, Key, id);
    await client.send(new DeleteObjectCommand({ Bucket, Key, VersionId: id }));
    const told = async () => {
      const records = await findRecords(target, [
        ['bucket', Bucket],
        ['prefix', Key],
      ]);
      return records.map(({ action, versionId, marker }: Record<string, unknown>) => {
        return [action, versionId, marker];
      });
    };
    await expect.poll(told).toEqual(
      expect.arrayContaining([
        ['s3:PutObject', id, undefined],
        ['s3:DeleteObject', marker, true],
        ['s3:GetObjectVersion', id, undefined],
        ['s3:DeleteObjectVersion', id, undefined],
      ]),
    );
  });

  it('the record of a deletion of what is no key and no version is short', async () => {
    const { target, Bucket } = room();
    const long = 'x'.repeat(100_000);
    const body =
      `<Delete><Object><Key>k</Key><VersionId>${long}</VersionId></Object>` +
      `<Object><Key>${long}</Key></Object></Delete>`;
    const asked = { method: 'POST', path: `/${Bucket}`, query: [['delete', '']] as const, body };
    const answer = await send(target, asked);
    expect(elementsOf(answer.text, 'Code')).toEqual(['NoSuchVersion', 'KeyTooLongError']);
    const records = await findRecords(target, [
      ['bucket', Bucket],
      ['cursor', String(Number(answer.headers['x-bursar-receipt']) - 3)],
    ]);
    const id = answer.headers['x-amz-request-id'];
    const ofIt = records.filter(({ requestId }: { requestId: string }) => requestId === id);
    expect(ofIt).toHaveLength(2);
    expect(JSON.stringify(ofIt).length).toBeLessThan(2500);
  });
}
