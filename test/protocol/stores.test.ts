// Several stores in one gateway: which one a bucket is in, and copies from one to another. A local
// store and two of S3, `near` and `far`, each a bucket of one versitygw. BURSAR_FULL=1 copies more
// sizes and more at once.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  CopyObjectCommand,
  type CopyObjectCommandInput,
  DeleteBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  HeadObjectCommand,
  ListBucketsCommand,
  ListObjectVersionsCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { listFiles } from '../tooling/files.ts';
import { type ServedGateway, startServedGateway } from '../tooling/served-gateway.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { type S3Backend, startVersitygw } from '../tooling/versitygw.ts';
import { base64Checksum, md5Of } from './checksums.ts';
import { begin, complete, partBytesMin } from './suite/multipart.ts';
import { readObject } from './suite/objects.ts';
import { putMarker, putVersions, readVersion, setVersioning } from './suite/versioned.ts';
import {
  type Answer,
  as,
  callNative,
  clientOf,
  exchange,
  findRecords,
  newName,
  newPrincipal,
  patternOf,
  refusalOf,
  send,
  signMessage,
  type Target,
} from './target.ts';
import { signedHead, Wire } from './wire.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const isFull = process.env.BURSAR_FULL === '1';
const copiesAtOnce = isFull ? 24 : 16;
/** Several extents of an S3 store, of the local one. */
const [severalRemote, severalLocal] = [9_000_000, 17_000_000];

/** One gateway, whose chunk buffers are as few as can be: copies must not wait for each other. */
async function startStores(
  backend: S3Backend,
): Promise<{ gateway: ServedGateway; target: Target }> {
  const { accessKeyId: id, secretAccessKey: secret } = backend.credentials;
  const at = { endpoint: backend.endpoint, pathStyle: true };
  const stores = { near: { url: 's3://near', ...at }, far: { url: 's3://far/in/here', ...at } };
  const gateway = await startServedGateway({
    args: ['--buffer-memory', '16MiB', '--sweep-interval', '100ms', '--sweep-grace', '0s'],
    env: {
      AWS_ACCESS_KEY_ID: id,
      AWS_SECRET_ACCESS_KEY: secret,
      BURSAR_STORES: JSON.stringify(stores),
    },
  });
  const { endpoint, accessKeyId, secretAccessKey, stop } = gateway;
  const keys = { accessKeyId, secretAccessKey };
  return { gateway, target: { endpoint, keys, strayNames: () => [], stop } };
}

