// What clients see of data that was changed behind the gateway's back: not one altered byte. The same
// attacks run on every kind of store, each on an object of its own, and stay in place until the
// verification has to find all of them, and nothing else.
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ExtentRun } from '#bursar/core/manifest.js';
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
  apply(scene: Scene): void;
  /** Bytes that come before the damage. */
  goodBytes(runs: ExtentRun[]): number;
  /** A range that the damage does not touch. */
  spared?: [start: number, end: number];
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

const attacks: Attack[] = [
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
    const failures: Record<string, number> = {};

    beforeAll(async () => {
      target = await start();
      client = new S3Client(target.gateway);
      catalog = new CatalogEditor(target.gateway.dataDir);
      await client.send('PUT', `/${bucket}`);
      other = await put(client, bucket, { key: 'untouched', sizeBytes: small });
      const stranger = await makeTenant(client, target.gateway, 'strangers');
      await stranger.send('PUT', '/foreign');
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

    /** What the record, the log and the counters must say of a read that failed. */
    async function expectTold(received: Received, key: string, kind: string): Promise<void> {
      const requestId = String(received.headers['x-amz-request-id']);
      const [record] = await readRecords(client, requestId);
      expect(record).toMatchObject({ key, status: 500, error: 'BursarIntegrityError' });
      const isAnswered = received.status === 500;
      expect(record?.bytesOut).toBe(isAnswered ? 0 : received.bytes.length);
      failures[kind] = (failures[kind] ?? 0) + 1;
      expect(await readFailures(client)).toEqual({ [target.storeName]: failures });
      const lines = target.gateway.output().split('\n');
      expect(lines.filter((line) => line.includes(requestId))).toHaveLength(1);
    }

    /** A GET of `[start, end)` must give the good bytes alone, and end in an error. */
    async function expectRefused(
      { key, kind }: { key: string; kind: string },
      good: Buffer,
      headers: Record<string, string>,
    ): Promise<void> {
      const received = await receive(client, `/${bucket}/${key}`, headers);
      if (good.length === 0) {
        expect(received.status).toBe(500);
        expect(received.bytes.toString()).toContain('<Code>BursarIntegrityError</Code>');
      } else {
        expect(received.status).toBe(headers.range ? 206 : 200);
        expect(received.isCut).toBe(true);
        expect(received.bytes.equals(good)).toBe(true);
      }
      await expectTold(received, key, kind);
    }

    it.each(attacks)('no altered byte is sent when $name', async (attack) => {
      const { sizeBytes, kind, spared } = attack;
      const key = keyOf(attack);
      const runs = await put(client, bucket, { key, sizeBytes });
      const content = contentOf(key, sizeBytes);
      attack.apply({ extents: target.extents, runs, other, foreign });
      const goodBytes = attack.goodBytes(runs);

      await expectRefused({ key, kind }, content.subarray(0, goodBytes), {});
      const touching = { range: `bytes=${goodBytes}-${goodBytes + 9}` };
      await expectRefused({ key, kind }, Buffer.alloc(0), touching);
      if (goodBytes > 0) {
        const across = { range: `bytes=${goodBytes - 10}-${goodBytes + 9}` };
        await expectRefused({ key, kind }, content.subarray(goodBytes - 10, goodBytes), across);
      }
      if (spared) {
        const [from, to] = spared;
        const range = `bytes=${from}-${to - 1}`;
        const received = await receive(client, `/${bucket}/${key}`, { range });
        expect(received.status).toBe(206);
        expect(received.bytes.equals(content.subarray(from, to))).toBe(true);
      }
    });

    it('the verification finds each attacked object, and no other', async () => {
      const { findings, versions } = await verifyAll(client);
      const found = findings.map((one) => `${one.tenant}/${one.bucket}/${one.key}: ${one.kind}`);
      const expected = attacks.map((one) => `default/${bucket}/${keyOf(one)}: ${one.kind}`);
      expect(found.sort()).toEqual(expected.sort());
      expect(versions).toBe(attacks.length + 2);
      for (const { kind } of attacks) failures[kind] = (failures[kind] ?? 0) + 1;
      expect(await readFailures(client)).toEqual({ [target.storeName]: failures });
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
