// Reads by anybody that become one record a minute: what they cost is what they would have cost one
// by one, and none of them is lost or recorded twice.
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Commit } from '#bursar/ledger/commit.js';
import { partsOf } from '#bursar/quota/roll-up/charged-record.js';
import { readUsage } from '#bursar/quota/usage.js';
import { commitOf, type LedgerFixture, openLedger } from './fixture.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  // A minute that ends in the midst of a test would make two records of its reads.
  const leftMs = 60_000 - (Date.now() % 60_000);
  if (leftMs < 5000) await new Promise((resolve) => setTimeout(resolve, leftMs));
  fixture = await openLedger();
});
afterEach(() => fixture.close());

interface Read {
  bytes?: number;
  source?: string;
  etag?: string;
  key?: string;
}

/** A GET by anybody of alice's object. */
function readOf({ bytes = 10, source = '192.0.2.1', etag = 'e', key = 'k' }: Read = {}): Commit {
  const commit = commitOf({ kind: 'none' }, key);
  if (!commit.charge) throw new Error('it is charged');
  const transfer = { ...commit.charge.transfer, egressBytes: bytes, retrievalBytes: bytes };
  const who = { ...commit.charge.who, principal: 'anonymous' };
  const pricing = { ...commit.charge.pricing, price: 'get' as const };
  return {
    ...commit,
    charge: { ...commit.charge, who, transfer, pricing },
    record: {
      ...commit.record,
      ...{ action: 's3:GetObject', principal: 'anonymous', bucketOwner: 'alice' },
      ...{ bytesOut: bytes, source, etag, class: 'STANDARD', sizeBytes: 1000 },
      range: bytes === 10 ? null : `0-${bytes - 1}`,
    },
  };
}

/** As many housekeepings as it takes until all that was sent is applied. */
async function settle(): Promise<void> {
  for (let i = 0; i < 3; i++) await fixture.ledger.maintain({ kind: 'purgeTokens', max: 1 });
}

async function fold(reads: readonly Read[]): Promise<void> {
  for (const read of reads) fixture.ledger.record({ ...readOf(read), folds: true });
  await settle();
}

/** Has the minutes of all folds be over, and them recorded. */
async function closeAll(): Promise<number> {
  fixture.edit('UPDATE OR REPLACE read_folds SET minute_ms = minute_ms - 120000');
  return fixture.ledger.maintain({ kind: 'closeFolds', max: 100 });
}

interface Folded {
  reads?: number;
  bytesOut: number;
  cost?: string;
  sources?: string[];
  otherReads?: number;
  [member: string]: unknown;
}

async function records(): Promise<{ text: string; record: Folded }[]> {
  const sql = 'SELECT record FROM records ORDER BY idx';
  const rows = await fixture.read.all<{ record: string }>(sql);
  return rows
    .map(({ record: text }) => ({ text, record: JSON.parse(text) as Folded }))
    .filter(({ record }) => record.action === 's3:GetObject');
}

const sizes = [1, 10, 333, 70_000, 1_000_003, 10, 10];

test('are one record with the sum of all, when their minute is over', async () => {
  await fold(sizes.map((bytes) => ({ bytes })));
  expect(await records()).toEqual([]);
  expect(await fixture.ledger.maintain({ kind: 'closeFolds', max: 100 })).toBe(0);
  expect(await closeAll()).toBe(1);
  expect(await closeAll()).toBe(0);
  const [found, ...more] = await records();
  expect(more).toEqual([]);
  expect(found?.record).toMatchObject({
    ...{ action: 's3:GetObject', principal: 'anonymous', key: 'k', etag: 'e', status: 200 },
    ...{ reads: sizes.length, bytesOut: sizes.reduce((sum, bytes) => sum + bytes) },
    ...{ sources: ['192.0.2.1'], source: '192.0.2.1', price: 'get', evidence: 'none' },
  });
  expect(found?.record).not.toHaveProperty('range');
  expect(Date.parse(found?.record.firstRead as string)).toBeLessThanOrEqual(
    Date.parse(found?.record.lastRead as string),
  );
});

test('cost each account what they would with a record each, to the picodollar', async () => {
  const accounts = [
    'bucket:one/data',
    'principal:one/alice',
    'principal:one/anonymous',
    'tenant:one',
  ];
  const usage = async () => Promise.all(accounts.map((name) => readUsage(fixture.read, name)));
  const sums = (texts: string[]) => {
    const byAccount = new Map<string, { requests: number; egressBytes: number; spend: bigint }>();
    for (const { account, requests, egressBytes, spend } of texts.flatMap(partsOf)) {
      const sum = byAccount.get(account) ?? { requests: 0, egressBytes: 0, spend: 0n };
      byAccount.set(account, {
        requests: sum.requests + requests,
        egressBytes: sum.egressBytes + egressBytes,
        spend: sum.spend + spend,
      });
    }
    return byAccount;
  };
  await fold(sizes.map((bytes) => ({ bytes })));
  await closeAll();
  const folded = { usage: await usage(), sums: sums((await records()).map(({ text }) => text)) };
  await fixture.close();
  fixture = await openLedger();
  for (const bytes of sizes) fixture.ledger.record(readOf({ bytes }));
  await settle();
  expect(await records()).toHaveLength(sizes.length);
  expect(folded.usage).toEqual(await usage());
  expect(folded.sums).toEqual(sums((await records()).map(({ text }) => text)));
  expect(folded.sums.get('bucket:one/data')?.requests).toBe(sizes.length);
});

describe('have a record of their own', () => {
  test.each<[string, Read]>([
    ['for each object', { key: 'other' }],
    ['for each version of an object', { etag: 'other' }],
  ])('%s', async (_what, other) => {
    await fold([{}, other, {}]);
    await closeAll();
    expect((await records()).map(({ record }) => record.reads).sort()).toEqual([1, 2]);
  });
});

test('name sixteen addresses that they came from, and count the reads from others', async () => {
  const from = (host: number) => ({ source: `192.0.2.${host}` });
  const hosts = Array.from({ length: 20 }, (_, host) => from(host));
  await fold([...hosts, from(3), from(19)]);
  await closeAll();
  const [found] = await records();
  expect(found?.record.sources).toEqual(hosts.slice(0, 16).map(({ source }) => source));
  expect(found?.record).toMatchObject({ reads: 22, otherReads: 5, source: '192.0.2.0' });
});

test('are recorded at the next start, when the gateway stops within their minute', async () => {
  await fold([{}, {}]);
  await fixture.reopen();
  await fold([{}]);
  await closeAll();
  const all = (await records()).map(({ record }) => record.reads ?? 0);
  expect(all.reduce((sum, reads) => sum + reads)).toBe(3);
});

test('do not become one record with those of another minute', async () => {
  await fold([{}]);
  fixture.edit('UPDATE read_folds SET minute_ms = minute_ms - 120000');
  await fold([{}]);
  expect(await fixture.ledger.maintain({ kind: 'closeFolds', max: 100 })).toBe(1);
  await closeAll();
  expect((await records()).map(({ record }) => record.reads)).toEqual([1, 1]);
});
