// Charges: who is charged for what, by what prices, and that the sums are exact.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';
import { Billing } from '#bursar/quota/billing.js';
import type { Charge, Charged } from '#bursar/quota/charge.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';
import { readUsage } from '#bursar/quota/usage.js';
import { listUsage } from './listed-usage.ts';

let db: OpenDatabase;
let billing: Billing;
beforeEach(() => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  billing = new Billing(db.tx, 'this run', readPriceBooks());
});
afterEach(() => db.close());

/** 5 microdollars for the PUT; the month's first 100 GB out are free. */
const spend = '5000000';
const transfer = { requests: 1, ingressBytes: 10, egressBytes: 20, retrievalBytes: 0 };
const stored = { storedBytes: 30, storedObjects: 4 };
const moved = { requests: 1, ingressBytes: 10, egressBytes: 20, spend };
const nothing = { storedBytes: 0, storedObjects: 0 };
const raw = { tenant: 'cms', name: 'raw', owner: 'bob' };

function chargeOf(who: Partial<Charged>): Charge {
  return {
    who: { tenant: 'cms', principal: 'alice', tokens: [], bucket: null, ...who },
    transfer,
    pricing: {
      ...{ book: 'aws-us-east-1-2026', storageClass: 'STANDARD', sourceClass: null },
      price: 'put',
    },
    settlement: null,
  };
}

async function charge(who: Partial<Charged>, what = stored): Promise<bigint> {
  return billing.charge(chargeOf(who), what, Date.UTC(2026, 10, 21));
}

async function counters(): Promise<Record<string, object>> {
  const rows = await listUsage(db.tx, null);
  return Object.fromEntries(rows.map(({ account, ...counted }) => [account, counted]));
}

describe('a charge', () => {
  it('is of requester, tenant, bucket and its owner, once; storage not of requester', async () => {
    expect(await charge({ bucket: raw })).toBe(BigInt(spend));
    await billing.flush();
    expect(await counters()).toEqual({
      'bucket:cms/raw': { ...moved, ...stored },
      'principal:cms/alice': { ...moved, ...nothing },
      'principal:cms/bob': { ...moved, ...stored },
      'tenant:cms': { ...moved, ...stored },
    });
  });

  it('of an owner’s own request is one account for both', async () => {
    await charge({ principal: 'bob', bucket: raw });
    await billing.flush();
    expect(await readUsage(db.tx, 'principal:cms/bob')).toMatchObject({ ...moved, ...stored });
  });

  it('across tenants is both tenants’; storage is the bucket’s', async () => {
    await charge({ bucket: { ...raw, tenant: 'atlas' } });
    await billing.flush();
    expect(await counters()).toEqual({
      'bucket:atlas/raw': { ...moved, ...stored },
      'principal:atlas/bob': { ...moved, ...stored },
      'principal:cms/alice': { ...moved, ...nothing },
      'tenant:atlas': { ...moved, ...stored },
      'tenant:cms': { ...moved, ...nothing },
    });
  });

  it('without a bucket is the requester’s side alone', async () => {
    await charge({}, nothing);
    await billing.flush();
    const both = { ...moved, ...nothing };
    expect(await counters()).toEqual({ 'principal:cms/alice': both, 'tenant:cms': both });
  });

  it('is every token’s of the chain, and what a token removes makes no room in it', async () => {
    const tokens = ['token:one', 'token:two'].map((name) => ({ name, expiresAtMs: 1 }));
    await charge({ bucket: raw, tokens });
    await charge({ bucket: raw, tokens }, { storedBytes: -30, storedObjects: -4 });
    await billing.flush();
    for (const { name } of tokens) {
      expect(await readUsage(db.tx, name)).toMatchObject({ requests: 2, ...stored });
    }
    expect(await readUsage(db.tx, 'bucket:cms/raw')).toMatchObject({ requests: 2, ...nothing });
  });

  it('adds to what was there, in one batch or in several', async () => {
    await charge({ bucket: raw });
    await charge({ bucket: raw });
    await billing.flush();
    await charge({ bucket: raw }, { storedBytes: -40, storedObjects: -8 });
    await billing.flush();
    await billing.flush();
    expect(await readUsage(db.tx, 'bucket:cms/raw')).toEqual({
      account: 'bucket:cms/raw',
      requests: 3,
      ingressBytes: 30,
      egressBytes: 60,
      storedBytes: 20,
      storedObjects: 0,
      spend: String(3 * Number(spend)),
    });
  });

  it('that is discarded leaves no trace, also not in the tiers', async () => {
    const big = { ...chargeOf({}), transfer: { ...transfer, egressBytes: 100 * 2 ** 30 } };
    const timeMs = Date.UTC(2026, 10, 21);
    const before = await billing.charge(big, nothing, timeMs);
    billing.discard();
    await billing.flush();
    expect(await counters()).toEqual({});
    expect(await billing.charge(big, nothing, timeMs)).toBe(before);
    expect(await billing.charge(big, nothing, timeMs)).toBe(before + 100n * 90_000_000_000n);
  });
});

describe('the counters of a tenant', () => {
  it('are its own, its principals’ and its buckets’, not those of a longer name', async () => {
    for (const tenant of ['cms', 'cms-2', 'cmsx', 'cm']) {
      const bucket = { tenant, name: 'raw', owner: 'alice' };
      await charge({ tenant, bucket, tokens: [{ name: 'token:cms', expiresAtMs: 1 }] });
    }
    await billing.flush();
    expect((await listUsage(db.tx, 'cms')).map(({ account }) => account)).toEqual([
      'bucket:cms/raw',
      'principal:cms/alice',
      'tenant:cms',
    ]);
    const unused = { requests: 0, ingressBytes: 0, egressBytes: 0, ...nothing, spend: '0' };
    expect(await readUsage(db.tx, 'tenant:none')).toEqual({ account: 'tenant:none', ...unused });
  });
});
