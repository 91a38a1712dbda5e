// Rates that several threads share: together they are as fast as one.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { makeRateTable, RateTable } from '#bursar/quota/rate-table.js';
import { Rates } from '#bursar/quota/rates.js';
import { fuzz, randomOf } from '../fuzz/seeded-random.ts';

interface Hammered {
  admitted: number;
  both: number;
  moved: number;
  beginNs: bigint;
  endNs: bigint;
}

it('two threads that take as fast as they can get what one would', async () => {
  const memory = makeRateTable();
  const pieceBytes = 64 * 1024;
  const limits = {
    a: { requests: 1000, bytes: 2 ** 20 },
    b: { requests: 5000 },
    slow: { requests: 10 },
    owing: { requests: 10_000 },
  };
  const gate = new SharedArrayBuffer(4);
  const tries = 100_000;
  const workerData = { memory, gate, threads: 2, tries, pieceBytes, limits };
  const url = new URL('./rate-hammer.mjs', import.meta.url);
  const all = await Promise.all(
    [0, 1].map(async () => {
      const [message] = await once(new Worker(url, { workerData }), 'message');
      return message as Hammered;
    }),
  );
  const sumOf = (name: 'admitted' | 'both' | 'moved') =>
    all.reduce((sum, one) => sum + one[name], 0);
  const times = all.flatMap(({ beginNs, endNs }) => [Number(beginNs), Number(endNs)]);
  const seconds = (Math.max(...times) - Math.min(...times)) / 1e9;
  // A request is let in up to a millisecond early, the last piece may be owed, and the threads'
  // clocks are not quite the same.
  expect(sumOf('admitted')).toBeLessThanOrEqual(1000 * (1.005 + seconds));
  expect(sumOf('admitted')).toBeGreaterThanOrEqual(999);
  expect(sumOf('both')).toBeLessThanOrEqual(10 * (1.1 + seconds));
  expect(sumOf('both')).toBeGreaterThanOrEqual(10);
  expect(sumOf('moved')).toBeLessThanOrEqual(2 ** 20 * (1.005 + seconds) + pieceBytes);
  expect(sumOf('moved')).toBeGreaterThanOrEqual(2 ** 20);
  // What was taken of one account and given back, since the other refused, is there.
  const rates = new Rates(new RateTable(memory));
  rates.setLimits('b', { rate: limits.b });
  expect(rates.tightest(['b'])?.left).toBeGreaterThan(5000 - sumOf('both') - 2);
  // Nothing that was taken is forgotten.
  rates.setLimits('owing', { rate: limits.owing });
  const left = rates.tightest(['owing'])?.left;
  const secondsNow = (Number(process.hrtime.bigint()) - Math.min(...times)) / 1e9;
  expect(left).toBeLessThanOrEqual(10_000 * (1.005 + secondsNow) - 10 * tries);
});

describe('on a clock of the tests’ own', () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance', 'hrtime'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  /** As threads have them. */
  function ratesOf(threads: number, slots?: number): Rates[] {
    const memory = makeRateTable(slots);
    return Array.from({ length: threads }, () => new Rates(new RateTable(memory)));
  }

  it('an account has no more in several threads than in one, full as the table is', async () => {
    const perSecond = 3;
    let refused = 0;
    await fuzz(1, 300, (random) => {
      const threads = ratesOf(3, 8);
      const accounts = Array.from({ length: 20 }, (_, i) => `principal:cms/${i}`);
      const users = new Map(accounts.map((account) => [account, new Set<Rates>()]));
      const admitted = new Map<string, number>();
      for (let steps = 0; steps < 300; steps++) {
        const account = randomOf(random, accounts);
        const using = users.get(account) as Set<Rates>;
        const rates = randomOf(random, threads);
        const dice = random();
        if (dice < 0.2) {
          rates.setLimits(account, { rate: { requests: perSecond } });
          using.add(rates);
        } else if (dice < 0.5) {
          rates.setLimits(account, null);
          using.delete(rates);
          // Who is used by nobody is forgotten, and begins anew.
          if (using.size === 0) admitted.delete(account);
        } else if (using.has(rates)) {
          if (rates.admit([account]) !== null) refused += 1;
          else admitted.set(account, (admitted.get(account) ?? 0) + 1);
        }
        expect(admitted.get(account) ?? 0).toBeLessThanOrEqual(perSecond);
      }
      // When all others are gone there is room again.
      for (const account of accounts) for (const one of threads) one.setLimits(account, null);
      for (const account of accounts.slice(0, 8)) {
        threads[0]?.setLimits(account, { rate: { requests: perSecond } });
        for (let i = 0; i < perSecond; i++) expect(threads[0]?.admit([account])).toBeNull();
      }
    });
    expect(refused).toBeGreaterThan(0);
  });

  it('a rate that rests for weeks is whole, and one that is used now and then too', () => {
    const [rates, others] = ratesOf(2) as [Rates, Rates];
    for (const one of [rates, others]) one.setLimits('a', { rate: { requests: 2 } });
    for (let hours = 0; hours < 24 * 21; hours++) {
      rates.keep();
      vi.advanceTimersByTime(3_600_000);
      if (hours % 100 === 0) {
        expect(rates.admit(['a'])).toBeNull();
        expect(others.admit(['a'])).toBeNull();
        expect(others.admit(['a'])).toMatchObject({ waitMs: 500 });
      }
    }
    expect(rates.tightest(['a'])?.left).toBe(2);
  });

  it('what is owed stays the same when the rate changes, however many threads follow', () => {
    const threads = ratesOf(3);
    const [first, second] = threads as [Rates, Rates];
    for (const rates of threads) rates.setLimits('a', { rate: { requests: 10 } });
    for (let i = 0; i < 10; i++) expect(first.admit(['a'])).toBeNull();
    for (let i = 1; i <= 50; i++) expect(second.queue(['a'], 10_000)).toBe(100 * i);
    for (const rates of threads) rates.setLimits('a', { rate: { requests: 100 } });
    for (const rates of threads) expect(rates.admit(['a'])).toMatchObject({ waitMs: 510 });
    vi.advanceTimersByTime(510);
    expect(first.admit(['a'])).toBeNull();
    expect(second.admit(['a'])).toMatchObject({ waitMs: 10 });
  });

  it('a piece that would be owed for longer than is counted moves in turns', async () => {
    const rates = new Rates();
    rates.setLimits('a', { rate: { bytes: 1 } });
    const stream = rates.openStream(['a']);
    let isThrough = false;
    void stream?.pass(2 ** 31)?.then(() => {
      isThrough = true;
    });
    await vi.advanceTimersByTimeAsync(0);
    expect(isThrough).toBe(false);
    stream?.close();
  });
});
