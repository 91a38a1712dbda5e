import { expect, it } from 'vitest';
import { backendDraws, priceUse, transferOf } from '#bursar/quota/backend-cost.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';

const [GB, TB] = [2 ** 30, 2 ** 40];
const book = readPriceBooks().named('aws-us-east-1-2026');
if (!book) throw new Error('the book is not there');

const use = { store: 'cloud', puts: 0, gets: 0, frees: 0, sentBytes: 0, receivedBytes: 0 };
const before = { ingressBytes: 0, egressBytes: 0 };
const usd = (amount: number): bigint => BigInt(Math.round(amount * 1e12));

it('bills requests by their price, and nothing for what is free', () => {
  expect(priceUse(book, { ...use, puts: 3 }, before)).toBe(usd(3 * 0.000005));
  expect(priceUse(book, { ...use, gets: 7 }, before)).toBe(usd(7 * 0.0000004));
  expect(priceUse(book, { ...use, frees: 1_000_000 }, before)).toBe(0n);
});

it('bills what the store sends by the tier of the month, and nothing that it gets', () => {
  expect(priceUse(book, { ...use, sentBytes: 50 * TB }, before)).toBe(0n);
  expect(priceUse(book, { ...use, receivedBytes: 101 * GB }, before)).toBe(usd(0.09));
  const late = { ingressBytes: 0, egressBytes: 60 * TB };
  expect(priceUse(book, { ...use, receivedBytes: 2 * GB }, late)).toBe(usd(2 * 0.07));
});

it('bills a month the same however it is cut', () => {
  let [sum, egressBytes] = [0n, 0];
  for (const receivedBytes of [70 * GB, 40 * GB + 1, 11 * TB - 3, 1, 45 * TB]) {
    sum += priceUse(book, { ...use, receivedBytes }, { ingressBytes: 0, egressBytes });
    egressBytes += receivedBytes;
  }
  expect(sum).toBe(priceUse(book, { ...use, receivedBytes: egressBytes }, before));
});

it('is posted to the store, and to the tenant whose data it was for, if it was for any', () => {
  const asked = { ...use, puts: 2, gets: 3, frees: 4, sentBytes: 10, receivedBytes: 20 };
  const amounts = { requests: 9, ingressBytes: 10, egressBytes: 20, spend: 7 };
  expect(transferOf(asked)).toEqual({ ingressBytes: 10, egressBytes: 20 });
  expect(backendDraws('cms', asked, 7n)).toEqual([
    { accounts: ['store:cloud', 'backend:cms'], amounts },
  ]);
  expect(backendDraws(null, asked, 7n)).toEqual([{ accounts: ['store:cloud'], amounts }]);
});
