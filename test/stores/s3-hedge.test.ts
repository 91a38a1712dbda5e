import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { StoreTrace, TracedTry, TryTrace } from '#bursar/core/store-trace.js';
import { MetricRegistry } from '#bursar/instruments/metric-registry.js';
import { StoreMeter, StoreMeters } from '#bursar/instruments/store-meter.js';
import { watchStoreMeters } from '#bursar/instruments/store-metrics.js';
import { failureCauses } from '#bursar/tiering/stores/attempt-failure.js';
import { HedgeBudget } from '#bursar/tiering/stores/s3/hedge-budget.js';
import type { S3Store } from '#bursar/tiering/stores/s3/s3-store.js';
import { StoreTally } from '#bursar/tiering/stores/store-tally.js';
import type { Fault } from '../tooling/fault-proxy.ts';
import { parseMetrics, totalOf } from '../tooling/metrics-text.ts';
import { describeWithTool, versitygw } from '../tooling/tools.ts';
import { newId, piecesOf, readWhole, type S3Rig, startS3Rig } from './s3-rig.ts';

vi.setConfig({ testTimeout: 60_000 });

describeWithTool(versitygw, 'a small read of an S3 store', (path) => {
  const sizeBytes = 4096;
  const id = newId();
  const [bytes = Buffer.alloc(0)] = piecesOf([sizeBytes]);
  let rig: S3Rig;
  let store: S3Store;

  beforeAll(async () => {
    rig = await startS3Rig(path);
    const timeouts = { firstByteTimeoutMs: 20_000, stallTimeoutMs: 20_000 };
    store = await rig.open({ ...timeouts, hedgeShare: 1 });
    await store.put(id, [bytes]);
    // So many that the store knows what is slow.
    for (let i = 0; i < 100; i++) await readWhole(store, id, sizeBytes);
  });
  afterAll(() => rig?.stop());
  afterEach(() => {
    rig.proxy.choose = () => undefined;
  });

  /** One request meets the fault. */
  function injectOnce(fault: Fault): void {
    let left = 1;
    rig.proxy.choose = () => (left-- > 0 ? fault : undefined);
  }

  it.each<[string, Fault]>([
    ['begins late', { kind: 'slow-first-byte', delayMs: 15_000 }],
    ['never begins', { kind: 'stall', at: 'answer' }],
    ['stalls in mid-body', { kind: 'stall', at: 'download', afterBytes: 1000 }],
  ])('is answered by a second request when the first %s', async (_, fault) => {
    const before = store.state();
    injectOnce(fault);
    expect((await readWhole(store, id, sizeBytes)).equals(bytes)).toBe(true);
    const after = store.state();
    expect(after.hedges.sent - before.hedges.sent).toBe(1);
    expect(after.hedges.won - before.hedges.won).toBe(1);
    expect(after.retries).toEqual(before.retries);
    expect(after.inFlight).toBe(0);
  });

  it('fills each piece once, whichever request brings its bytes', async () => {
    const filled: number[] = [];
    const into = [Buffer.alloc(500), Buffer.alloc(1000), Buffer.alloc(sizeBytes - 1500)];
    injectOnce({ kind: 'stall', at: 'download', afterBytes: 1000 });
    await store.read({ id, sizeBytes, position: 0, into, filled: (index) => filled.push(index) });
    expect(filled).toEqual([0, 1, 2]);
    expect(Buffer.concat(into).equals(bytes)).toBe(true);
  });

  it('takes up where the first request had come to when the second wins', async () => {
    // Of a busy machine: a first request whose connection was lost is sent again, and counts twice.
    await vi.waitFor(async () => {
      const first = rig.proxy.requests;
      rig.proxy.choose = ({ index }) =>
        index === first
          ? { kind: 'stall', at: 'download', afterBytes: 1000, delayMs: 150 }
          : { kind: 'slow-first-byte', delayMs: 400 };
      const filled: number[] = [];
      const into = [Buffer.alloc(500), Buffer.alloc(1000), Buffer.alloc(sizeBytes - 1500)];
      const { won } = store.state().hedges;
      await store.read({ id, sizeBytes, position: 0, into, filled: (index) => filled.push(index) });
      expect(filled).toEqual([0, 1, 2]);
      expect(Buffer.concat(into).equals(bytes)).toBe(true);
      expect(store.state().hedges.won - won).toBe(1);
    }, 10_000);
  });

  it('keeps to the first answer when it comes first after all', async () => {
    const before = store.state().hedges;
    rig.proxy.choose = ({ index }) => ({
      kind: 'slow-first-byte',
      delayMs: index === first ? 200 : 15_000,
    });
    const first = rig.proxy.requests;
    expect((await readWhole(store, id, sizeBytes)).equals(bytes)).toBe(true);
    const after = store.state().hedges;
    expect(after.sent - before.sent).toBe(1);
    expect(after.lost - before.lost).toBe(1);
    expect(store.state().inFlight).toBe(0);
  });

  it('is told to its trace, the second request as one', async () => {
    const sent: unknown[] = [];
    const first = rig.proxy.requests;
    rig.proxy.choose = ({ index, headers }) => {
      sent.push(headers.traceparent);
      return index === first ? { kind: 'stall', at: 'answer' } : undefined;
    };
    const trace = new RecordedTrace();
    const tally = new StoreTally(2, trace);
    await store.read({ id, sizeBytes, position: 0, into: [Buffer.alloc(sizeBytes)], tally });
    const told = { store: 'remote', method: 'GET', earlierTries: 0, host: expect.any(String) };
    expect(trace.tries).toEqual([
      { ...told, isSecond: false, status: null, failure: 'abandoned' },
      { ...told, isSecond: true, status: 206, failure: null },
    ]);
    expect(sent).toEqual(['try-0', 'try-1']);
  });

  it('waits as long as the metrics say that 95% of the latest took', async () => {
    const registry = new MetricRegistry();
    const meters = new StoreMeters(failureCauses);
    const meter = meters.ofRemote('remote');
    watchStoreMeters(registry, meters);
    const measured = await rig.open({ meter, hedgeShare: 1 });
    await measured.put(id, [bytes]);
    rig.proxy.choose = () => ({ kind: 'slow-first-byte', delayMs: 30 });
    for (let i = 0; i < 64; i++) await readWhole(measured, id, sizeBytes);
    const before = meter.hedges.firstByte.sent;
    const families = parseMetrics((await registry.read('everybody')).toString());
    const labels = { store: 'remote', up_to_bytes: '16384' };
    const p95Ms = 1000 * totalOf(families, 'bursar_store_read_p95_seconds', labels);
    expect(p95Ms).toBeGreaterThanOrEqual(30);
    expect(new HedgeBudget(meter).delayMs(sizeBytes)).toBe(Math.ceil(p95Ms));
    injectOnce({ kind: 'stall', at: 'answer' });
    await readWhole(measured, id, sizeBytes);
    expect(meter.hedges.firstByte.sent).toBe(before + 1);
    expect(meter.hedges.firstByte.second).toBeGreaterThan(0);
  });

  it('is not failed by a second request that fails', async () => {
    const first = rig.proxy.requests;
    rig.proxy.choose = ({ index }) =>
      index === first
        ? { kind: 'slow-first-byte', delayMs: 100 }
        : { kind: 'status', status: 500, code: 'InternalError' };
    expect((await readWhole(store, id, sizeBytes)).equals(bytes)).toBe(true);
  });

  it('ends both requests when it is abandoned', async () => {
    rig.proxy.choose = () => ({ kind: 'stall', at: 'answer' });
    const abort = new AbortController();
    const into = [Buffer.alloc(sizeBytes)];
    const { sent } = store.state().hedges;
    const read = store.read({ id, sizeBytes, position: 0, into, signal: abort.signal });
    const failed = expect(read).rejects.toThrow('the client left');
    while (store.state().hedges.sent === sent) await new Promise((r) => setTimeout(r, 5));
    expect(store.state().inFlight).toBe(2);
    abort.abort(new Error('the client left'));
    await failed;
    expect(store.state().inFlight).toBe(0);
  });

  it('is asked a second time for at most 5% of the reads', async () => {
    const slow = await rig.open({ connectionsMax: 64 });
    await slow.put(id, [bytes]);
    for (let i = 0; i < 100; i++) await readWhole(slow, id, sizeBytes);
    const before = slow.state().hedges.sent;
    rig.proxy.choose = () => ({ kind: 'slow-first-byte', delayMs: 60 });
    for (let i = 0; i < 10; i++) {
      await Promise.all(Array.from({ length: 20 }, () => readWhole(slow, id, sizeBytes)));
    }
    expect(slow.state().hedges.sent - before).toBeGreaterThan(0);
    // What the first hundred saved up, and that of these.
    expect(slow.state().hedges.sent).toBeLessThanOrEqual(300 * 0.05);
  });

  it('is never asked twice where that is switched off', async () => {
    const never = await rig.open({ hedgeShare: 0 });
    await never.put(id, [bytes]);
    for (let i = 0; i < 100; i++) await readWhole(never, id, sizeBytes);
    rig.proxy.choose = () => ({ kind: 'slow-first-byte', delayMs: 60 });
    await Promise.all(Array.from({ length: 30 }, () => readWhole(never, id, sizeBytes)));
    expect(never.state().hedges.sent).toBe(0);
  });

  it('is not asked twice when it is no small one', async () => {
    const pieces = piecesOf(Array.from({ length: 5 }, () => 262_144));
    const large = newId();
    await store.put(large, pieces);
    const before = store.state().hedges.sent;
    rig.proxy.choose = () => ({ kind: 'slow-first-byte', delayMs: 100 });
    const got = await readWhole(store, large, 5 * 262_144);
    expect(got.equals(Buffer.concat(pieces))).toBe(true);
    expect(store.state().hedges.sent).toBe(before);
  });
});

