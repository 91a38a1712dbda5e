// Charges of operations, checked by hand at the shipped prices, and their properties at random.
import { describe, expect, it } from 'vitest';
import { parseUsd } from '#bursar/core/money.js';
import {
  billableBytes,
  chargeEarlyDeletion,
  chargeOperation,
  chargeOperationAtMost,
  type PricedOperation,
} from '#bursar/quota/prices/charges.js';
import { classPrices, type PriceBook } from '#bursar/quota/prices/price-book.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from '../../fuzz/seeded-random.ts';

const books = readPriceBooks();
const bookOf = (name: string): PriceBook => books.named(name) as PriceBook;
const today = bookOf('aws-us-east-1-2026');
const GB = 2 ** 30;
const TB = 2 ** 40;
const dayMs = 24 * 3600 * 1000;

const operation = (some: Partial<PricedOperation>): PricedOperation => ({
  storageClass: 'STANDARD',
  price: 'free',
  ingressBytes: 0,
  egressBytes: 0,
  retrievalBytes: 0,
  ...some,
});
const usd = (text: string): bigint => parseUsd(text) as bigint;
const nothing = { ingressBytes: 0, egressBytes: 0 };

describe('an operation', () => {
  it.each([
    ['aws-us-east-1-2026', 'STANDARD', '0.000005', '0.0000004'],
    ['aws-us-east-1-2026', 'STANDARD_IA', '0.00001', '0.000001'],
    ['aws-us-east-1-2026', 'ONEZONE_IA', '0.00001', '0.000001'],
    ['aws-us-east-1-2026', 'GLACIER', '0.00003', '0.0000004'],
    ['aws-us-east-1-2026', 'DEEP_ARCHIVE', '0.00005', '0.0000004'],
    ['s3-2007', 'STANDARD', '0.00001', '0.000001'],
    ['s3-2010', 'REDUCED_REDUNDANCY', '0.00001', '0.000001'],
  ])('costs its request, in %s of class %s', (book, storageClass, put, get) => {
    const request = (price: PricedOperation['price']) =>
      chargeOperation(bookOf(book), operation({ storageClass, price }), nothing).total;
    expect(request('put')).toBe(usd(put));
    expect(request('get')).toBe(usd(get));
    expect(request('free')).toBe(0n);
  });

  it.each([
    // A month's egress, and what it costs: the tiers by hand.
    ['s3-2007', 10 * TB, '1843.2'],
    ['s3-2007', 50 * TB, '8396.8'],
    ['s3-2007', 60 * TB, '9728'],
    ['s3-2010', GB, '0'],
    ['s3-2010', 2 * GB, '0.15'],
    ['s3-2010', 10 * TB, '1535.85'],
    ['s3-2010', 150 * TB, '15257.45'],
    ['s3-2010', 151 * TB, '15339.37'],
    ['aws-us-east-1-2026', 100 * GB, '0'],
    ['aws-us-east-1-2026', 101 * GB, '0.09'],
    ['aws-us-east-1-2026', 10 * TB + 100 * GB, '921.6'],
    ['aws-us-east-1-2026', 50 * TB + 100 * GB, '4403.2'],
    ['aws-us-east-1-2026', 150 * TB + 100 * GB, '11571.2'],
    ['aws-us-east-1-2026', 151 * TB + 100 * GB, '11622.4'],
  ])('costs its egress, in %s %d bytes', (book, egressBytes, cost) => {
    const charge = chargeOperation(bookOf(book), operation({ egressBytes }), nothing);
    expect(charge).toMatchObject({ egress: usd(cost), total: usd(cost) });
  });

  it('costs ingress in 2007, and retrieval from the class it reads', () => {
    const ingressBytes = 3 * GB;
    expect(chargeOperation(bookOf('s3-2007'), operation({ ingressBytes }), nothing).ingress).toBe(
      usd('0.30'),
    );
    expect(chargeOperation(today, operation({ ingressBytes }), nothing).total).toBe(0n);
    const read = (storageClass: string) =>
      chargeOperation(today, operation({ storageClass, retrievalBytes: GB }), nothing).retrieval;
    expect(['STANDARD', 'STANDARD_IA', 'GLACIER_IR', 'DEEP_ARCHIVE'].map(read)).toEqual(
      ['0', '0.01', '0.03', '0.02'].map(usd),
    );
  });

  it('rounds up what is less than a picodollar', () => {
    // A byte of egress at $0.09 a GB is 83.8 picodollars.
    const before = { ingressBytes: 0, egressBytes: 100 * GB };
    expect(chargeOperation(today, operation({ egressBytes: 1 }), before).egress).toBe(84n);
  });

  it('of a class that the book has not is a mistake of ours', () => {
    const unknown = operation({ storageClass: 'EXPRESS' });
    expect(() => chargeOperation(today, unknown, nothing)).toThrow('has no class EXPRESS');
  });

  it('never costs more than was reserved, and a month costs the same however it is cut', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    await fuzz(1, 300, (random) => {
      const book = bookOf(randomOf(random, ['aws-us-east-1-2026', 's3-2007', 's3-2010']));
      const storageClass = randomOf(random, [...book.classes.keys()]);
      const before = { ingressBytes: 0, egressBytes: 0 };
      let egress = 0n;
      for (let i = randomBelow(random, 12); i > 0; i--) {
        const bytes = () => randomBelow(random, 2 ** randomBelow(random, 46));
        const price = randomOf(random, ['put', 'get', 'free'] as const);
        const sizes = { ingressBytes: bytes(), egressBytes: bytes(), retrievalBytes: bytes() };
        const asked = { storageClass, price, ...sizes };
        const charge = chargeOperation(book, asked, before);
        const parts = charge.request + charge.ingress + charge.egress + charge.retrieval;
        expect(charge.total).toBe(parts);
        expect(charge.total).toBeLessThanOrEqual(chargeOperationAtMost(book, asked));
        before.ingressBytes += sizes.ingressBytes;
        before.egressBytes += sizes.egressBytes;
        egress += charge.egress;
      }
      const { egressBytes } = before;
      expect(egress).toBe(chargeOperation(book, operation({ egressBytes }), nothing).egress);
    });
  });
});

