// What is measured of a store: one set, which decisions, health and metrics read.
import { describe, expect, it } from 'vitest';
import { RecentLatencies } from '#bursar/instruments/recent-latencies.js';
import { StoreMeter, StoreMeters } from '#bursar/instruments/store-meter.js';

describe('the latest latencies of a store', () => {
  it('have no percentile before there are enough of them', () => {
    const recent = new RecentLatencies();
    for (let i = 0; i < 31; i++) recent.add(100, 1);
    expect(recent.slowMs(100)).toBe(Number.POSITIVE_INFINITY);
    recent.add(100, 1);
    expect(recent.slowMs(100)).toBe(1);
  });

  it('give the 95th percentile of the last 512, for each class of sizes', () => {
    const recent = new RecentLatencies();
    for (let i = 0; i < 10_000; i++) recent.add(4096, 1000);
    for (let i = 0; i < 512; i++) recent.add(4096, i);
    expect(recent.slowMs(1)).toBe(487);
    expect(recent.slowMs(100_000)).toBe(Number.POSITIVE_INFINITY);
    for (let i = 0; i < 64; i++) recent.add(100_000, 7);
    expect(recent.slowMs(100_000)).toBe(7);
    expect(recent.slowMs(1)).toBe(487);
  });

  it('know nothing of reads that are large', () => {
    const recent = new RecentLatencies();
    for (let i = 0; i < 100; i++) recent.add(2 * 1024 * 1024, 1);
    expect(recent.slowMs(2 * 1024 * 1024)).toBe(Number.POSITIVE_INFINITY);
  });
});

describe('the meter of a store', () => {
  it('has each cause of failures from the start, as 0', () => {
    const meters = new StoreMeters(['reset', 'stall']);
    expect(meters.ofRemote('archive').counts).toEqual({
      requests: 0,
      retries: { reset: 0, stall: 0 },
      failures: { reset: 0, stall: 0 },
      hedges: { sent: 0, won: 0, lost: 0 },
    });
    meters.ofRemote('archive').failed('stall');
    expect(meters.ofRemote('archive').counts.failures).toEqual({ reset: 0, stall: 1 });
    expect(meters.ofRemote('other').counts.failures).toEqual({ reset: 0, stall: 0 });
  });

  it('sums up second requests, of which one that nobody won is lost', () => {
    const meter = new StoreMeter();
    for (const winner of ['first', 'second', 'nobody'] as const) {
      meter.hedged('firstByte');
      meter.hedgeEnded('firstByte', winner);
    }
    meter.hedged('body');
    expect(meter.counts.hedges).toEqual({ sent: 4, won: 1, lost: 2 });
    expect(meter.hedges.body).toEqual({ sent: 1, first: 0, second: 0, nobody: 0 });
  });

  it('has a stream begin with the median of the latest, which one odd stream does not move', () => {
    const meter = new StoreMeter();
    const settle = (window: number) => meter.openStream('write').settle(window);
    for (const window of [6, 6, 6, 1, 16]) settle(window);
    expect(meter.openStream('write').settledBefore).toBe(6);
    for (let i = 0; i < 15; i++) settle(4);
    expect(meter.openStream('write').settledBefore).toBe(4);
    expect(meter.openStream('read').settledBefore).toBeNull();
  });

  it('keeps the times of each band of sizes apart, and throughput of what has bytes', () => {
    const meter = new StoreMeter();
    meter.answered('get', 4096, 2, 1);
    meter.answered('get', 1024 * 1024, 20, 1);
    meter.answered('delete', 0, 3, 3);
    const [, kilobytes, megabyte] = meter.times.get;
    expect(kilobytes?.seconds.sum).toBeCloseTo(0.002);
    expect(kilobytes?.firstByteSeconds.sum).toBeCloseTo(0.001);
    expect(megabyte?.bytesPerSecond.sum).toBeCloseTo((1024 * 1024) / 0.02);
    expect(meter.times.delete[0]?.seconds.sum).toBeCloseTo(0.003);
    expect(meter.times.delete[0]?.bytesPerSecond.sum).toBe(0);
  });
});