/** Is told of tries, and numbers them in their headers. */
class RecordedTrace implements StoreTrace {
  readonly tries: Record<string, unknown>[] = [];

  begin(attempt: TracedTry): TryTrace {
    const told: Record<string, unknown> = { ...attempt };
    const headers = ['traceparent', `try-${this.tries.push(told) - 1}`];
    return { headers, end: (status, failure) => Object.assign(told, { status, failure }) };
  }
}

describe('the budget of second requests', () => {
  it('grows by one for twenty small reads, up to ten', () => {
    const meter = new StoreMeter();
    const budget = new HedgeBudget(meter);
    for (let i = 0; i < 19; i++) budget.delayMs(100);
    expect(budget.mayTake()).toBe(false);
    budget.delayMs(10_000_000);
    expect(budget.mayTake()).toBe(false);
    expect(meter.hedgeRefusals.share).toBe(2);
    budget.delayMs(100);
    budget.delayMs(100);
    expect(budget.mayTake()).toBe(true);
    for (let i = 0; i < 10_000; i++) budget.delayMs(100);
    let taken = 0;
    for (; budget.mayTake(); taken++) budget.take('firstByte');
    expect(taken).toBe(10);
    expect(meter.hedges.firstByte.sent).toBe(10);
  });

  it('has a read waited for as long as the meter says, however it came to know', () => {
    const meter = new StoreMeter();
    const budget = new HedgeBudget(meter);
    expect(budget.delayMs(4096)).toBeUndefined();
    for (let i = 0; i < 64; i++) meter.answered('get', 4096, 40, 1);
    expect(budget.delayMs(4096)).toBe(meter.slowMs(4096));
    for (let i = 0; i < 512; i++) meter.answered('get', 4096, 70, 1);
    expect(budget.delayMs(4096)).toBe(70);
    for (let i = 0; i < 512; i++) meter.answered('put', 4096, 900, 1);
    expect(budget.delayMs(4096)).toBe(70);
  });
});
