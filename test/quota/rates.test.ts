// Rates, on a clock of the tests' own.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Rates, type ShapedStream } from '#bursar/quota/rates.js';

const KiB = 1024;
const MiB = 1024 * KiB;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  vi.useRealTimers();
});

function ratesOf(accounts: Record<string, { requests?: number; bytes?: number }>): Rates {
  const rates = new Rates();
  for (const [account, rate] of Object.entries(accounts)) rates.setLimits(account, { rate });
  return rates;
}

function streamOf(rates: Rates, accounts: string[]): ShapedStream {
  const stream = rates.openStream(accounts);
  if (!stream) throw new Error('nothing shapes it');
  return stream;
}

/** Moves pieces through a stream for ever; tells how much came through. */
function pump(stream: ShapedStream, pieceBytes: number): { bytes: number } {
  const moved = { bytes: 0 };
  const run = async (): Promise<void> => {
    for (;;) {
      // A turn of the event loop for each, so that what is free does not go on for ever.
      await new Promise((resolve) => setTimeout(resolve, 0));
      await stream.pass(pieceBytes);
      moved.bytes += pieceBytes;
    }
  };
  void run();
  return moved;
}

describe('requests per second', () => {
  it('lets one second of requests in at once, and then as many as the rate says', async () => {
    const rates = ratesOf({ a: { requests: 5 } });
    for (let i = 0; i < 5; i++) expect(rates.admit(['a'])).toBeNull();
    expect(rates.admit(['a'])).toEqual({ account: 'a', perSecond: 5, waitMs: 200 });
    await vi.advanceTimersByTimeAsync(200);
    expect(rates.admit(['a'])).toBeNull();
    expect(rates.admit(['a'])).not.toBeNull();
  });

  it('never lets in more than one second of requests and what the time brought', async () => {
    const rates = ratesOf({ a: { requests: 7 } });
    let admitted = 0;
    for (let ms = 0; ms < 10_000; ms += 13) {
      for (let i = 0; i < 3; i++) if (rates.admit(['a']) === null) admitted += 1;
      await vi.advanceTimersByTimeAsync(13);
    }
    expect(admitted).toBeLessThanOrEqual(77);
    expect(admitted).toBeGreaterThanOrEqual(76);
  });

  it('who is refused by one account has taken nothing of the others', () => {
    const rates = ratesOf({ fast: { requests: 2 }, slow: { requests: 1 } });
    expect(rates.admit(['fast', 'slow'])).toBeNull();
    for (let i = 0; i < 10; i++) {
      expect(rates.admit(['fast', 'slow'])).toMatchObject({ account: 'slow' });
    }
    expect(rates.admit(['fast'])).toBeNull();
    expect(rates.admit(['fast'])).not.toBeNull();
  });

  it('who would wait too long for one account has taken nothing of the others', () => {
    const rates = ratesOf({ fast: { requests: 2 }, slow: { requests: 1 } });
    expect(rates.queue(['fast', 'slow'], 0)).toBe(0);
    for (let i = 0; i < 10; i++) {
      expect(rates.queue(['fast', 'slow'], 999)).toMatchObject({ account: 'slow', waitMs: 1000 });
    }
    expect(rates.queue(['fast', 'slow'], 1000)).toBe(1000);
    expect(rates.tightest(['fast'])?.left).toBeCloseTo(0);
  });

  it('accounts without a rate are never refused, nor once it is removed', () => {
    const rates = ratesOf({ a: { requests: 1 } });
    for (let i = 0; i < 1000; i++) expect(rates.admit(['b'])).toBeNull();
    rates.admit(['a']);
    expect(rates.admit(['a'])).not.toBeNull();
    rates.setLimits('a', null);
    expect(rates.isEmpty).toBe(true);
    expect(rates.admit(['a'])).toBeNull();
  });
});

