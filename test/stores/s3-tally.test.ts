// What the driver says it asked of its server, held against what a proxy between them saw.
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import type { BackendUse } from '#bursar/core/backend-use.js';
import type { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { StoreTally } from '#bursar/tiering/stores/store-tally.js';
import { randomBelow, seededRandom } from '../fuzz/seeded-random.ts';
import type { Fault } from '../tooling/fault-proxy.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { listed, newId, piecesOf, type S3Rig, sizeOf, startS3Rig } from './s3-rig.ts';

// A fault may cost one of the store's own time-outs below.
vi.setConfig({ testTimeout: 240_000 });

const nothing: BackendUse = { puts: 0, gets: 0, frees: 0, sentBytes: 0, receivedBytes: 0 };

describeWithTool(versitygw, 'what an S3 store was asked', (path) => {
  const sizeBytes = 300_000;
  const pieces = piecesOf([262_144, sizeBytes - 262_144]);
  let rig: S3Rig;
  let store: S3Store;
  let own: StoreTally;

  beforeAll(async () => {
    rig = await startS3Rig(path);
    own = new StoreTally(2);
    const timeouts = { firstByteTimeoutMs: 20_000, stallTimeoutMs: 20_000 };
    store = await rig.open({ ...timeouts, hedgeShare: 1, tally: own });
  });
  afterAll(() => rig?.stop());
  afterEach(() => {
    rig.proxy.choose = () => undefined;
  });

  /** What the proxy saw while `work` was done. */
  async function watch(work: () => Promise<unknown>) {
    const { proxy } = rig;
    const before = { ...proxy.methods, ...proxy.bytes };
    await work();
    const since = (name: string) =>
      ((proxy.methods[name] ?? proxy.bytes[name as 'up']) || 0) -
      (before[name as keyof typeof before] ?? 0);
    const [put, get, remove] = [since('PUT'), since('GET') + since('HEAD'), since('DELETE')];
    return { put, get, remove, up: since('up'), down: since('down') };
  }

  /** Faults for the next requests, in order. */
  function inject(...faults: (Fault | undefined)[]): void {
    rig.proxy.choose = () => faults.shift();
  }

  const useOf = (tally: StoreTally): BackendUse => {
    const { store: _, ...use } = tally.take() ?? { store: 2, ...nothing };
    return use;
  };

  const readInto = (id: Buffer, tally: StoreTally) => {
    const into = pieces.map((piece) => Buffer.alloc(piece.length));
    return store.read({ id, sizeBytes, position: 0, into, tally });
  };

  async function stored(): Promise<Buffer> {
    const id = newId();
    await store.put(id, pieces, new StoreTally(2));
    return id;
  }

  it('counts an extent that is put, read and removed, to the byte', async () => {
    const [id, tally] = [newId(), new StoreTally(2)];
    const seen = await watch(async () => {
      await store.put(id, pieces, tally);
      await readInto(id, tally);
      await store.remove(id, tally);
    });
    expect(seen).toEqual({ put: 1, get: 1, remove: 1, up: sizeBytes, down: sizeBytes });
    const moved = { sentBytes: sizeBytes, receivedBytes: sizeBytes };
    expect(useOf(tally)).toEqual({ puts: 1, gets: 1, frees: 1, ...moved });
  });

  it('gives what was taken once only', async () => {
    const tally = new StoreTally(2);
    await store.put(newId(), pieces, tally);
    expect(tally.take()).not.toBeNull();
    expect(tally.take()).toBeNull();
  });

  it('counts no request as billed that the server failed at by itself', async () => {
    const [id, tally] = [newId(), new StoreTally(2)];
    inject({ kind: 'status', status: 503, code: 'SlowDown' });
    const seen = await watch(() => store.put(id, pieces, tally));
    expect(seen.put).toBe(2);
    const use = useOf(tally);
    // Before it is tried again it is looked whether it was carried out.
    expect(use).toMatchObject({ puts: 1, gets: 1, frees: 1 });
    expect(use.sentBytes).toBeGreaterThanOrEqual(seen.up);
    expect(use.receivedBytes).toBe(seen.down);
  });

  it('counts a put again that broke off', async () => {
    const [id, tally] = [newId(), new StoreTally(2)];
    inject({ kind: 'reset', at: 'upload', afterBytes: 100_000 });
    const seen = await watch(() => store.put(id, pieces, tally));
    const { puts, gets, frees, sentBytes } = useOf(tally);
    // Before the second one is sent, it is looked whether the first was carried out.
    expect({ puts, gets, frees }).toEqual({ puts: seen.put, gets: seen.get, frees: 0 });
    expect(seen.put).toBe(2);
    expect(sentBytes).toBeGreaterThanOrEqual(seen.up);
    expect(sentBytes).toBeLessThanOrEqual(2 * sizeBytes);
  });

  it('counts the look whether a put was carried out whose answer was lost', async () => {
    const [id, tally] = [newId(), new StoreTally(2)];
    inject({ kind: 'reset', at: 'answer' });
    const seen = await watch(() => store.put(id, pieces, tally));
    expect(seen).toMatchObject({ put: 1, get: 1 });
    expect(useOf(tally)).toMatchObject({ puts: 1, gets: 1, receivedBytes: sizeBytes });
  });

  it('counts both tries of a read that broke off, and each byte that came', async () => {
    const [id, tally] = [await stored(), new StoreTally(2)];
    inject({ kind: 'truncate', afterBytes: 120_000 });
    const seen = await watch(() => readInto(id, tally));
    expect(seen).toMatchObject({ get: 2, down: sizeBytes });
    expect(useOf(tally)).toEqual({ ...nothing, gets: 2, receivedBytes: sizeBytes });
  });

  it('counts the second request for a slow read, whichever wins', async () => {
    const id = await stored();
    // So slow that a second request, which is sent when a read is slower, reaches the server last.
    rig.proxy.choose = () => ({ kind: 'slow-first-byte', delayMs: 100 });
    for (let i = 0; i < 100; i += 5) {
      await Promise.all([1, 2, 3, 4, 5].map(() => readInto(id, new StoreTally(2))));
    }
    for (const winner of ['first', 'second']) {
      const tally = new StoreTally(2);
      const late: Fault = { kind: 'slow-first-byte', delayMs: 15_000 };
      const soon: Fault = { kind: 'slow-first-byte', delayMs: 1000 };
      if (winner === 'first') inject(soon, late);
      else inject(late);
      const before = store.state().hedges;
      const seen = await watch(() => readInto(id, tally));
      const after = store.state().hedges;
      expect(after.sent - before.sent).toBe(1);
      expect(after.won - before.won).toBe(winner === 'first' ? 0 : 1);
      expect(seen.get).toBe(2);
      expect(useOf(tally)).toEqual({ ...nothing, gets: 2, receivedBytes: sizeBytes });
    }
  });

  it('counts of an abandoned read what had come by then', async () => {
    const [id, tally] = [newId(), new StoreTally(2)];
    const patient = await rig.open({ hedgeShare: 0 });
    await patient.put(id, pieces);
    const abort = new AbortController();
    inject({ kind: 'stall', at: 'download', afterBytes: 150_000 });
    const into = [Buffer.alloc(sizeBytes)];
    const { signal } = abort;
    const reading = patient.read({ id, sizeBytes, position: 0, into, tally, signal });
    const ended = expect(reading).rejects.toThrow('the client left');
    const { proxy } = rig;
    const sent = proxy.bytes.down;
    while (proxy.bytes.down - sent < 150_000) await new Promise((r) => setTimeout(r, 5));
    await new Promise((r) => setTimeout(r, 50));
    abort.abort(new Error('the client left'));
    await ended;
    expect(useOf(tally)).toEqual({ ...nothing, gets: 1, receivedBytes: 150_000 });
  });

  it('counts no try that found no server', async () => {
    const tally = new StoreTally(2);
    const quick = await rig.open({ retryPolicy: { triesMax: 2, pauseMsMin: 1, pauseMsMax: 1 } });
    await rig.proxy.refuse();
    try {
      // Until the connections that were open are known to be none.
      for (let tries = 0; tries < 20; tries++) {
        const before = new StoreTally(2);
        await expect(quick.put(newId(), pieces, before)).rejects.toThrow();
        if (useOf(before).puts === 0) break;
      }
      await expect(quick.put(newId(), pieces, tally)).rejects.toThrow();
    } finally {
      await rig.proxy.accept();
    }
    expect(useOf(tally)).toEqual(nothing);
  });

  it('counts as its own what was asked for no operation: the probe, names, listings', async () => {
    const tally = new StoreTally(2);
    let lists = 0;
    rig.proxy.choose = ({ target }) => {
      if (target.includes('list-type=2')) lists++;
      return undefined;
    };
    const seen = await watch(async () => {
      const other = await rig.open({ tally });
      await other.putObject('name', Buffer.from('text'));
      await other.getObject('name');
      await listed(other);
      await other.removeObject('name');
    });
    expect(lists).toBeGreaterThan(1);
    const { puts, gets, frees, sentBytes } = useOf(tally);
    expect({ puts, gets, frees }).toEqual({
      puts: seen.put + lists,
      gets: seen.get - lists,
      frees: seen.remove,
    });
    expect(sentBytes).toBe(seen.up);
  });

  it('counts each request that its server saw once, whatever goes wrong', async () => {
    const random = seededRandom(20_261_121);
    const any: Fault[] = [
      { kind: 'reset', at: 'answer' },
      { kind: 'status', status: 500, code: 'InternalError' },
      { kind: 'status', status: 503, code: 'SlowDown', carriedOut: true },
      { kind: 'garbage' },
    ];
    const faults: Record<string, Fault[]> = {
      PUT: [...any, { kind: 'reset', at: 'upload', afterBytes: 70_000 }],
      GET: [
        ...any,
        { kind: 'reset', at: 'download', afterBytes: 90_000 },
        { kind: 'truncate', afterBytes: 200_000 },
        { kind: 'shorten', byBytes: 10 },
        { kind: 'error-in-200', keepHeaders: true },
        { kind: 'slow-first-byte', delayMs: 30 },
      ],
      DELETE: any,
    };
    rig.proxy.choose = ({ method }) => {
      const fitting = faults[method] ?? any;
      return randomBelow(random, 3) === 0
        ? fitting[randomBelow(random, fitting.length)]
        : undefined;
    };
    own.take();
    const tally = new StoreTally(2);
    const seen = await watch(async () => {
      for (let round = 0; round < 20; round++) {
        await Promise.allSettled(
          Array.from({ length: 4 }, async () => {
            const id = newId();
            await store.put(id, pieces, tally);
            await readInto(id, tally);
            await store.remove(id, tally);
          }),
        );
      }
      // Hedges that were abandoned on their way to the server are still on it.
      await new Promise((r) => setTimeout(r, 200));
    });
    const { puts, gets, frees, sentBytes, receivedBytes } = useOf(tally);
    expect(puts + gets + frees).toBe(seen.put + seen.get + seen.remove);
    expect(sentBytes).toBeGreaterThanOrEqual(seen.up);
    expect(receivedBytes).toBeLessThanOrEqual(seen.down);
    expect(receivedBytes).toBeGreaterThan(60 * sizeOf(pieces));
    expect(own.take()).toBeNull();
  });
});
