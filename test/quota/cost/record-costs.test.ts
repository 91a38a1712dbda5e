// What records say was paid is divided without remainder; and the same prices, asked again, give
// the same, since bills of months do not depend on how the month was cut.
import { describe, expect, it } from 'vitest';
import { formatUsd, parseUsd } from '#bursar/core/money.js';
import { type CostRecord, costsOfAccount, RecordCosts } from '#bursar/quota/cost/record-costs.js';
import { chargeOperation } from '#bursar/quota/prices/charges.js';
import { classPrices, type PriceBook } from '#bursar/quota/prices/price-book.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { chargeStorage, monthAt } from '#bursar/quota/prices/storage-accrual.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from '../../fuzz/seeded-random.ts';

const books = readPriceBooks();
const bookOf = (name: string): PriceBook => books.named(name) as PriceBook;
const GB = 2 ** 30;
const hourMs = 3_600_000;
const usd = (text: string): bigint => parseUsd(text) as bigint;

const record = (some: Partial<CostRecord>): CostRecord => ({
  index: 0,
  time: '2026-10-05T00:00:00.000Z',
  action: 's3:GetObject',
  status: 200,
  bytesIn: 0,
  bytesOut: 0,
  ...some,
});
const read = (bytesOut: number, cost: string, some: Partial<CostRecord> = {}): CostRecord =>
  record({ price: 'get', priceBook: 'aws-us-east-1-2026', bytesOut, cost, ...some });

/** A gateway's log of one price book, charged as the ledger's thread does it. */
function logOf(random: () => number, book: PriceBook): { records: CostRecord[]; paid: bigint } {
  const records: CostRecord[] = [];
  const before = { monthMs: 0, ingressBytes: 0, egressBytes: 0, byteMs: 0n };
  let timeMs = Date.UTC(2026, 0, 1) + randomBelow(random, 20) * 24 * hourMs;
  let paid = 0n;
  for (let index = randomBelow(random, 40); index > 0; index--) {
    const fromMs = timeMs;
    timeMs += randomBelow(random, 30 * 24) * hourMs;
    const month = monthAt(timeMs);
    if (month.beginMs !== before.monthMs) {
      Object.assign(before, { ingressBytes: 0, egressBytes: 0, byteMs: 0n });
      before.monthMs = month.beginMs;
    }
    const bytes = () => randomBelow(random, 2 ** randomBelow(random, 45));
    const time = new Date(timeMs).toISOString();
    const common = { index, time, class: 'STANDARD', priceBook: book.name };
    if (randomBelow(random, 4) === 0) {
      const byteMs = BigInt(bytes()) * BigInt(hourMs);
      const prices = classPrices(book, 'STANDARD');
      const cost = chargeStorage(prices, { month, byteMs }, before.byteMs);
      before.byteMs += byteMs;
      paid += cost;
      const since = new Date(Math.max(fromMs, month.beginMs)).toISOString();
      const about = { period: `${since}/${time}`, byteMs: String(byteMs), cost: formatUsd(cost) };
      records.push(record({ ...common, action: 'bursar:ChargeStorage', ...about }));
      continue;
    }
    const price = randomOf(random, ['put', 'get'] as const);
    const [ingressBytes, egressBytes] = [bytes(), bytes()];
    const asked = { storageClass: 'STANDARD', price, ingressBytes, egressBytes, retrievalBytes: 0 };
    const { total } = chargeOperation(book, asked, before);
    before.ingressBytes += ingressBytes;
    before.egressBytes += egressBytes;
    paid += total;
    const moved = { bytesIn: ingressBytes, bytesOut: egressBytes, cost: formatUsd(total) };
    const action = randomOf(random, ['s3:GetObject', 's3:PutObject', 's3:ListBucket']);
    records.push(record({ ...common, action, price, ...moved }));
  }
  return { records, paid };
}

function costsOf(records: readonly CostRecord[]): RecordCosts {
  const costs = new RecordCosts(books);
  for (const one of records) costs.add(one);
  return costs;
}

