// A price book is understood wholly, or refused with the place that is wrong.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { parsePriceBook, priceBookBytesMax } from '#bursar/quota/prices/price-book.js';
import {
  freeMarket,
  MarketPrices,
  PriceBooks,
  readPriceBooks,
} from '#bursar/quota/prices/price-books.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from '../../fuzz/seeded-random.ts';
import { bookText } from './price-book-text.ts';

const meter = 'classes.STANDARD';
const source = 'list';

describe('a price book', () => {
  it('is read with each price as a whole number of picodollars', () => {
    const book = parsePriceBook(bookText());
    expect(book.effectiveMs).toBe(Date.UTC(2026, 0, 1));
    expect(book.egress.tiers).toEqual([
      { upToGb: 1n, picodollarsPerGb: 0n },
      { upToGb: undefined, picodollarsPerGb: 90_000_000_000n },
    ]);
    expect(book.egress.picodollarsPerGbMost).toBe(90_000_000_000n);
    expect(book.classes.get('STANDARD')).toMatchObject({
      picodollarsPerPut: 5_000_000n,
      picodollarsPerGet: 400_000n,
    });
  });

  it.each([
    ['format', 'bursar-price-book/2', 'format: must be'],
    ['currency', 'EUR', 'currency: must be'],
    ['name', 'Small', 'name: must be'],
    ['region', '', 'region: must be'],
    ['provider', undefined, 'must have the member provider'],
    ['extra', 1, 'must not have the member "extra"'],
    ['effective', '2026-02-30', 'effective: must be a day'],
    ['effective', '2026-13-01', 'effective: must be a day'],
    ['effective', '2026-1-1', 'effective: must be'],
    ['sources', {}, 'sources: must have 1 to'],
    ['sources', [], 'sources: must be an object'],
    ['sources.other', { text: 'x', date: '2026' }, 'sources.other: must be of some figure'],
    ['sources.list.date', 'yesterday', 'sources.list.date: must be'],
    ['sources.list.text', '', 'sources.list.text: must be'],
    ['classes', {}, 'classes: must have 1 to'],
    ['classes.standard', {}, 'classes: the name "standard": must be'],
    [`${meter}.put`, { usdPer1000: '0.005' }, 'put: must have the member source'],
    [`${meter}.put.source`, 'elsewhere', 'put.source: must be one of sources'],
    [`${meter}.put.source`, 'constructor', 'put.source: must be one of sources'],
    [`${meter}.put.usdPer1000`, 0.005, 'put.usdPer1000: must be USD'],
    [`${meter}.put.usdPer1000`, '-0.005', 'put.usdPer1000: must be USD'],
    [`${meter}.put.usdPer1000`, '0.0000000001', 'put.usdPer1000: must be USD'],
    [`${meter}.get`, undefined, 'must have the member get'],
    [`${meter}.retrieval.usdPerGb`, '1e-3', 'retrieval.usdPerGb: must be USD'],
    [`${meter}.minimum.days`, -1, 'minimum.days: must be a whole number'],
    [`${meter}.minimum.days`, 1.5, 'minimum.days: must be a whole number'],
    [`${meter}.minimum.bytes`, '128', 'minimum.bytes: must be a whole number'],
    [`${meter}.storage.usdPerGbMonth`, [], 'usdPerGbMonth: must be a list'],
    ['egress.usdPerGb', [{ usd: '1' }, { usd: '2' }], '[0]: must have the member upToGb'],
    ['egress.usdPerGb', [{ upToGb: 1, usd: '1' }], '[0]: must not have the member "upToGb"'],
    ['egress', { usdPerGbMonth: [{ usd: '1' }], source }, 'egress: must have the member usdPerGb'],
    [`${meter}.restore`, {}, 'restore: must have 1 to'],
    [`${meter}.restore`, { Fast: { usdPer1000: '1', usdPerGb: '1', source } }, 'name "Fast"'],
    [`${meter}.restore`, { Bulk: { usdPerGb: '1', source } }, 'Bulk: must have the member usdPer'],
  ])('is refused with %s %j', (path, value, message) => {
    expect(() => parsePriceBook(bookText(path, value))).toThrow(message);
  });

  it.each([[[5, 5]], [[5, 4]], [[0, 4]], [[2 ** 43, 2 ** 43 + 1]]])(
    'is refused with tiers that end at %j',
    (ends) => {
      const tiers = [...ends.map((upToGb) => ({ upToGb, usd: '1' })), { usd: '1' }];
      expect(() => parsePriceBook(bookText('egress.usdPerGb', tiers))).toThrow('upToGb: must be');
    },
  );

  it.each([
    ['a member that is given twice', '"currency":"USD"', '"currency":"EUR","currency":"USD"'],
    ['a member that is given twice, once escaped', '"days":0', '"d\\u0061ys":9,"days":0'],
    ['a number in another form', '"upToGb":50', '"upToGb":5e1'],
    ['an escape without need', '"text":"A list"', '"text":"\\u0041 list"'],
    ['what is no JSON', '"currency"', 'currency'],
    ['a comment', '"currency"', '/* USD */ "currency"'],
  ])('is refused with %s', (_, part, changed) => {
    const text = bookText().replace(part, changed);
    expect(text).not.toBe(bookText());
    expect(() => parsePriceBook(text)).toThrow();
  });

  it('is refused when it is too long, before it is parsed', () => {
    expect(() => parsePriceBook(`${bookText()}${' '.repeat(priceBookBytesMax)}`)).toThrow(
      'at most',
    );
  });

  it('may be laid out with spaces and lines', () => {
    const text = JSON.stringify(JSON.parse(bookText()), null, '\t ');
    expect(parsePriceBook(text)).toEqual({ ...parsePriceBook(bookText()), text });
  });

  const pieces = [...'{}[]",:0123456789.-eE \\', 'usd', 'upToGb', 'null', '\u0000', '__proto__'];

  it('damaged at random is read or refused, and never read as another', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    const sound = bookText();
    let readCount = 0;
    await fuzz(1, 2000, (random) => {
      const at = randomBelow(random, sound.length);
      const end = at + randomBelow(random, 3);
      const text = sound.slice(0, at) + randomOf(random, pieces) + sound.slice(end);
      let read: ReturnType<typeof parsePriceBook>;
      try {
        read = parsePriceBook(text);
      } catch (error) {
        expect(error).toBeInstanceOf(Error);
        return;
      }
      readCount++;
      // What was read is all that the text says: no member of it was passed over.
      const said = JSON.parse(text);
      expect(Object.keys(said).sort()).toEqual(Object.keys(JSON.parse(sound)).sort());
      expect([...read.classes.keys()]).toEqual(Object.keys(said.classes));
      expect(read.egress.tiers.length).toBe(said.egress.usdPerGb.length);
    });
    expect(readCount).toBeGreaterThan(20);
  });
});

