// Objects in a remote store, written and read back through the whole room, with a real S3 server
// behind: what is put there, how little is held meanwhile, and how both ends stop. Where extents
// end is shown with extents of 1 MiB; BURSAR_FULL=1 has twice as many streams share the buffers.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { Refusal } from '#bursar/core/errors.js';
import { newExtentId } from '#bursar/core/ids.js';
import { StoreMeter } from '#bursar/instruments/store-meter.js';
import { checksumAlgorithms, computeChecksum } from '#bursar/tiering/checksums.js';
import { sealedBytes } from '#bursar/tiering/chunk-format.js';
import { readExtentMetadata } from '#bursar/tiering/extent-metadata.js';
import type { WrittenObject } from '#bursar/tiering/object-writer.js';
import type { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { StoreGate } from '#bursar/tiering/stores/store-gate.js';
import { listed, type S3Rig, startS3Rig } from '../stores/s3-rig.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import {
  C,
  describeObject,
  finish,
  KiB,
  MiB,
  makeBytes,
  makeRandom,
  makeRig,
  placeOf,
  pushAll,
  type Rig,
  type RigOptions,
} from './rig.ts';

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

/** An extent as the store of most tests wants it, and as a store does by itself; bytes. */
const X = 1 * MiB;
const defaultX = 8 * MiB;
const streams = process.env.BURSAR_FULL === '1' ? 32 : 16;