describe('bytes per second', () => {
  it('slows a stream down to the rate, whatever its pieces', async () => {
    for (const pieceBytes of [1 * KiB, 4 * KiB, 64 * KiB]) {
      const rates = ratesOf({ a: { bytes: 100 * KiB } });
      const moved = pump(streamOf(rates, ['a']), pieceBytes);
      await vi.advanceTimersByTimeAsync(20_000);
      expect(moved.bytes).toBeLessThanOrEqual(21 * 100 * KiB + pieceBytes);
      expect(moved.bytes).toBeGreaterThan(20 * 100 * KiB - pieceBytes);
    }
  });

  it('gives concurrent streams of an account equal shares, whatever their pieces', async () => {
    const rates = ratesOf({ a: { bytes: 1 * MiB } });
    const sizes = [1 * KiB, 16 * KiB, 64 * KiB, 256 * KiB];
    const all = sizes.map((size) => pump(streamOf(rates, ['a']), size));
    await vi.advanceTimersByTimeAsync(60_000);
    const total = all.reduce((sum, { bytes }) => sum + bytes, 0);
    expect(total).toBeLessThanOrEqual(61 * MiB + 256 * KiB);
    expect(total).toBeGreaterThan(59 * MiB);
    // Small pieces wait for a turn each, so who sends them may get less, but not more.
    for (const { bytes } of all.slice(2)) expect(bytes / total).toBeGreaterThan(0.25);
    for (const { bytes } of all) expect(bytes / total).toBeLessThan(0.5);
  });

  it('the slowest of several accounts rules, and the others lose nothing by it', async () => {
    const rates = ratesOf({ fast: { bytes: 1 * MiB }, slow: { bytes: 64 * KiB } });
    const held = pump(streamOf(rates, ['fast', 'slow']), 4 * KiB);
    const free = pump(streamOf(rates, ['fast']), 4 * KiB);
    await vi.advanceTimersByTimeAsync(30_000);
    expect(held.bytes).toBeLessThanOrEqual(31 * 64 * KiB + 8 * KiB);
    expect(held.bytes).toBeGreaterThan(29 * 64 * KiB);
    expect(free.bytes + held.bytes).toBeGreaterThan(29 * MiB);
  });

  it('who leaves while waiting frees the place: nothing is spent on it', async () => {
    const rates = ratesOf({ a: { bytes: 10 * KiB } });
    const first = streamOf(rates, ['a']);
    expect(first.pass(20 * KiB)).toBeNull();
    const leavers = Array.from({ length: 100 }, () => {
      const stream = streamOf(rates, ['a']);
      return { stream, waiting: stream.pass(10 * KiB) };
    });
    const last = streamOf(rates, ['a']);
    let isThrough = false;
    void last.pass(1 * KiB)?.then(() => {
      isThrough = true;
    });
    for (const { stream } of leavers) stream.close();
    await Promise.all(leavers.map(({ waiting }) => waiting));
    await vi.advanceTimersByTimeAsync(1100);
    expect(isThrough).toBe(true);
  });

  it('however many streams wait, there is one timer, and none when all have left', async () => {
    const rates = ratesOf({ a: { bytes: 10 * KiB } });
    const streams = Array.from({ length: 1000 }, () => streamOf(rates, ['a']));
    for (const stream of streams) void stream.pass(64 * KiB);
    expect(vi.getTimerCount()).toBe(1);
    await vi.advanceTimersByTimeAsync(5000);
    expect(vi.getTimerCount()).toBe(1);
    for (const stream of streams) stream.close();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('streams under way follow a rate that is changed, or removed', async () => {
    const rates = ratesOf({ a: { bytes: 10 * KiB } });
    const moved = pump(streamOf(rates, ['a']), 1 * KiB);
    await vi.advanceTimersByTimeAsync(10_000);
    const slow = moved.bytes;
    expect(slow).toBeLessThan(112 * KiB);
    rates.setLimits('a', { rate: { bytes: 100 * KiB } });
    await vi.advanceTimersByTimeAsync(10_000);
    expect(moved.bytes - slow).toBeGreaterThan(900 * KiB);
    const before = moved.bytes;
    rates.setLimits('a', null);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(moved.bytes - before).toBeGreaterThan(5 * MiB);
  });
});

describe('tokens, whose rates come with them', () => {
  const limits = { rate: { requests: 2, bytes: 10 * KiB } };

  it('are held to their rates, and forgotten when nobody would miss them', async () => {
    const rates = new Rates();
    for (let i = 0; i < 10_000; i++) rates.introduce(`token:${i}`, limits);
    expect(rates.admit(['token:1'])).toBeNull();
    rates.introduce('token:1', limits);
    expect(rates.admit(['token:1'])).toBeNull();
    expect(rates.admit(['token:1'])).toMatchObject({ account: 'token:1' });
    rates.keep();
    expect(rates.admit(['token:1'])).toMatchObject({ account: 'token:1' });
    await vi.advanceTimersByTimeAsync(1000);
    rates.keep();
    expect(rates.isEmpty).toBe(true);
  });

  it('are not forgotten while a stream of theirs goes on', async () => {
    const rates = new Rates();
    rates.introduce('token:1', limits);
    const stream = streamOf(rates, ['token:1']);
    await vi.advanceTimersByTimeAsync(5000);
    rates.keep();
    rates.introduce('token:1', limits);
    // Both are streams of one account: the second finds what the first has left.
    expect(stream.pass(20 * KiB)).toBeNull();
    expect(streamOf(rates, ['token:1']).pass(1)).not.toBeNull();
  });

  it('do not lose what the operator has set for them', () => {
    const rates = ratesOf({ 'token:1': { requests: 1 } });
    rates.introduce('token:1', { rate: { requests: 1000 } });
    expect(rates.admit(['token:1'])).toBeNull();
    expect(rates.admit(['token:1'])).not.toBeNull();
    rates.introduce('token:1', { rate: { requests: 1000, bytes: 5 * KiB } });
    vi.advanceTimersByTime(10_000);
    rates.keep();
    expect(rates.admit(['token:1'])).toBeNull();
    expect(rates.admit(['token:1'])).not.toBeNull();
  });
});