describe('price books', () => {
  const from = (name: string, effective: string, region = 'us-east-1') => {
    const book = { ...JSON.parse(bookText()), name, effective, region };
    return parsePriceBook(JSON.stringify(book));
  };

  it('are in force from their day on until the next', () => {
    const days = [from('b', '2010-01-01'), from('c', '2026-01-01'), from('a', '2007-06-01')];
    const books = new PriceBooks([...days, from('other', '2000-01-01', 'eu-west-1')]);
    const nameAt = (timeMs: number) => books.inForce('aws/us-east-1', timeMs)?.name;
    expect(nameAt(Date.UTC(2007, 5, 1) - 1)).toBeUndefined();
    expect(nameAt(Date.UTC(2007, 5, 1))).toBe('a');
    expect(nameAt(Date.UTC(2010, 0, 1) - 1)).toBe('a');
    expect(nameAt(Date.UTC(2010, 0, 1))).toBe('b');
    expect(nameAt(Date.UTC(2030, 0, 1))).toBe('c');
    expect(books.inForce('aws/eu-west-1', 0)).toBeUndefined();
    expect(books.inForce('gcp/us-east-1', Date.UTC(2026, 5))).toBeUndefined();
  });

  it('are refused with two of one name, or two from one day on', () => {
    const book = from('a', '2026-01-01');
    expect(() => new PriceBooks([book, from('a', '2027-01-01')])).toThrow('named a');
    expect(() => new PriceBooks([book, from('b', '2026-01-01')])).toThrow('on one day');
  });

  describe('of a market', () => {
    const days = [from('b', '2010-01-01'), from('c', '2026-01-01'), from('a', '2007-06-01')];
    const books = new PriceBooks(days);
    const follow = (timeMs: number, classes = ['STANDARD'], market = 'aws/us-east-1') =>
      new MarketPrices(books, { market, timeMs, classes });

    it('are followed as each comes into force, and as the clock is set back', () => {
      const prices = follow(Date.UTC(2010, 5));
      expect(prices.at(Date.UTC(2010, 5)).name).toBe('b');
      expect(prices.at(Date.UTC(2026, 0, 1) - 1).name).toBe('b');
      expect(prices.at(Date.UTC(2026, 0, 1)).name).toBe('c');
      expect(prices.at(Date.UTC(2040, 0, 1)).name).toBe('c');
      expect(prices.at(Date.UTC(2012, 0, 1)).name).toBe('b');
      expect(prices.at(Date.UTC(2000, 0, 1)).name).toBe('b');
      expect(prices.at(Date.UTC(2027, 0, 1)).name).toBe('c');
    });

    it('are refused where there are none, where none is in force, and without a class', () => {
      const now = Date.UTC(2026, 5);
      expect(() => follow(now, [], 'aws/mars')).toThrow('of aws/mars; there are aws/us-east-1');
      expect(() => follow(Date.UTC(2007, 0), [])).toThrow('of aws/us-east-1 is in force yet');
      expect(() => follow(now, ['STANDARD', 'GLACIER'])).toThrow('c of aws/us-east-1 has no class');
      // A later book is refused before it comes into force, an earlier one does not matter.
      const { STANDARD } = JSON.parse(bookText()).classes;
      const bare = {
        ...JSON.parse(bookText('classes', { OTHER: STANDARD })),
        effective: '2015-01-01',
      };
      const mixed = new PriceBooks([...days, parsePriceBook(JSON.stringify(bare))]);
      const at = (timeMs: number) => () =>
        new MarketPrices(mixed, { market: 'aws/us-east-1', timeMs, classes: ['STANDARD'] });
      expect(at(Date.UTC(2010, 5))).toThrow('small of aws/us-east-1 has no class STANDARD');
      expect(at(Date.UTC(2026, 5))).not.toThrow();
    });
  });

  describe('in a folder', () => {
    let folder = '';
    beforeEach(() => {
      folder = mkdtempSync(join(tmpdir(), 'bursar-books-'));
    });
    afterEach(() => rmSync(folder, { recursive: true, force: true }));

    it('are read by the names of their files', () => {
      writeFileSync(join(folder, 'small.json'), bookText());
      writeFileSync(join(folder, 'notes.txt'), 'not a book');
      expect([...readPriceBooks([folder])].map(({ name }) => name)).toEqual(['small']);
      writeFileSync(join(folder, 'other.json'), bookText());
      expect(() => readPriceBooks([folder])).toThrow(/other\.json: name: must be that of the file/);
    });
  });
});

