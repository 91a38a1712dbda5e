// What clients see of data that was changed behind the gateway's back: not one altered byte. The
// same attacks run on every kind of store, each on an object of its own, and stay in place until
// the verification has to find all of them, and nothing else.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ExtentRun, inlineStore } from '#bursar/core/manifest.js';
import {
  CatalogEditor,
  flipBit,
  type StoredExtents,
  swapChunks,
  withChunksOf,
} from '../tooling/attacks.ts';
import type { ServedGateway } from '../tooling/served-gateway.ts';
import { KiB, MiB, makeContent } from './content.ts';
import {
  type Failures,
  makeTenant,
  type Received,
  readFailures,
  readRecords,
  receive,
  verifyAll,
} from './integrity-client.ts';
import { S3Client } from './s3-client.ts';

export interface AttackTarget {
  gateway: ServedGateway;
  /** As `/_/health` names it. */
  storeName: string;
  extents: StoredExtents;
  /** Ends everything, also what is behind the gateway. */
  stop(): Promise<void>;
}

/** An object under attack, and others to take bytes from. */
interface Scene {
  extents: StoredExtents;
  catalog: CatalogEditor;
  runs: ExtentRun[];
  /** Another object of the size and the tenant. */
  other: ExtentRun[];
  /** One of another tenant. */
  foreign: ExtentRun[];
}

interface Attack {
  name: string;
  sizeBytes: number;
  kind: 'missing' | 'length' | 'chunk';
  apply(scene: Scene): void | Promise<void>;
  /** Bytes that come before the damage. */
  goodBytes(runs: ExtentRun[]): number;
  /** A range that the damage does not touch. */
  spared?: [start: number, end: number];
}

/** An object that cannot be read, and what is to be said of it. */
interface Failure {
  key: string;
  kind: string;
  storeName: string;
}

const C = 256 * KiB;
const small = 3 * C + 1000;
const large = 32 * MiB;
const bucket = 'attacked';
const timeoutMs = 120_000;

const nothing = () => 0;
const firstExtent = ([run]: ExtentRun[]) => (run as ExtentRun).length;

/** Changes what is stored of one extent, the first if no other is named. */
function edit(change: (sealed: Buffer) => Buffer, index = 0): Attack['apply'] {
  return ({ extents, runs }) => extents.edit(idOf(runs, index), change);
}

/** Puts the chunks of another object's first extent in the place of this one's. */
function replaceBy(source: 'other' | 'foreign'): Attack['apply'] {
  return ({ extents, runs, ...from }) => {
    const replacing = extents.read(idOf(from[source], 0));
    const { extentBytes } = runs[0] as ExtentRun;
    extents.edit(idOf(runs, 0), (sealed) => withChunksOf(sealed, replacing, extentBytes));
  };
}

function exchangeExtents({ extents, runs }: Scene): void {
  const { extentBytes } = runs[0] as ExtentRun;
  const [a, b] = [idOf(runs, 0), idOf(runs, 1)];
  const [first, second] = [extents.read(a), extents.read(b)];
  extents.write(a, withChunksOf(Buffer.from(first), second, extentBytes));
  extents.write(b, withChunksOf(Buffer.from(second), first, extentBytes));
}

function idOf(runs: ExtentRun[], index: number): Buffer {
  return (runs[index] as ExtentRun).id;
}

/** A small object is in the database, or an extent like any other. */
async function editSmall({ extents, catalog, runs }: Scene): Promise<void> {
  const { id, store } = runs[0] as ExtentRun;
  if (store !== inlineStore) {
    extents.edit(id, (sealed) => flipBit(sealed, 10));
    return;
  }
  const sql = 'SELECT body FROM extents WHERE id = ?';
  const body = (await catalog.get<{ body: Buffer }>(sql, id))?.body ?? Buffer.alloc(0);
  await catalog.run('UPDATE extents SET body = ? WHERE id = ?', flipBit(body, 10), id);
}

async function removeSmall({ extents, catalog, runs }: Scene): Promise<void> {
  const { id, store } = runs[0] as ExtentRun;
  if (store === inlineStore) await catalog.run('DELETE FROM extents WHERE id = ?', id);
  else extents.remove(id);
}