describeWithTool(versitygw, 'a gateway with several stores', (path) => {
  let backend: S3Backend;
  let gateway: ServedGateway;
  let target: Target;
  let client: S3Client;
  beforeAll(async () => {
    backend = await startVersitygw(path);
    for (const name of ['near', 'far']) backend.makeBucket(name);
    ({ gateway, target } = await startStores(backend));
    client = clientOf(target);
  });
  afterAll(async () => {
    await gateway.stop();
    await backend.stop();
  });

  /** The files of the extents in a store, by their paths. */
  function extentsIn(store: string): string[] {
    const folder = {
      local: join(gateway.dataDir, 'extents'),
      near: join(backend.dataDir, 'near', 'extents'),
      far: join(backend.dataDir, 'far', 'in', 'here', 'extents'),
    }[store] as string;
    return listFiles(folder);
  }

  function create(name: string, store?: string, asked = target): Promise<Answer> {
    const headers: Record<string, string> = store === undefined ? {} : { 'x-bursar-store': store };
    return send(asked, { method: 'PUT', path: `/${name}`, headers });
  }

  async function bucketIn(store: string): Promise<string> {
    const name = newName(store);
    expect((await create(name, store)).status).toBe(200);
    return name;
  }

  const storeOf = async (name: string): Promise<string | undefined> =>
    (await send(target, { method: 'HEAD', path: `/${name}` })).headers['x-bursar-store'];

  describe('versions', () => {
    it.each([
      ['local', 'far'],
      ['near', 'far'],
      ['near', 'local'],
    ])('in %s keep their bytes until they end, and are copied into %s', async (from, to) => {
      const [Bucket, copies] = [await bucketIn(from), await bucketIn(to)];
      await setVersioning(client, Bucket, 'Enabled');
      const before = new Set(extentsIn(from));
      const bodies = [1, 2, 3].map((seed) => patternOf(300_000, seed));
      const ids = await putVersions(client, Bucket, 'k', bodies);
      await putMarker(client, Bucket, 'k');
      const made = extentsIn(from).filter((name) => !before.has(name));
      const kept = () => extentsIn(from).filter((name) => made.includes(name)).length;
      const [first = '', second = ''] = ids;
      await client.send(new DeleteObjectCommand({ Bucket, Key: 'k', VersionId: second }));
      // That the sweeper took what has ended, and nothing else.
      await expect.poll(kept).toBe((made.length * 2) / 3);
      const CopySource = `${Bucket}/k?versionId=${first}`;
      const copy = await client.send(
        new CopyObjectCommand({ Bucket: copies, Key: 'copy', CopySource }),
      );
      expect(copy.CopySourceVersionId).toBe(first);
      const copied = await readObject(client, copies, 'copy');
      expect(copied.equals(bodies[0] as Buffer)).toBe(true);
      for (const i of [0, 2]) {
        const read = await readVersion(client, Bucket, 'k', ids[i]);
        expect(read).toBe(bodies[i]?.toString());
      }
    });
  });

  describe('a bucket', () => {
    it('is in the store that its creation names, and says so', async () => {
      for (const store of ['local', 'near', 'far']) {
        const name = newName();
        const made = await create(name, store);
        expect([made.status, made.headers['x-bursar-store']]).toEqual([200, store]);
        expect(await storeOf(name)).toBe(store);
      }
    });

    it('is in the gateway’s default store when nobody names another', async () => {
      const name = newName();
      expect((await create(name)).headers['x-bursar-store']).toBe('local');
      expect(await storeOf(name)).toBe('local');
    });

    it('is in its tenant’s default store when its creation names none', async () => {
      const tenant = newName('tenant');
      await callNative(target, 'POST', '/_/v1/tenants', { name: tenant, defaultStore: 'near' });
      const owner = as(target, await newPrincipal(target, { tenant }));
      const [plain, named] = [newName(), newName()];
      expect((await create(plain, undefined, owner)).headers['x-bursar-store']).toBe('near');
      expect((await create(named, 'far', owner)).headers['x-bursar-store']).toBe('far');
      await callNative(target, 'PATCH', `/_/v1/tenants/${tenant}`, { defaultStore: null });
      expect((await create(newName(), undefined, owner)).headers['x-bursar-store']).toBe('local');
    });

    it.each(['none', '', 'NEAR', 's3', 'inline', '2'])(
      'in the store "%s", which is none, is refused and not made',
      async (store) => {
        const name = newName();
        const made = await create(name, store);
        expect([made.status, made.code]).toEqual([400, 'InvalidArgument']);
        expect((await send(target, { method: 'HEAD', path: `/${name}` })).status).toBe(404);
      },
    );

    it('whose store was not signed is refused and not made', async () => {
      const name = newName();
      const { path, headers } = signMessage(target, { method: 'PUT', path: `/${name}` });
      const made = await exchange(target, 'PUT', path, { ...headers, 'x-bursar-store': 'near' });
      expect([made.status, made.code]).toEqual([403, 'AccessDenied']);
      expect((await send(target, { method: 'HEAD', path: `/${name}` })).status).toBe(404);
    });

    it('made again stays where it is: named so or not at all, but nowhere else', async () => {
      const name = await bucketIn('near');
      for (const store of [undefined, 'near']) {
        const again = await create(name, store);
        expect([again.status, again.headers['x-bursar-store']]).toEqual([200, 'near']);
      }
      const moved = await create(name, 'far');
      expect([moved.status, moved.code]).toEqual([409, 'BucketAlreadyOwnedByYou']);
      expect(await storeOf(name)).toBe('near');
      const stranger = as(target, await newPrincipal(target));
      expect((await create(name, 'near', stranger)).code).toBe('BucketAlreadyExists');
    });

    it.each([
      ['local', 300_000],
      ['near', 1],
      ['near', 300_000],
      ['far', 300_000],
    ])('in the store %s keeps the bytes of %i there and nowhere else', async (store, size) => {
      const Bucket = await bucketIn(store);
      const before = ['local', 'near', 'far'].map((name) => new Set(extentsIn(name)));
      const Body = patternOf(size, 3);
      await client.send(new PutObjectCommand({ Bucket, Key: 'k', Body }));
      const added = ['local', 'near', 'far'].map(
        (name, i) => extentsIn(name).filter((file) => !before[i]?.has(file)).length,
      );
      expect(added).toEqual(['local', 'near', 'far'].map((name) => (name === store ? 1 : 0)));
      expect((await readObject(client, Bucket, 'k')).equals(Body)).toBe(true);
    });
  });

  const ways = [
    ['local', 'near'],
    ['near', 'local'],
    ['near', 'far'],
  ] as const;

  describe.each(ways)('a copy from the store %s into %s', (from, to) => {
    let source: string;
    let destination: string;
    const given = { ContentType: 'text/x-source', Metadata: { from: 'source' } };
    beforeAll(async () => {
      source = await bucketIn(from);
      destination = await bucketIn(to);
    });

    const copy = (Key: string, more: Partial<CopyObjectCommandInput> = {}) =>
      client.send(
        new CopyObjectCommand({
          Bucket: destination,
          Key,
          CopySource: `${source}/${Key}`,
          ...more,
        }),
      );

    const several = from === 'local' || to === 'local' ? severalLocal : severalRemote;
    const large = isFull ? [severalRemote, severalLocal] : [several];
    it.each([0, 1, 65_536, 65_537, 300_000, ...large])(
      'of %i bytes has them, its ETag and its attributes, and outlives its source',
      async (size) => {
        const Key = `of ${size}`;
        const Body = patternOf(size, size + 1);
        await client.send(new PutObjectCommand({ Bucket: source, Key, Body, ...given }));
        const { CopyObjectResult } = await copy(Key);
        expect(CopyObjectResult).toMatchObject({
          ETag: `"${md5Of(Body)}"`,
          ChecksumCRC32: base64Checksum('CRC32', Body),
          LastModified: expect.any(Date),
        });
        await client.send(new DeleteObjectCommand({ Bucket: source, Key }));
        const head = await client.send(new HeadObjectCommand({ Bucket: destination, Key }));
        expect(head).toMatchObject({ ...given, ContentLength: size, ETag: `"${md5Of(Body)}"` });
        expect((await readObject(client, destination, Key)).equals(Body)).toBe(true);
      },
    );

    it('of a multipart object is one of its own: ETag, checksum and all', async () => {
      const upload = await begin(client, source, {
        Key: 'parts',
        ChecksumAlgorithm: 'SHA256',
        ...given,
      });
      const bodies = [patternOf(partBytesMin, 5), patternOf(4000, 6)];
      const parts = [];
      for (const [i, body] of bodies.entries()) {
        const PartNumber = i + 1;
        const asked = { ...upload, PartNumber, Body: body, ChecksumAlgorithm: 'SHA256' } as const;
        const { ETag, ChecksumSHA256 } = await client.send(new UploadPartCommand(asked));
        parts.push({ PartNumber, ETag, ChecksumSHA256 });
      }
      await complete(client, upload, parts);
      const Body = Buffer.concat(bodies);
      const { CopyObjectResult } = await copy('parts');
      expect(CopyObjectResult).toMatchObject({
        ETag: `"${md5Of(Body)}"`,
        ChecksumSHA256: base64Checksum('SHA256', Body),
        ChecksumType: 'FULL_OBJECT',
      });
      const named = { Bucket: destination, Key: 'parts' };
      expect(await client.send(new HeadObjectCommand(named))).toMatchObject(given);
      expect((await readObject(client, destination, 'parts')).equals(Body)).toBe(true);
    });

    it('can be given other attributes and another checksum', async () => {
      const Body = patternOf(70_000, 8);
      await client.send(new PutObjectCommand({ Bucket: source, Key: 'other', Body, ...given }));
      const { CopyObjectResult } = await copy('other', {
        MetadataDirective: 'REPLACE',
        ContentType: 'text/x-new',
        Metadata: { to: 'it' },
        ChecksumAlgorithm: 'SHA1',
      });
      expect(CopyObjectResult?.ChecksumSHA1).toBe(base64Checksum('SHA1', Body));
      const head = await client.send(new HeadObjectCommand({ Bucket: destination, Key: 'other' }));
      expect(head.ContentType).toBe('text/x-new');
      expect(head.Metadata).toEqual({ to: 'it' });
    });

    it('is held to its conditions before and after, and else leaves nothing', async () => {
      const Body = patternOf(300_000, 9);
      await client.send(new PutObjectCommand({ Bucket: source, Key: 'held', Body }));
      await client.send(new PutObjectCommand({ Bucket: destination, Key: 'held', Body: 'x' }));
      const before = extentsIn(to);
      for (const condition of [
        { CopySourceIfMatch: '"x"' },
        { IfNoneMatch: '*' },
        { IfMatch: '"x"' },
      ]) {
        expect(await refusalOf(copy('held', condition))).toMatchObject({ status: 412 });
      }
      expect(extentsIn(to)).toEqual(before);
      await copy('held', { CopySourceIfMatch: md5Of(Body), IfMatch: md5Of(Buffer.from('x')) });
      expect((await readObject(client, destination, 'held')).equals(Body)).toBe(true);
    });

    it('of a part has its bytes, or the range that was asked for', async () => {
      const Body = patternOf(partBytesMin + 300_000, 11);
      await client.send(new PutObjectCommand({ Bucket: source, Key: 'source', Body }));
      const upload = await begin(client, destination, { ChecksumAlgorithm: 'CRC32C' });
      const ranges = [undefined, `bytes=10-${partBytesMin + 9}`, 'bytes=299999-299999'];
      const slices = [Body, Body.subarray(10, partBytesMin + 10), Body.subarray(299_999, 300_000)];
      const parts = [];
      for (const [i, CopySourceRange] of ranges.entries()) {
        const { CopyPartResult } = await client.send(
          new UploadPartCopyCommand({
            ...upload,
            PartNumber: i + 1,
            CopySource: `${source}/source`,
            CopySourceRange,
          }),
        );
        const { ETag, ChecksumCRC32C } = CopyPartResult ?? {};
        expect(ETag).toBe(`"${md5Of(slices[i] as Buffer)}"`);
        expect(ChecksumCRC32C).toBe(base64Checksum('CRC32C', slices[i] as Buffer));
        parts.push({ PartNumber: i + 1, ETag, ChecksumCRC32C });
      }
      await complete(client, upload, parts);
      await client.send(new DeleteObjectCommand({ Bucket: source, Key: 'source' }));
      const stored = await readObject(client, destination, upload.Key);
      expect(stored.equals(Buffer.concat(slices))).toBe(true);
    });

    it('of damaged bytes is refused and makes nothing', async () => {
      const known = new Set(extentsIn(from));
      const Body = patternOf(600_000, 12);
      await client.send(new PutObjectCommand({ Bucket: source, Key: 'damaged', Body }));
      const files = extentsIn(from).filter((name) => !known.has(name));
      expect(files.length).toBeGreaterThan(0);
      for (const file of files) {
        const stored = readFileSync(file);
        const middle = Math.floor(stored.length / 2);
        stored[middle] = (stored[middle] as number) ^ 1;
        writeFileSync(file, stored);
      }
      expect(await refusalOf(copy('damaged'))).toEqual({
        code: 'BursarIntegrityError',
        status: 500,
      });
      const head = client.send(new HeadObjectCommand({ Bucket: destination, Key: 'damaged' }));
      expect(await refusalOf(head)).toMatchObject({ status: 404 });
    });

    it('whose client leaves is given up and makes nothing', async () => {
      const Body = patternOf(severalRemote, 13);
      await client.send(new PutObjectCommand({ Bucket: source, Key: 'left', Body }));
      const wire = await Wire.open(target);
      const headers = { 'x-amz-copy-source': `${source}/left` };
      wire.write(signedHead(target, { method: 'PUT', path: `/${destination}/left`, headers }));
      await sleep(5);
      wire.destroy();
      const query = [
        ['bucket', destination],
        ['prefix', 'left'],
      ] as const;
      const errors = async () => {
        const records = await findRecords(target, query);
        return records.map((record: { error?: string }) => record.error);
      };
      await expect.poll(errors).toEqual(['RequestTimeout']);
      const head = client.send(new HeadObjectCommand({ Bucket: destination, Key: 'left' }));
      expect(await refusalOf(head)).toMatchObject({ status: 404 });
    });
  });

  it('many copies at once, with little memory, all end, whole or refused', async () => {
    const [source, destination] = [await bucketIn('near'), await bucketIn('far')];
    const Body = patternOf(8 * 1024 * 1024, 14);
    await client.send(new PutObjectCommand({ Bucket: source, Key: 'k', Body }));
    const outcomes = await Promise.all(
      Array.from({ length: copiesAtOnce }, async (_, i) => {
        const asked = { Bucket: destination, Key: String(i), CopySource: `${source}/k` };
        const attempt = client.send(new CopyObjectCommand(asked));
        const code = await attempt.then(
          () => 'done',
          (error: Error) => error.name,
        );
        if (code === 'done') {
          expect((await readObject(client, destination, String(i))).equals(Body)).toBe(true);
        }
        return code;
      }),
    );
    expect(new Set(outcomes).size).toBeLessThanOrEqual(2);
    expect(outcomes.filter((code) => code !== 'done' && code !== 'SlowDown')).toEqual([]);
    expect(outcomes.filter((code) => code === 'done').length).toBeGreaterThan(4);
  });

  it('what fails and what is deleted leaves nothing in any store', async () => {
    const { Buckets = [] } = await client.send(new ListBucketsCommand({}));
    for (const { Name: Bucket } of Buckets) {
      const { Versions = [], DeleteMarkers = [] } = await client.send(
        new ListObjectVersionsCommand({ Bucket }),
      );
      const Objects = [...Versions, ...DeleteMarkers].map(({ Key, VersionId }) => {
        return { Key, VersionId };
      });
      if (Objects.length > 0) {
        await client.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
      }
      await client.send(new DeleteBucketCommand({ Bucket }));
    }
    await expect
      .poll(() => ['local', 'near', 'far'].flatMap(extentsIn), { timeout: 20_000 })
      .toEqual([]);
  });
});
