// Workloads are read strictly, and priced as their parts by hand.
import { describe, expect, it } from 'vitest';
import { formatUsd, parseUsd } from '#bursar/core/money.js';
import { parseWorkload, type Workload, workloadBytesMax } from '#bursar/quota/cost/workload.js';
import {
  costOfYear,
  picocentsPerBitYear,
  priceWorkload,
} from '#bursar/quota/cost/workload-cost.js';
import type { PriceBook } from '#bursar/quota/prices/price-book.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from '../../fuzz/seeded-random.ts';

const GB = 2 ** 30;
const books = readPriceBooks();
const bookOf = (name: string): PriceBook => books.named(name) as PriceBook;
const today = bookOf('aws-us-east-1-2026');
const usd = (text: string): bigint => parseUsd(text) as bigint;

const part = {
  class: 'STANDARD',
  storedBytes: 1000 * GB,
  storedObjects: 1_000_000,
  putRequests: 200_000,
  getRequests: 10_000_000,
  ingressBytes: 20 * GB,
  readBytes: 800 * GB,
  egressBytes: 600 * GB,
};
const draft = { format: 'bursar-workload/1', name: 'a lab', months: 2, parts: [part] };
const textWith = (some: object, ofPart: object = {}): string =>
  JSON.stringify({ ...draft, parts: [{ ...part, ...ofPart }], ...some });
const lab: Workload = parseWorkload(textWith({}));

function inUsd(cost: object): Record<string, string> {
  return Object.fromEntries(Object.entries(cost).map(([name, one]) => [name, formatUsd(one)]));
}