describe('an object', () => {
  const prices = (name: string) => classPrices(today, name);

  it('counts as at least 128 KiB where the class says so', () => {
    expect(billableBytes(prices('STANDARD_IA'), 0)).toBe(131_072);
    expect(billableBytes(prices('STANDARD_IA'), 131_073)).toBe(131_073);
    expect(billableBytes(prices('STANDARD'), 5)).toBe(5);
  });

  it.each([
    // 1,024 GB for the days that are left of the minimum, at 1/30 of the month's price each.
    ['STANDARD_IA', 0, '12.80'],
    ['STANDARD_IA', 10, '8.533333333334'],
    ['STANDARD_IA', 30, '0'],
    ['GLACIER_IR', 30, '8.192'],
    ['GLACIER', 60, '3.6864'],
    ['DEEP_ARCHIVE', 150, '1.01376'],
    ['DEEP_ARCHIVE', 10_000, '0'],
    ['STANDARD', 0, '0'],
  ])('of class %s that is deleted after %d days owes the rest', (name, days, cost) => {
    const early = { billedBytes: TB, ageMs: days * dayMs };
    expect(chargeEarlyDeletion(prices(name), early)).toBe(usd(cost));
  });

  it('never owes more for being kept longer, and a clock set back adds nothing', () => {
    const owed = (ageMs: number) =>
      chargeEarlyDeletion(prices('GLACIER'), { billedBytes: 12_345_678, ageMs });
    const ages = Array.from({ length: 100 }, (_, i) => owed(i * dayMs));
    expect(ages.every((one, i) => i === 0 || one <= (ages[i - 1] as bigint))).toBe(true);
    expect(owed(-5)).toBe(owed(0));
  });
});
