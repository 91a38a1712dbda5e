// Storage costs what it is and how long, wherever the time is cut.
import { describe, expect, it } from 'vitest';
import { parseUsd } from '#bursar/core/money.js';
import { type ClassPrices, classPrices, type PriceBook } from '#bursar/quota/prices/price-book.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { chargeStorage, type MonthStorage, monthAt } from '#bursar/quota/prices/storage-accrual.js';
import {
  accrue,
  type BookOrder,
  changeLevel,
  openLevel,
  takeDue,
} from '#bursar/quota/storage/storage-level.js';
import { fuzz, fuzzTimeoutMs, randomBelow } from '../../fuzz/seeded-random.ts';

const books = readPriceBooks();
const pricesOf = (book: string, name: string): ClassPrices =>
  classPrices(books.named(book) as PriceBook, name);
const standard = pricesOf('aws-us-east-1-2026', 'STANDARD');
const GB = 2 ** 30;
const TB = 2 ** 40;
const dayMs = 24 * 3600 * 1000;
const march = Date.UTC(2026, 2);
const usd = (text: string): bigint => parseUsd(text) as bigint;

const oneBook: BookOrder = { endMs: () => Number.POSITIVE_INFINITY, nextOf: (book) => book };

/** What `bytes` kept from one time to a later one are in each month. */
function accrueStorage(bytes: number, fromMs: number, toMs: number): MonthStorage[] {
  const level = openLevel('a book', fromMs, oneBook);
  changeLevel(level, bytes);
  accrue(level, toMs, oneBook);
  const due = takeDue(level, 'a book', oneBook);
  return due.map((one) => ({ month: monthAt(one.fromMs), byteMs: one.byteMs }));
}

/** Charges one span after another, as a ledger does that keeps a total for each month. */
class Bill {
  readonly #byteMs = new Map<number, bigint>();
  sum = 0n;

  add(prices: ClassPrices, bytes: number, fromMs: number, toMs: number): void {
    for (const accrued of accrueStorage(bytes, fromMs, toMs)) {
      const { beginMs } = accrued.month;
      const before = this.#byteMs.get(beginMs) ?? 0n;
      this.sum += chargeStorage(prices, accrued, before);
      this.#byteMs.set(beginMs, before + accrued.byteMs);
    }
  }
}

function bill(prices: ClassPrices, ...spans: [number, number, number][]): bigint {
  const made = new Bill();
  for (const [bytes, fromMs, toMs] of spans) made.add(prices, bytes, fromMs, toMs);
  return made.sum;
}

describe('storage', () => {
  it('costs what the example in the S3 FAQ does', () => {
    // 100 GB for 15 days of March and 100 TB for 16 are 42,259,901,212,262,400 byte-hours, which
    // are 52,900 GB-months: 51,200 at $0.023 and 1,700 at $0.022.
    const middle = march + 15 * dayMs;
    const spans: [number, number, number][] = [
      [100 * GB, march, middle],
      [100 * TB, middle, march + 31 * dayMs],
    ];
    const byteMs = spans.flatMap((span) => accrueStorage(...span)).map((one) => one.byteMs);
    expect(byteMs.reduce((sum, one) => sum + one, 0n) / 3_600_000n).toBe(42_259_901_212_262_400n);
    expect(bill(standard, ...spans)).toBe(usd('1215'));
  });

  it.each([
    ['s3-2007', 'STANDARD', 384_000, '57600'],
    // 50 TB at .150, 50 at .140, 400 at .130, 500 at .105, 4,000 at .080 and 1,000 at .055.
    ['s3-2010', 'STANDARD', 6000 * 1024, '505856'],
    ['s3-2010', 'REDUCED_REDUNDANCY', 6000 * 1024, '336332.8'],
    ['aws-us-east-1-2026', 'STANDARD', 600 * 1024, '13465.6'],
    ['aws-us-east-1-2026', 'DEEP_ARCHIVE', 1024, '1.01376'],
  ])('of a month is, by %s in %s, %d GB: %s USD', (book, name, gigabytes, cost) => {
    const prices = pricesOf(book, name);
    for (const beginMs of [march, Date.UTC(2026, 1), Date.UTC(2028, 1)]) {
      const { endMs } = monthAt(beginMs);
      expect(bill(prices, [gigabytes * GB, beginMs, endMs])).toBe(usd(cost));
    }
  });

  it('costs the same however time and bytes are cut', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(1, 200, (random) => {
      const bytes = randomBelow(random, 2 ** randomBelow(random, 53));
      const fromMs = march + randomBelow(random, 90 * dayMs);
      const toMs = fromMs + randomBelow(random, 90 * dayMs);
      const cut = new Bill();
      const some = randomBelow(random, bytes + 1);
      for (let atMs = fromMs; atMs < toMs; ) {
        const nextMs = Math.min(toMs, atMs + 1 + randomBelow(random, 20 * dayMs));
        cut.add(standard, some, atMs, nextMs);
        cut.add(standard, bytes - some, atMs, nextMs);
        atMs = nextMs;
      }
      expect(cut.sum).toBe(bill(standard, [bytes, fromMs, toMs]));
    });
  });

  it('is never cheaper for longer, nor for more', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(1, 200, (random) => {
      const bytes = randomBelow(random, 2 ** 50);
      const toMs = march + randomBelow(random, 90 * dayMs);
      const cost = bill(standard, [bytes, march, toMs]);
      expect(bill(standard, [bytes, march, toMs + 1])).toBeGreaterThanOrEqual(cost);
      expect(bill(standard, [bytes + 1, march, toMs])).toBeGreaterThanOrEqual(cost);
    });
  });

  it('is of no month when no time passed', () => {
    expect(accrueStorage(GB, march, march)).toEqual([]);
    expect(accrueStorage(GB, march, march - 1)).toEqual([]);
  });

  it('goes to the months where it was', () => {
    const newYear = Date.UTC(2027, 0);
    const spans = accrueStorage(7, newYear - 2, newYear + 3);
    expect(spans.map(({ month, byteMs }) => [new Date(month.beginMs).toJSON(), byteMs])).toEqual([
      ['2026-12-01T00:00:00.000Z', 14n],
      ['2027-01-01T00:00:00.000Z', 21n],
    ]);
  });
});