describe('a workload', () => {
  it('costs each meter at its price', () => {
    // Two months; 300 GB sent in each, of which 100 are free.
    expect(inUsd(priceWorkload(today, lab))).toEqual({
      storage: '46.00',
      earlyDeletion: '0.00',
      puts: '1.00',
      gets: '4.00',
      ingress: '0.00',
      egress: '36.00',
      retrieval: '0.00',
      total: '87.00',
    });
  });

  it('costs what another class costs, with its retrieval and minimums', () => {
    expect(inUsd(priceWorkload(today, lab, { storageClass: 'STANDARD_IA' }))).toMatchObject({
      storage: '25.00',
      puts: '2.00',
      gets: '10.00',
      retrieval: '8.00',
      egress: '36.00',
    });
    // 16 million objects of 64 KB count as 128 KiB each: 1,953.125 GB.
    const small = parseWorkload(textWith({}, { storedObjects: 16_000_000 }));
    const cost = priceWorkload(today, small, { storageClass: 'ONEZONE_IA' });
    expect(formatUsd(cost.storage)).toBe('39.0625');
  });

  it('pays for the minimum days of objects that live less', () => {
    // 1,000 GB replaced every 10 days is billed as 3,000 GB kept, of a minimum of 30.
    const brief = parseWorkload(textWith({ months: 1 }, { lifeDays: 10 }));
    const cost = priceWorkload(today, brief, { storageClass: 'ONEZONE_IA' });
    expect(formatUsd(cost.storage)).toBe('10.00');
    expect(formatUsd(cost.earlyDeletion)).toBe('20.00');
    expect(priceWorkload(today, brief).earlyDeletion).toBe(0n);
  });

  it('costs less behind a cache, for what it answers', () => {
    const cost = priceWorkload(today, lab, { hitsPerMillion: 500_000 });
    expect(inUsd(cost)).toMatchObject({ storage: '46.00', puts: '1.00', gets: '2.00' });
    expect(formatUsd(cost.egress)).toBe('9.00');
    const all = priceWorkload(today, lab, { hitsPerMillion: 1_000_000 });
    expect(all).toMatchObject({ gets: 0n, egress: 0n, retrieval: 0n });
    for (const hitsPerMillion of [-1, 1_000_001, 0.5, Number.NaN]) {
      expect(() => priceWorkload(today, lab, { hitsPerMillion })).toThrow(RangeError);
    }
  });

  it('is spread over its months to the byte', () => {
    // A byte out at $0.18 a GB is 167.6 picodollars: one in a month is 168, two are 336.
    const odd = parseWorkload(textWith({}, { egressBytes: 3 }));
    expect(priceWorkload(bookOf('s3-2007'), odd).egress).toBe(504n);
  });

  it('has one tariff for what is in one class, however it is divided', () => {
    const half = { ...part, storedBytes: 300 * 1024 * GB, egressBytes: 30 * 1024 * GB };
    const twice = parseWorkload(textWith({ parts: [half, half] }));
    const whole = { storedBytes: 600 * 1024 * GB, egressBytes: 60 * 1024 * GB };
    const once = parseWorkload(textWith({}, whole));
    const [a, b] = [priceWorkload(today, twice), priceWorkload(today, once)];
    expect([a.storage, a.egress]).toEqual([b.storage, b.egress]);
    expect(formatUsd(b.storage)).toBe('26931.20');
  });

  it('never costs more with more hits, nor less with more of anything', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    const names = [
      'storedBytes',
      'putRequests',
      'getRequests',
      'readBytes',
      'egressBytes',
    ] as const;
    await fuzz(1, 300, (random) => {
      const book = bookOf(randomOf(random, ['aws-us-east-1-2026', 's3-2007', 's3-2010']));
      const storageClass = randomOf(random, [...book.classes.keys()]);
      const amounts = Object.fromEntries(
        names.map((name) => [name, randomBelow(random, 2 ** randomBelow(random, 50))]),
      );
      const months = 1 + randomBelow(random, 30);
      const workload = parseWorkload(textWith({ months }, { ...amounts, class: storageClass }));
      const hitsPerMillion = randomBelow(random, 1_000_000);
      const cost = priceWorkload(book, workload, { hitsPerMillion });
      const { total } = priceWorkload(book, workload, { hitsPerMillion: hitsPerMillion + 1 });
      expect(total).toBeLessThanOrEqual(cost.total);
      const grown = randomOf(random, names);
      const more = { ...amounts, [grown]: Number(amounts[grown]) + 1 + randomBelow(random, 1e9) };
      const larger = parseWorkload(textWith({ months }, { ...more, class: storageClass }));
      const largerCost = priceWorkload(book, larger, { hitsPerMillion });
      expect(largerCost.total).toBeGreaterThanOrEqual(cost.total);
    });
  });

  it.each([
    [{ format: 'bursar-workload/2' }, {}, 'format: must be'],
    [{ months: 0 }, {}, 'months: must be'],
    [{ months: 1.5 }, {}, 'months: must be'],
    [{ parts: [] }, {}, 'parts: must be a list'],
    [{ name: 'a\nb' }, {}, 'name: must be'],
    [{ extra: 1 }, {}, 'must not have the member "extra"'],
    [{}, { class: 'standard' }, 'parts[0].class: must be'],
    [{}, { storedBytes: -1 }, 'parts[0].storedBytes: must be'],
    [{}, { storedBytes: 2 ** 53 }, 'parts[0].storedBytes: must be'],
    [{}, { egressBytes: '5' }, 'parts[0].egressBytes: must be'],
    [{}, { readBytes: undefined }, 'must have the member readBytes'],
    [{}, { lifeDays: 0 }, 'parts[0].lifeDays: must be'],
    [{}, { hits: 0 }, 'must not have the member "hits"'],
  ])('with %j and %j is refused', (some, ofPart, message) => {
    expect(() => parseWorkload(textWith(some, ofPart))).toThrow(message);
  });

  it('damaged at random is read whole or refused', { timeout: fuzzTimeoutMs }, async () => {
    const sound = textWith({}, { lifeDays: 7 });
    const names = Object.keys(JSON.parse(sound).parts[0]).length;
    const pieces = [...'{}[]",:0123456789.-eE\\ ', 'null', 'lifeDays', '__proto__'];
    let readCount = 0;
    await fuzz(1, 2000, (random) => {
      const at = randomBelow(random, sound.length);
      const end = at + randomBelow(random, 3);
      const text = sound.slice(0, at) + randomOf(random, pieces) + sound.slice(end);
      let read: Workload;
      try {
        read = parseWorkload(text);
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
        return;
      }
      readCount++;
      expect(Object.keys(read.parts[0] ?? {})).toHaveLength(names);
      expect(priceWorkload(today, { ...read, parts: [] }).total).toBe(0n);
    });
    expect(readCount).toBeGreaterThan(20);
    const long = `${sound}${' '.repeat(workloadBytesMax)}`;
    expect(() => parseWorkload(long)).toThrow('at most');
  });
});

describe('a year', () => {
  it('is twelve of the months, rounded up', () => {
    expect(costOfYear(27n, 27)).toBe(12n);
    expect(costOfYear(100n, 7)).toBe(172n);
  });

  it('has picocents for each bit that is kept', () => {
    // $1.20 a year for 10^12 bits: 1.2e-12 USD each, which are 120 picocents.
    expect(picocentsPerBitYear(usd('1.20'), 125_000_000_000n)).toBe(120);
    expect(picocentsPerBitYear(usd('1.20'), 0n)).toBeUndefined();
    // S3 Standard in 2026: $0.276 for 2^33 bits.
    expect(picocentsPerBitYear(usd('0.276'), 2n ** 30n)).toBe(3213.062);
  });
});