describe('the shipped price books', () => {
  const books = readPriceBooks();

  it.each([
    [Date.UTC(2007, 6), 's3-2007'],
    [Date.UTC(2010, 10), 's3-2010'],
    [Date.UTC(2026, 10), 'aws-us-east-1-2026'],
  ])('have one in force at %d: %s', (timeMs, name) => {
    expect(books.inForce('aws/us-east-1', timeMs)?.name).toBe(name);
  });

  it('have one by which nothing costs anything, ever', () => {
    const free = books.inForce(freeMarket, 0);
    expect(free?.name).toBe('free');
    expect(free?.dearest).toEqual({
      picodollarsPerPut: 0n,
      picodollarsPerGet: 0n,
      retrievalPicodollarsPerGb: 0n,
    });
    const tariffs = [...(free?.classes.values() ?? [])].map(({ storage }) => storage);
    for (const { picodollarsPerGbMost } of [free!.ingress, free!.egress, ...tariffs]) {
      expect(picodollarsPerGbMost).toBe(0n);
    }
    const all = [...books].flatMap(({ classes }) => [...classes.keys()]);
    expect(all.filter((name) => name !== 'EBS' && !free?.classes.has(name))).toEqual([]);
  });

  it('have one of what lies in a class, and of restores from it', () => {
    const book = books.named('aws-us-east-1-2026')!;
    const glacier = books.named('aws-us-east-1-2026:GLACIER');
    expect(glacier?.classes.get('STANDARD')).toEqual(book.classes.get('GLACIER'));
    expect(books.named('aws-us-east-1-2026:GLACIER')).toBe(glacier);
    expect(books.inForce('aws/us-east-1:GLACIER', Date.UTC(2026, 10))).toBe(glacier);
    const pricesOf = (name: string) => books.named(name)?.classes.get('STANDARD');
    expect(pricesOf('aws-us-east-1-2026:GLACIER:Expedited')).toMatchObject({
      picodollarsPerPut: 10_000_000_000n,
      retrievalPicodollarsPerGb: 30_000_000_000n,
      storage: glacier?.classes.get('STANDARD')?.storage,
    });
    for (const lacking of ['GLACIER:Fast', 'TAPE', 'DEEP_ARCHIVE:Expedited', 'GLACIER:Bulk:x']) {
      expect(books.named(`aws-us-east-1-2026:${lacking}`)).toBeUndefined();
    }
    expect([...books]).not.toContain(glacier);
    expect(books.inClass(book, 'TAPE')).toBe(book);
    expect(books.inClass(glacier!, 'ONEZONE_IA').name).toBe('aws-us-east-1-2026:ONEZONE_IA');
  });

  it('have the six classes of 2026 with their minimums', () => {
    const classes = books.named('aws-us-east-1-2026')?.classes ?? new Map();
    const minimums = [...classes].map(([name, one]) => [name, one.minimumDays, one.minimumBytes]);
    expect(minimums).toEqual([
      ['STANDARD', 0, 0],
      ['STANDARD_IA', 30, 131_072],
      ['ONEZONE_IA', 30, 131_072],
      ['GLACIER_IR', 90, 131_072],
      ['GLACIER', 90, 0],
      ['DEEP_ARCHIVE', 180, 0],
    ]);
  });
});