const attacks: Attack[] = [
  {
    name: 'the bytes of a small object are gone',
    sizeBytes: 3000,
    kind: 'missing',
    apply: removeSmall,
    goodBytes: nothing,
  },
  {
    name: 'a bit of a small object is flipped',
    sizeBytes: 3000,
    kind: 'chunk',
    apply: editSmall,
    goodBytes: nothing,
  },
  {
    name: 'a bit of the first chunk is flipped',
    sizeBytes: small,
    kind: 'chunk',
    apply: edit((sealed) => flipBit(sealed, 100)),
    goodBytes: nothing,
    spared: [C, small],
  },
  {
    name: 'a bit of a chunk in the middle is flipped',
    sizeBytes: small,
    kind: 'chunk',
    apply: edit((sealed) => flipBit(sealed, 2 * (C + 32) + C - 1)),
    goodBytes: () => 2 * C,
    spared: [3 * C, small],
  },
  {
    name: 'a bit of a tag is flipped',
    sizeBytes: small,
    kind: 'chunk',
    apply: edit((sealed) => flipBit(sealed, C + 32 + C + 5)),
    goodBytes: () => C,
    spared: [0, C],
  },
  {
    name: 'a bit of a later extent is flipped',
    sizeBytes: large,
    kind: 'chunk',
    apply: edit((sealed) => flipBit(sealed, 7), 1),
    goodBytes: firstExtent,
    spared: [0, C],
  },
  {
    name: 'two chunks are exchanged',
    sizeBytes: small,
    kind: 'chunk',
    apply: edit((sealed) => swapChunks(sealed, 1, 2)),
    goodBytes: () => C,
    spared: [3 * C, small],
  },
  {
    name: 'two extents of an object are exchanged',
    sizeBytes: large,
    kind: 'chunk',
    apply: exchangeExtents,
    goodBytes: nothing,
  },
  {
    name: 'an extent is cut at the end of a chunk',
    sizeBytes: small,
    kind: 'length',
    apply: edit((sealed) => sealed.subarray(0, 2 * (C + 32))),
    goodBytes: nothing,
  },
  {
    name: 'an extent is empty',
    sizeBytes: small,
    kind: 'length',
    apply: edit(() => Buffer.alloc(0)),
    goodBytes: nothing,
  },
  {
    name: 'a chunk is appended to an extent',
    sizeBytes: small,
    kind: 'length',
    apply: edit((sealed) => Buffer.concat([sealed, sealed.subarray(0, C + 32)])),
    goodBytes: nothing,
  },
  {
    name: 'an extent is replaced by a valid one of the same tenant',
    sizeBytes: small,
    kind: 'chunk',
    apply: replaceBy('other'),
    goodBytes: nothing,
  },
  {
    name: 'an extent is replaced by a valid one of another tenant',
    sizeBytes: small,
    kind: 'chunk',
    apply: replaceBy('foreign'),
    goodBytes: nothing,
  },
  {
    name: 'an extent is gone',
    sizeBytes: small,
    kind: 'missing',
    apply: ({ extents, runs }) => extents.remove(idOf(runs, 0)),
    goodBytes: nothing,
  },
];