describe('what records say', () => {
  it('adds up to what was paid, and to what the same prices give', {
    timeout: fuzzTimeoutMs,
  }, async () => {
    let larger = 0;
    await fuzz(1, 300, (random) => {
      const book = bookOf(randomOf(random, ['aws-us-east-1-2026', 's3-2007', 's3-2010']));
      const { records, paid } = logOf(random, book);
      const costs = costsOf(records);
      const { charged } = costs;
      expect(charged.total).toBe(paid);
      for (const again of [costs.price(), costs.price({ book })]) {
        expect(again.total).toBe(paid);
        const { ingress, egress, ...others } = again;
        expect(charged).toMatchObject(others);
        expect(charged.ingress + charged.egress).toBe(ingress + egress);
      }
      if (paid > 0n) larger++;
    });
    expect(larger).toBeGreaterThan(200);
  });

  it('divides into requests, transfers and what is kept', () => {
    const costs = costsOf([
      read(GB, '0.0900004'),
      record({ ...read(0, '0.000005'), action: 's3:PutObject', price: 'put', bytesIn: 5 }),
      record({
        action: 'bursar:ChargeStorage',
        priceBook: 'aws-us-east-1-2026',
        period: '2026-10-01T00:00:00Z/2026-10-01T01:00:00Z',
        byteMs: '1',
        cost: '0.25',
      }),
      record({ action: 's3:DeleteObject', cost: '0.00', storageCost: '0.5' }),
      record({ action: 's3:DeleteBucket', cost: '0.00', storageCost: '0.125' }),
      record({ action: 'bursar:ListUsage' }),
    ]);
    expect(costs.charged).toEqual({
      puts: usd('0.000005'),
      gets: usd('0.0000004'),
      ingress: 0n,
      egress: usd('0.09'),
      retrieval: 0n,
      storage: usd('0.375'),
      earlyDeletion: usd('0.5'),
      total: usd('0.9650054'),
    });
    expect(costs.count).toBe(5);
  });

  it('counts each of the reads that are one record, in the month in which they were', () => {
    const reads = { reads: 5, lastRead: '2026-10-31T23:59:59.000Z' };
    const folded = read(GB, '0.090002', { ...reads, time: '2026-11-01T00:00:04.000Z' });
    const single = read(0, '0.0000004', { time: '2026-10-31T23:59:59.000Z' });
    const { charged } = costsOf([folded]);
    expect(charged).toMatchObject({ gets: usd('0.000002'), egress: usd('0.09') });
    const one = costsOf([read(GB, '0.0900004', { time: single.time }), ...Array(4).fill(single)]);
    expect(charged).toEqual(one.charged);
    expect(costsOf([folded]).price()).toEqual(one.price());
  });

  it('counts months by themselves: each has its free gigabytes', () => {
    const october = read(100 * GB, '0.0000004');
    const november = read(100 * GB, '0.0000004', { time: '2026-11-05T00:00:00Z' });
    expect(costsOf([october, november]).price().egress).toBe(0n);
    expect(costsOf([october, october]).price().egress).toBe(usd('9'));
  });

  it('has storage in the month that it was kept in, though charged in the next', () => {
    // 31 days of October at 51,200 GB are $1,177.60; a GB more is in the second tier.
    const monthMs = 31 * 24 * hourMs;
    const kept = (gigabytes: number) =>
      record({
        time: '2026-11-01T00:00:07.000Z',
        action: 'bursar:ChargeStorage',
        class: 'STANDARD',
        priceBook: 'aws-us-east-1-2026',
        period: '2026-10-01T00:00:00.000Z/2026-11-01T00:00:00.000Z',
        byteMs: String(BigInt(gigabytes * GB) * BigInt(monthMs)),
        cost: '1',
      });
    expect(costsOf([kept(51_200), kept(1)]).price().storage).toBe(usd('1177.622'));
    const inIa = costsOf([kept(1)]).price({ storageClass: 'STANDARD_IA' });
    expect(inIa.storage).toBe(usd('0.0125'));
  });

  it('a read of a version is a read of its object', () => {
    const asked = { ...read(GB, '0.0900004'), action: 's3:GetObjectVersion' };
    const inIa = costsOf([asked]).price({ storageClass: 'STANDARD_IA' });
    expect(inIa).toEqual(costsOf([read(GB, '0.0900004')]).price({ storageClass: 'STANDARD_IA' }));
    expect(inIa.retrieval).toBeGreaterThan(0n);
  });

  it('costs more or less by other books and classes, and behind a cache', () => {
    const listing = read(GB, '0.09', { action: 's3:ListBucket', price: 'put' });
    const costs = costsOf([read(9 * GB, '0.9'), listing]);
    expect(costs.price({ book: bookOf('s3-2007') })).toMatchObject({
      puts: usd('0.00001'),
      gets: usd('0.000001'),
      egress: usd('1.80'),
    });
    expect(costs.price({ storageClass: 'GLACIER_IR' }).retrieval).toBe(usd('0.27'));
    // Of 10 GB one is a listing, which no cache answers.
    const cached = costs.price({ book: bookOf('s3-2007'), hitsPerMillion: 1_000_000 });
    expect(cached).toMatchObject({ puts: usd('0.00001'), gets: 0n, egress: usd('0.18') });
  });

  it('takes what a copy read for what its class is charged for, and a refusal for nothing', () => {
    const copy = record({
      ...{ action: 's3:PutObject', price: 'put', priceBook: 'aws-us-east-1-2026' },
      ...{ size: 3 * GB, cost: '0.000005' },
    });
    const refused = read(500, '0.0000004', { status: 404 });
    const costs = costsOf([copy, refused]);
    expect(costs.price({ storageClass: 'STANDARD_IA' }).retrieval).toBe(usd('0.03'));
  });

  it('is refused where it does not fit the price books', () => {
    const add = (one: CostRecord) => () => costsOf([one]);
    expect(add(read(0, '0.1', { priceBook: 'lab-2030' }))).toThrow('lab-2030, which is not here');
    expect(add(read(0, '0.0000003'))).toThrow('charged less than aws-us-east-1-2026 says');
    expect(add(record({ cost: '0.1' }))).toThrow('does not say what its cost is for');
    expect(add(record({ cost: '1e3' }))).toThrow('has the cost "1e3"');
    const costs = costsOf([read(0, '0.0000004')]);
    expect(() => costs.price({ storageClass: 'EXPRESS' })).toThrow('has no class EXPRESS');
  });
});

