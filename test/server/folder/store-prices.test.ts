// Which prices a store has, and that a start without them is refused in one line.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { CommandFailure } from '#bursar/core/command-failure.js';
import { StorePrices } from '#bursar/server/folder/store-prices.js';
import { type Flags, loadConfig } from '#bursar/server/settings/config.js';
import { draftBook } from '../../quota/prices/price-book-text.ts';

let folder: string;
const now = Date.UTC(2026, 10, 21);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'bursar-prices-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A book of the operator's own, of the market `lab/basement`. */
function addBook(name: string, some: object = {}): void {
  const book = { ...draftBook(), name, provider: 'lab', region: 'basement', ...some };
  writeFileSync(join(folder, `${name}.json`), JSON.stringify(book));
}

function pricesOf(flags: Flags, stores?: string): StorePrices {
  const config = loadConfig(flags, stores === undefined ? {} : { BURSAR_STORES: stores });
  return new StorePrices(config, now);
}

function refusal(flags: Flags, stores?: string): string {
  try {
    pricesOf(flags, stores);
  } catch (error) {
    expect(error).toBeInstanceOf(CommandFailure);
    expect((error as CommandFailure).exitCode).toBe(2);
    expect((error as CommandFailure).message).not.toContain('\n');
    return (error as CommandFailure).message;
  }
  throw new Error('was not refused');
}

describe('the prices of stores', () => {
  test('are those of AWS, for the local disk too', () => {
    expect(pricesOf({}).bookOf(1).name).toBe('aws-us-east-1-2026');
    expect(pricesOf({}).bookOf(7).name).toBe('aws-us-east-1-2026');
  });

  test('are those that are given, for all and for one store', () => {
    addBook('lab-2026');
    const flags = { prices: 'none', priceBooks: folder };
    const prices = pricesOf(flags, 'cold: {url: s3://archive, prices: lab/basement}');
    prices.enter([
      { number: 2, name: 'cold' },
      { number: 3, name: 'near' },
    ]);
    expect([1, 2, 3].map((store) => prices.bookOf(store).name)).toEqual([
      'free',
      'lab-2026',
      'free',
    ]);
    expect([...prices.books].map(({ name }) => name)).toContain('lab-2026');
  });

  test('are those of the class in which a store keeps what it has', () => {
    const store = (name: string, storageClass: string) =>
      `${name}: {url: "s3://${name}", storageClass: ${storageClass}}`;
    const prices = pricesOf({}, `{${store('rare', 'ONEZONE_IA')}, ${store('usual', 'STANDARD')}}`);
    prices.enter([
      { number: 2, name: 'rare' },
      { number: 3, name: 'usual' },
    ]);
    expect([2, 3].map((number) => prices.bookOf(number).name)).toEqual([
      'aws-us-east-1-2026:ONEZONE_IA',
      'aws-us-east-1-2026',
    ]);
    expect(refusal({}, `{${store('rare', 'REDUCED_REDUNDANCY')}}`)).toContain('has no class');
  });
});

describe('a start is refused', () => {
  test('without a price book of the market', () => {
    expect(refusal({ prices: 'aws/mars' })).toMatch(/^--prices: no price book is of aws\/mars; /);
    expect(refusal({}, 'cold: {url: s3://archive, prices: lab/basement}')).toMatch(
      /^stores\.cold\.prices: no price book is of lab\/basement/,
    );
  });

  test('with one that is not in force yet', () => {
    addBook('lab-2030', { effective: '2030-01-01' });
    expect(refusal({ prices: 'lab/basement', priceBooks: folder })).toBe(
      '--prices: no price book of lab/basement is in force yet',
    );
  });

  test('without the class STANDARD, now or in a later book', () => {
    expect(refusal({ prices: 'aws-ebs/us-east-1' })).toContain('has no class STANDARD');
    addBook('lab-2026');
    const { STANDARD } = draftBook().classes as { STANDARD: object };
    addBook('lab-2030', { effective: '2030-01-01', classes: { OTHER: STANDARD } });
    expect(refusal({ prices: 'lab/basement', priceBooks: folder })).toBe(
      '--prices: the price book lab-2030 of lab/basement has no class STANDARD',
    );
  });

  test('with a folder that is none, or has what is no price book, or a taken name', () => {
    expect(refusal({ priceBooks: join(folder, 'no') })).toMatch(/^--price-books: ENOENT/);
    addBook('lab-2026', { effective: 'soon' });
    expect(refusal({ priceBooks: folder })).toMatch(/lab-2026\.json: effective: must be/);
    rmSync(join(folder, 'lab-2026.json'));
    addBook('free');
    expect(refusal({ priceBooks: folder })).toBe('--price-books: two price books are named free');
  });
});