describeWithTool(versitygw, 'objects in a remote store', (path) => {
  let s3: S3Rig;
  let store: S3Store;
  let rig: Rig;
  beforeAll(async () => {
    s3 = await startS3Rig(path);
    store = await s3.open({ extentBytesMax: X });
    rig = await makeRig({ remotes: [store] });
  });
  afterAll(async () => {
    await rig.close();
    await s3.stop();
  });

  const put = (body: Buffer, more: Parameters<Rig['put']>[1] = {}) =>
    rig.put(body, { store: 2, ...more });

  /** A rig of its own, with a prefix of its own. */
  async function makeOwn(options: RigOptions = {}, extentBytesMax = X) {
    const own = await s3.open({ extentBytesMax });
    return { own, rig: await makeRig({ remotes: [own], ...options }) };
  }

  const begin = (sizeBytes: number, more: { rig?: Rig; recall?: () => void } = {}) =>
    (more.rig ?? rig).writer.begin({
      ...placeOf('cms', 2),
      sizeBytes,
      checksums: [],
      recall: more.recall,
    });

  describe('what was written reads back, with its digests', () => {
    const small = 64 * KiB;
    const sizes = [0, 1, 4096, small, small + 1, C - 1, C, C + 1, X - 1, X, X + 1, 2 * X + C + 77];

    it.each(sizes)('%i bytes in odd pushes', async (sizeBytes) => {
      const body = makeBytes(sizeBytes, sizeBytes + 1);
      const random = makeRandom(sizeBytes);
      const push = () => Math.floor(random() ** 3 * 300_000);
      const object = await put(body, { push });
      expect(object.md5).toEqual(createHash('md5').update(body).digest());
      expect(object.sha256).toEqual(createHash('sha256').update(body).digest());
      expect(object.inline).toBeNull();
      expect(object.runs.map((run) => run.length)).toEqual(
        Array.from({ length: Math.ceil(sizeBytes / X) }, (_, i) => Math.min(X, sizeBytes - i * X)),
      );
      const [only] = object.runs;
      if (only && rig.reader.isSmallRemote(only)) {
        expect((await rig.reader.openRemote('cms', only)).equals(body)).toBe(true);
      }
      expect((await rig.get(object)).equals(body)).toBe(true);
      expect(rig.buffers.inUse).toBe(0);
    });

    it('in extents of 8 MiB, unless the store wants others', async () => {
      const own = await s3.open();
      const rig = await makeRig({ remotes: [own] });
      const body = makeBytes(defaultX + 1);
      const object = await rig.put(body, { store: 2 });
      expect(object.runs.map((run) => run.length)).toEqual([defaultX, 1]);
      expect((await rig.get(object)).equals(body)).toBe(true);
      await rig.close();
    });

    it.each(checksumAlgorithms)('with the asked %s, small and large', async (checksum) => {
      for (const body of [makeBytes(5000), makeBytes(2 * C + 5)]) {
        const object = await put(body, { checksums: [checksum] });
        expect(object.checksums).toEqual([computeChecksum(checksum, body)]);
      }
    });
  });

  it('a range at every boundary gives exactly the bytes asked for', async () => {
    const body = makeBytes(X + C + 5, 3);
    const object = await put(body);
    const size = body.length;
    const points = [0, 1, C, C + 1, X - 1, X, X + 1, X + C, size];
    for (const start of points) {
      for (const end of points) {
        if (start >= end) continue;
        const read = await rig.get(object, { start, end });
        expect(read.equals(body.subarray(start, end)), `${start} to ${end}`).toBe(true);
      }
    }
  });

  it('streams tell the next how many transfers were right, each way by itself', async () => {
    const meter = new StoreMeter();
    const own = await s3.open({ meter, extentBytesMax: C });
    const large = await makeRig({ remotes: [own] });
    const body = makeBytes(24 * C);
    const object = await large.put(body, { store: 2 });
    const { read, write } = meter.streams;
    expect(write.current).toBeGreaterThanOrEqual(4);
    expect(write.current).toBeLessThanOrEqual(8);
    expect(read.current).toBeNull();
    expect(own.meter.openStream('write').settledBefore).toBe(write.current);
    expect((await large.get(object)).equals(body)).toBe(true);
    expect(read.rates.counts.reduce((sum, count) => sum + count, 0)).toBeGreaterThan(0);
    await large.close();
  });

  it('each extent says what a lost catalog would need, and the last one all', async () => {
    const upload = { id: 'upload', part: 7 };
    const whole = await put(makeBytes(2 * X + 5));
    const small = await put(makeBytes(100));
    const sink = rig.writer.begin({
      ...placeOf('cms', 2),
      place: { ...placeOf().place, upload },
      sizeBytes: C + 1,
      checksums: [],
    });
    await sink.write(makeBytes(C + 1));
    const part = await sink.seal(await sink.digest(), null);
    const sizes = await listed(store);
    for (const object of [whole, small, part]) {
      const write = object.runs[0]?.id.toString('hex');
      let offset = 0;
      for (const [index, run] of object.runs.entries()) {
        const found = await readExtentMetadata(store, rig.keyring, run.id);
        const { extentBytes, algorithm, epoch, trailerBytes } = run;
        const sizeBytes = sealedBytes(extentBytes) + trailerBytes;
        expect(sizes[run.id.toString('hex')]).toBe(sizeBytes);
        const isLast = index === object.runs.length - 1;
        expect(found).toMatchObject({ trailerBytes, sizeBytes });
        expect(found?.metadata).toEqual({
          ...placeOf().place,
          ...(object === part ? { upload } : {}),
          ...{ write, index, offset, extentBytes, algorithm, epoch },
          ...(isLast && object !== part
            ? {
                last: {
                  ...describeObject(object),
                  extentCount: object.runs.length,
                  sizeBytes: object.sizeBytes,
                  sha256: object.sha256.toString('hex'),
                  timeMs: expect.any(Number),
                },
              }
            : {}),
        });
        offset += extentBytes;
      }
    }
  });

  describe('a write that ends early', () => {
    it('leaves no extent and no buffer, wherever it is aborted', async () => {
      const { own, rig } = await makeOwn();
      const random = makeRandom(11);
      const body = makeBytes(2 * X + 3 * C);
      for (let round = 0; round < 12; round++) {
        const sink = begin(body.length, { rig });
        const stopAt = Math.floor(random() * body.length);
        let pending: Promise<void> | null = null;
        for (let at = 0; at < stopAt; at += 100_000) {
          pending = sink.write(body.subarray(at, at + 100_000));
          // In odd rounds the abort comes while the last push still waits.
          if (at + 100_000 < stopAt || round % 2 === 0) await pending;
        }
        const settled = Promise.resolve(pending).catch(() => null);
        await sink.abort();
        await sink.abort();
        await settled;
        expect(rig.buffers.inUse).toBe(0);
      }
      expect(await listed(own)).toEqual({});
      await rig.close();
    });

    it.each([100, 2 * C])('a refused body of %i bytes is never sent', async (sizeBytes) => {
      const { own, rig } = await makeOwn();
      const sink = begin(sizeBytes, { rig });
      await sink.write(makeBytes(sizeBytes));
      await sink.digest();
      expect(await listed(own)).toEqual({});
      await sink.abort();
      expect(rig.buffers.inUse).toBe(0);
      await rig.close();
    });

    it.each([100, X + C])('after its seal, an abort removes all %i bytes', async (sizeBytes) => {
      const { own, rig } = await makeOwn();
      const sink = begin(sizeBytes, { rig });
      await pushAll(sink, makeBytes(sizeBytes), C);
      await finish(sink);
      expect(Object.keys(await listed(own))).toHaveLength(Math.ceil(sizeBytes / X));
      await sink.abort();
      expect(await listed(own)).toEqual({});
      await rig.close();
    });

    it.each([100, X + C])('leaves all %i bytes in a place that was taken', async (sizeBytes) => {
      // Who took it may have found a whole object there.
      let isTaken = false;
      const confirmPlace = async () => {
        if (isTaken) throw new Refusal('ServiceUnavailable');
      };
      const own = await s3.open({ extentBytesMax: X, confirmPlace });
      const rig = await makeRig({ remotes: [own] });
      const sink = begin(sizeBytes, { rig });
      await pushAll(sink, makeBytes(sizeBytes), C);
      await finish(sink);
      isTaken = true;
      await sink.abort();
      expect(Object.keys(await listed(own))).toHaveLength(Math.ceil(sizeBytes / X));
      expect(rig.buffers.inUse).toBe(0);
      await rig.close();
    });

    it.each([100, 3 * C])('%i bytes that have no id are not sent', async (sizeBytes) => {
      const { own, rig } = await makeOwn();
      const sink = rig.writer.begin({
        ...placeOf('cms', 2),
        takeId: async () => {
          throw new Refusal('ServiceUnavailable');
        },
        sizeBytes,
        checksums: [],
      });
      const written = (async () => {
        await pushAll(sink, makeBytes(sizeBytes), C);
        await finish(sink);
      })();
      await expect(written).rejects.toMatchObject({ code: 'ServiceUnavailable' });
      await sink.abort();
      expect(await listed(own)).toEqual({});
      expect(rig.buffers.inUse).toBe(0);
      await rig.close();
    });
  });

  describe('a store that is away', () => {
    it.each([100, 3 * X])('refuses a write of %i bytes, and nothing is held', async (sizeBytes) => {
      const { own, rig } = await makeOwn();
      s3.proxy.choose = () => ({ kind: 'status', status: 503, code: 'ServiceUnavailable' });
      const sink = begin(sizeBytes, { rig });
      const written = (async () => {
        await pushAll(sink, makeBytes(sizeBytes), C);
        await finish(sink);
      })();
      await expect(written).rejects.toBeInstanceOf(Refusal);
      await sink.abort();
      s3.proxy.choose = () => undefined;
      expect(rig.buffers.inUse).toBe(0);
      expect(await listed(own)).toEqual({});
      await rig.close();
    });

    it.each([100, 3 * C])('refuses a read of %i bytes, and nothing is held', async (sizeBytes) => {
      const object = await put(makeBytes(sizeBytes));
      s3.proxy.choose = () => ({ kind: 'status', status: 503, code: 'ServiceUnavailable' });
      await expect(rig.get(object)).rejects.toBeInstanceOf(Refusal);
      s3.proxy.choose = () => undefined;
      expect(rig.buffers.inUse).toBe(0);
    });

    it('in the middle of a write fails it by a promise, as any failure does', async () => {
      const gate = new StoreGate({ number: 2, name: 'remote', reason: 'not reached yet' });
      gate.open(store);
      const own = await makeRig({ remotes: [gate] });
      const sink = begin(20 * MiB, { rig: own });
      await sink.write(makeBytes(C));
      gate.shut('it was taken over');
      const refused = { code: 'ServiceUnavailable' };
      await expect(sink.write(makeBytes(C))).rejects.toMatchObject(refused);
      await sink.abort();
      expect(own.buffers.inUse).toBe(0);
      await own.close();
    });

    it('that is not configured is refused by name of its number', async () => {
      expect(() => rig.writer.begin({ ...placeOf('cms', 9), sizeBytes: 1, checksums: [] })).toThrow(
        'Store 9',
      );
      const object = await put(makeBytes(3 * C));
      const runs = object.runs.map((run) => ({ ...run, store: 9 }));
      await expect(rig.get({ ...object, runs })).rejects.toMatchObject({
        code: 'ServiceUnavailable',
      });
    });
  });

  it('reads go on where the network broke off, with every byte right', async () => {
    const body = makeBytes(2 * X, 77);
    const object = await put(body);
    let requests = 0;
    s3.proxy.choose = ({ method }) =>
      method === 'GET' && requests++ % 2 === 0
        ? { kind: 'reset', at: 'download', afterBytes: 300_000 }
        : undefined;
    const read = await rig.get(object);
    s3.proxy.choose = () => undefined;
    expect(read.equals(body)).toBe(true);
    expect(requests).toBeGreaterThan(2);
  });

  it('a read that nobody waits for any more is ended, and says why', async () => {
    const object = await put(makeBytes(3 * C));
    s3.proxy.choose = () => ({ kind: 'stall', at: 'download', afterBytes: C + 1000 });
    const gone = new AbortController();
    const read = rig.reader.read({
      tenant: 'cms',
      runs: object.runs,
      inlineBody: async () => Buffer.alloc(0),
      signal: gone.signal,
    });
    expect((await read.next()).value).toHaveLength(C);
    const next = read.next();
    const reason = new Error('the client left');
    gone.abort(reason);
    await expect(next).rejects.toBe(reason);
    s3.proxy.choose = () => undefined;
    expect(rig.buffers.inUse).toBe(0);
  });

  it('a reader that is left early gives its buffers back', async () => {
    const object = await put(makeBytes(12 * X));
    for (const pieces of [0, 1, 2, 20, 40]) {
      const read = rig.reader.read({
        tenant: 'cms',
        runs: object.runs,
        inlineBody: async () => Buffer.alloc(0),
      });
      for (let i = 0; i < pieces; i++) await read.next();
      await read.return();
      expect(rig.buffers.inUse).toBe(0);
    }
  });

  describe('memory', () => {
    it(`${2 * streams} writers and readers stay within eleven buffers, and all end`, async () => {
      const { rig } = await makeOwn({ bytesMax: 3 * MiB }, defaultX);
      let mostInUse = 0;
      const body = makeBytes(9 * C + 1);
      const write = () =>
        rig.put(body, {
          store: 2,
          push: () => {
            mostInUse = Math.max(mostInUse, rig.buffers.inUse);
            return 50_000;
          },
        });
      const objects = await Promise.all(Array.from({ length: streams }, write));
      const [bodies] = await Promise.all([
        Promise.all(objects.map((object) => rig.get(object))),
        Promise.all(Array.from({ length: streams }, write)),
      ]);
      expect(bodies.every((read) => read.equals(body))).toBe(true);
      expect(mostInUse).toBeGreaterThan(0);
      expect(mostInUse).toBeLessThanOrEqual(11);
      expect(rig.buffers.inUse).toBe(0);
      await rig.close();
    });

    it('a pool of one buffer is enough', async () => {
      const { rig } = await makeOwn({ bytesMax: 300 * KiB }, defaultX);
      const body = makeBytes(3 * C + 1);
      const object = await rig.put(body, { store: 2 });
      expect(object.runs.map((run) => run.length)).toEqual([C, C, C, 1]);
      expect((await rig.get(object)).equals(body)).toBe(true);
      await rig.close();
    });

    it('what a client that stalls has sent makes room for others, and it may go on', async () => {
      const { rig } = await makeOwn({ bytesMax: 2 * MiB, loanMsMin: 0 }, defaultX);
      const body = makeBytes(8 * C, 5);
      const recall = vi.fn();
      const slow = begin(body.length, { rig, recall });
      await slow.write(body.subarray(0, 6 * C + 1));
      expect(rig.buffers.inUse).toBe(7);
      // Nothing is free: it comes from the chunks that wait for their extent to be full.
      const other = makeBytes(2 * C, 6);
      const object = await rig.put(other, { store: 2 });
      expect((await rig.get(object)).equals(other)).toBe(true);
      expect(recall).not.toHaveBeenCalled();
      await slow.write(body.subarray(6 * C + 1));
      const written: WrittenObject = await finish(slow);
      expect(written.runs.map((run) => run.length)).toEqual([6 * C, 2 * C]);
      expect((await rig.get(written)).equals(body)).toBe(true);
      await rig.close();
    });

    it('a client that never ends what it has sent is cut for others', async () => {
      const { rig } = await makeOwn({ bytesMax: 1 * MiB, loanMsMin: 0 }, defaultX);
      const aborted = new Promise<void>((resolve) => {
        const slow = begin(3 * C, { rig, recall: () => resolve(slow.abort()) });
        // All of it, but whoever reads the client's trailers has not called `finish` yet.
        void slow.write(makeBytes(3 * C));
      });
      const object = await rig.put(makeBytes(C), { store: 2 });
      await aborted;
      expect(object.runs).toHaveLength(1);
      expect(rig.buffers.inUse).toBe(0);
      await rig.close();
    });

    it('a client that reads nothing keeps little, however long the object', async () => {
      const { rig } = await makeOwn({}, defaultX);
      const object = await rig.put(makeBytes(3 * defaultX), { store: 2, push: C });
      const read = rig.reader.read({
        tenant: 'cms',
        runs: object.runs,
        inlineBody: async () => Buffer.alloc(0),
      });
      await read.next();
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(rig.buffers.inUse).toBeLessThanOrEqual(32);
      await read.return();
      await rig.close();
    });
  });

  it('ids that come late do not change the order of the bytes', async () => {
    const { rig } = await makeOwn();
    const body = makeBytes(2 * X + C, 9);
    const sink = rig.writer.begin({
      ...placeOf('cms', 2),
      takeId: () => new Promise((resolve) => setImmediate(() => resolve(newExtentId()))),
      sizeBytes: body.length,
      checksums: [],
    });
    await pushAll(sink, body, 70_000);
    const object = await finish(sink);
    expect(object.sha256).toEqual(createHash('sha256').update(body).digest());
    expect((await rig.get(object)).equals(body)).toBe(true);
    await rig.close();
  });
});
