// The figures on the page of charges are what the code charges.
import { describe, expect, it } from 'vitest';
import { formatUsd, parseUsd } from '#bursar/core/money.js';
import { chargeEarlyDeletion, chargeOperation } from '#bursar/quota/prices/charges.js';
import { classPrices, type PriceBook } from '#bursar/quota/prices/price-book.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { chargeStorage } from '#bursar/quota/prices/storage-accrual.js';
import { blocksOf, readPage, rowsOf, sectionOf } from './markdown.ts';

const { text } = readPage('docs/admin/charges.md');
const book = readPriceBooks().named('aws-us-east-1-2026') as PriceBook;
const dayMs = 24 * 3_600_000;
const november = { beginMs: Date.UTC(2026, 10), endMs: Date.UTC(2026, 11) };
const bytes = (gigabytes: string | undefined): number => Number(gigabytes) * 2 ** 30;
const usd = (amount: string | undefined): bigint | undefined => parseUsd(amount ?? '');

describe('the page of charges', () => {
  it.each(rowsOf(sectionOf(text, 'Operations')))('says what %s costs', (...row) => {
    const [, storageClass = '', price, out, before, read, cost] = row;
    const operation = { ingressBytes: 0, egressBytes: bytes(out), retrievalBytes: bytes(read) };
    const { total } = chargeOperation(
      book,
      { ...operation, storageClass, price: price as 'put' | 'get' | 'free' },
      { ingressBytes: 0, egressBytes: bytes(before) },
    );
    expect(total).toBe(usd(cost));
  });

  it.each(rowsOf(sectionOf(text, 'Storage')))('says what %s costs', (...row) => {
    const [, storageClass = '', gigabytes, days, cost] = row;
    const byteMs = BigInt(bytes(gigabytes)) * BigInt(Number(days) * dayMs);
    const charge = chargeStorage(classPrices(book, storageClass), { month: november, byteMs }, 0n);
    expect(charge).toBe(usd(cost));
  });

  it('shows a record of storage that costs what it says', () => {
    const [block] = blocksOf(sectionOf(text, 'Storage'));
    const record = JSON.parse(String(block?.code));
    const [fromMs, toMs] = record.period.split('/').map(Date.parse);
    const byteMs = BigInt(record.byteMs);
    expect(byteMs).toBe(BigInt(bytes('100')) * BigInt(toMs - fromMs));
    const before = BigInt(bytes('100')) * BigInt(fromMs - november.beginMs);
    const charge = chargeStorage(
      classPrices(book, record.class),
      { month: november, byteMs },
      before,
    );
    expect(formatUsd(charge)).toBe(record.cost);
  });

  it.each(rowsOf(sectionOf(text, 'Early deletion')))('says what is owed when %s', (...row) => {
    const [, storageClass = '', gigabytes, days, cost] = row;
    const ended = { billedBytes: bytes(gigabytes), ageMs: Number(days) * dayMs };
    expect(chargeEarlyDeletion(classPrices(book, storageClass), ended)).toBe(usd(cost));
  });

  it('says what a terabyte comes to', () => {
    const month = BigInt(november.endMs - november.beginMs);
    const stored = { month: november, byteMs: BigInt(bytes('1024')) * month };
    const charge = chargeStorage(classPrices(book, 'STANDARD'), stored, 0n);
    expect(text).toContain(`1 TB in STANDARD comes to $${formatUsd(charge, 2)} a month`);
  });
});