describe('an account', () => {
  const parties = { tenant: 'cms', principal: 'bob', bucket: 'raw', tokens: ['t1'] };
  const put = { ...record({ cost: '0.1', storageCost: '2' }), ...parties, bucketOwner: 'alice' };
  const paid = (account: string, one = put) => {
    const found = costsOfAccount(one, account);
    return found && [found.cost, found.storageCost];
  };

  it('paid what its operations cost, and what is owed for what it owned', () => {
    expect(paid('principal:cms/bob')).toEqual(['0.1', undefined]);
    expect(paid('token:t1')).toEqual(['0.1', undefined]);
    expect(paid('principal:cms/alice')).toEqual(['0.1', '2']);
    expect(paid('bucket:cms/raw')).toEqual(['0.1', '2']);
    expect(paid('tenant:cms')).toEqual(['0.1', '2']);
    expect(paid('principal:cms/eve')).toBeNull();
    expect(paid('tenant:atlas')).toBeNull();
  });

  it('of another tenant pays for its own request only', () => {
    const shared = { ...put, tenant: 'atlas', principal: 'eve', bucketTenant: 'cms' };
    expect(paid('tenant:atlas', shared)).toEqual(['0.1', undefined]);
    expect(paid('tenant:cms', shared)).toEqual(['0.1', '2']);
    expect(paid('bucket:atlas/raw', shared)).toBeNull();
  });
});