/** `start` gives a gateway that stores what it is sent in the store under attack. */
export function describeAttacks(title: string, start: () => Promise<AttackTarget>): void {
  describe(title, { timeout: timeoutMs }, () => {
    let target: AttackTarget;
    let client: S3Client;
    let catalog: CatalogEditor;
    let other: ExtentRun[];
    let foreign: ExtentRun[];
    const attacked: Failure[] = [];
    const counted: Failures = {};

    beforeAll(async () => {
      target = await start();
      client = new S3Client(target.gateway);
      catalog = new CatalogEditor(target.gateway.dataDir);
      expect((await client.send('PUT', `/${bucket}`)).status).toBe(200);
      other = await put(client, bucket, { key: 'untouched', sizeBytes: small });
      const stranger = await makeTenant(client, target.gateway, 'strangers');
      expect((await stranger.send('PUT', '/foreign')).status).toBe(200);
      foreign = await put(stranger, 'foreign', { key: 'theirs', sizeBytes: small });
      stranger.close();
    }, timeoutMs);

    afterAll(async () => {
      catalog?.close();
      client?.close();
      await target?.stop();
    }, timeoutMs);

    /** Stores what `contentOf` the key gives. */
    async function put(
      by: S3Client,
      to: string,
      { key, sizeBytes }: { key: string; sizeBytes: number },
    ): Promise<ExtentRun[]> {
      const body = contentOf(key, sizeBytes);
      expect((await by.send('PUT', `/${to}/${key}`, { body })).status).toBe(200);
      return catalog.runsOf(to, key);
    }

    function count({ storeName, kind }: Failure): void {
      counted[storeName] ??= {};
      const kinds = counted[storeName];
      kinds[kind] = (kinds[kind] ?? 0) + 1;
    }

    /** What the record, the log and the counters must say of a read that failed. */
    async function expectTold(received: Received, failure: Failure): Promise<void> {
      const requestId = String(received.headers['x-amz-request-id']);
      const [record] = await readRecords(client, requestId);
      const error = 'BursarIntegrityError';
      expect(record).toMatchObject({ key: failure.key, status: 500, error });
      expect(record?.bytesOut).toBe(received.status === 500 ? 0 : received.bytes.length);
      count(failure);
      expect(await readFailures(client)).toEqual(counted);
      // Its own line, and that of each request: lines are written a moment later.
      const told = () =>
        target.gateway
          .output()
          .split('\n')
          .filter((line) => line.includes(requestId));
      await expect.poll(() => told().length).toBe(2);
      const damage = told().filter((line) => line.includes('failed authentication'));
      expect(damage).toHaveLength(1);
    }

    /** A GET must give the good bytes alone, and end in an error. */
    async function expectRefused(failure: Failure, good: Buffer, range?: string): Promise<void> {
      const headers: Record<string, string> = {};
      if (range !== undefined) headers.range = `bytes=${range}`;
      const received = await receive(client, `/${bucket}/${failure.key}`, headers);
      if (good.length === 0) {
        expect(received.status).toBe(500);
        expect(received.bytes.toString()).toContain('<Code>BursarIntegrityError</Code>');
      } else {
        expect(received.status).toBe(range === undefined ? 200 : 206);
        expect(received.isCut).toBe(true);
        expect(received.bytes.equals(good)).toBe(true);
      }
      await expectTold(received, failure);
    }

    it.each(attacks)('no altered byte is sent when $name', async (attack) => {
      const { sizeBytes, kind, spared } = attack;
      const key = keyOf(attack);
      const runs = await put(client, bucket, { key, sizeBytes });
      const storeName = runs[0]?.store === inlineStore ? 'catalog' : target.storeName;
      const failure = { key, kind, storeName };
      attacked.push(failure);
      await attack.apply({ extents: target.extents, catalog, runs, other, foreign });

      const content = contentOf(key, sizeBytes);
      const good = attack.goodBytes(runs);
      await expectRefused(failure, content.subarray(0, good));
      await expectRefused(failure, Buffer.alloc(0), `${good}-${good + 9}`);
      if (good > 0) {
        await expectRefused(failure, content.subarray(good - 9, good), `${good - 9}-${good + 9}`);
      }
      if (spared) {
        const [from, to] = spared;
        const headers = { range: `bytes=${from}-${to - 1}` };
        const received = await receive(client, `/${bucket}/${key}`, headers);
        expect(received.status).toBe(206);
        expect(received.bytes.equals(content.subarray(from, to))).toBe(true);
      }
    });

    it('no part is made of altered bytes', async () => {
      const [failure] = attacked as [Failure];
      const path = `/${bucket}/copied`;
      const begun = await client.send('POST', path, { query: [['uploads', '']] });
      const uploadId = /<UploadId>(.*?)</.exec(begun.body.toString())?.[1] as string;
      const query: [string, string][] = [
        ['partNumber', '1'],
        ['uploadId', uploadId],
      ];
      const headers = { 'x-amz-copy-source': `/${bucket}/${failure.key}` };
      const { status, body } = await client.send('PUT', path, { query, headers });
      expect(status).toBe(500);
      expect(body.toString()).toContain('<Code>BursarIntegrityError</Code>');
      count(failure);
    });

    it('the verification finds each attacked object, and no other', async () => {
      const { findings, versions } = await verifyAll(client);
      const found = findings.map((one) => `${one.tenant}/${one.bucket}/${one.key}: ${one.kind}`);
      const expected = attacked.map(({ key, kind }) => `default/${bucket}/${key}: ${kind}`);
      expect(found.sort()).toEqual(expected.sort());
      expect(versions).toBe(attacked.length + 2);
      attacked.forEach(count);
      expect(await readFailures(client)).toEqual(counted);
    });
  });
}

function keyOf({ name }: Attack): string {
  return name.replaceAll(' ', '-');
}

function contentOf(key: string, sizeBytes: number): Buffer {
  return makeContent(
    Buffer.from(key).reduce((sum, byte) => sum * 31 + byte, 7) % 2 ** 31,
    sizeBytes,
  ).bytes;
}
