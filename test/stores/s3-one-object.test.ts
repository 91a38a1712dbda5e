// What somebody who may write to the store's bucket can do to one object: it is then that object
// which is damaged, never the store which is down.
import { CopyObjectCommand, S3Client } from '@aws-sdk/client-s3';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type Oddity, type OddServer, startOddServer } from './odd-s3-server.ts';
import { bucket, emptyLike, listed, newId, piecesOf, type S3Rig, startS3Rig } from './s3-rig.ts';

describeWithTool(versitygw, 'an object whose metadata was rewritten', (path) => {
  let s3: S3Rig;
  let count = 0;
  beforeAll(async () => {
    s3 = await startS3Rig(path);
  }, 60_000);
  afterAll(() => s3?.stop(), 60_000);

  it.each([
    ['an XML type', { ContentType: 'application/xml' }],
    ['a coding', { ContentEncoding: 'gzip', ContentType: 'text/xml' }],
  ])('with %s gives its bytes, and no failure', async (_, metadata) => {
    const prefix = `rewritten-${++count}`;
    const store = await s3.open({ url: `s3://${bucket}/${prefix}` });
    const id = newId();
    const pieces = piecesOf([3000]);
    await store.put(id, pieces);
    await store.putObject('journal/object', Buffer.from('bytes'));
    const [extent] = await names(store, 'extents/');
    for (const name of [extent, 'journal/object']) {
      await rewrite(s3, `${prefix}/${name}`, metadata);
    }
    const into = emptyLike(pieces);
    await store.read({ id, sizeBytes: 3000, position: 0, into });
    expect(Buffer.concat(into).equals(Buffer.concat(pieces))).toBe(true);
    expect((await store.readEnd(id, 100))?.bytes.length).toBe(100);
    expect((await store.getObject('journal/object'))?.toString()).toBe('bytes');
    expect(store.state()).toMatchObject({ ready: true, lastFailure: undefined });
  });

  it('of more bytes than any of ours has is damaged', async () => {
    const store = await s3.open();
    await store.putObject('journal/object', Buffer.alloc(64 * 1024 * 1024 + 1));
    await expect(store.getObject('journal/object')).rejects.toMatchObject({
      name: 'IntegrityError',
    });
    expect(store.state()).toMatchObject({ ready: true, lastFailure: undefined });
  }, 60_000);
});

describe('an object that the server refuses', () => {
  let server: OddServer;
  let store: S3Store;
  const open = async (oddity?: Oddity): Promise<void> => {
    server = await startOddServer(oddity);
    store = await S3Store.open({
      number: 2,
      name: 'odd',
      url: `s3://${bucket}/prefix`,
      endpoint: server.endpoint,
      region: 'us-east-1',
      pathStyle: true,
      credentials: { accessKeyId: 'key', secretAccessKey: 'secret' },
      retryPolicy: { triesMax: 2, pauseMsMin: 1, pauseMsMax: 2 },
    });
    await store.putObject('owner', Buffer.from('us'));
  };
  const read = (id: Buffer) =>
    store.read({ id, sizeBytes: 1000, position: 0, into: [Buffer.alloc(1000)] });
  afterEach(async () => {
    await store.close();
    await server.stop();
  });

  it('alone is damaged: those who read many name it and go on', async () => {
    await open('archives extents');
    const id = newId();
    await store.put(id, piecesOf([1000]));
    const damage = { name: 'IntegrityError', kind: 'missing', store: 2 };
    await expect(read(id)).rejects.toMatchObject(damage);
    await expect(store.readEnd(id, 10)).rejects.toMatchObject(damage);
    expect(store.state().ready).toBe(true);
  });

  it('once, and then gives it, is not damaged', async () => {
    await open();
    const id = newId();
    await store.put(id, piecesOf([1000]));
    server.refusals.push('AccessDenied');
    await read(id);
    expect(server.refusals).toEqual([]);
  });

  it('with all others says nothing of it', async () => {
    await open('denies reads');
    const id = newId();
    await store.put(id, piecesOf([1000]));
    await expect(read(id)).rejects.toMatchObject({ code: 'ServiceUnavailable' });
    await expect(store.getObject('journal/a')).rejects.toMatchObject({
      code: 'ServiceUnavailable',
    });
  });

  it('is no extent in the folder of others, whatever its name', async () => {
    await open();
    const id = Buffer.alloc(16, 0xaa);
    await store.put(id, piecesOf([1000]));
    for (const folder of ['aab', 'ab', 'ff']) {
      server.objects.set(`/bucket/prefix/extents/${folder}/${id.toString('hex')}`, Buffer.alloc(1));
    }
    expect(await listed(store)).toEqual({ [id.toString('hex')]: 1000 });
  });

  it('is listed by its name, whatever characters that has', async () => {
    await open();
    const planted = ['journal/a\u0001b', 'journal/c d+e%20f', 'journal/<g>&\u{1f600}'];
    for (const name of planted) server.objects.set(`/bucket/prefix/${name}`, Buffer.alloc(1));
    expect(await names(store, 'journal/')).toEqual(planted);
  });
});

async function names(store: S3Store, prefix: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of store.listObjects(prefix)) found.push(name);
  return found;
}

/** As its owner does with a copy of an object onto itself. */
async function rewrite(s3: S3Rig, Key: string, metadata: object): Promise<void> {
  const { endpoint, region, credentials } = s3.backend;
  const client = new S3Client({ endpoint, region, credentials, forcePathStyle: true });
  const copy = { Bucket: bucket, Key, CopySource: `${bucket}/${Key}` };
  await client.send(new CopyObjectCommand({ ...copy, MetadataDirective: 'REPLACE', ...metadata }));
  client.destroy();
}
