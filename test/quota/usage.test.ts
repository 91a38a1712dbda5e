// Usage: who is charged for what, and that the sums are exact.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';
import { listUsage, nothing, readUsage, UsagePosting } from '#bursar/quota/usage.js';

let db: OpenDatabase;
beforeEach(() => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
});
afterEach(() => db.close());

const amounts = {
  requests: 1,
  ingressBytes: 10,
  egressBytes: 20,
  storedBytes: 30,
  storedObjects: 4,
};
const transfer = { ...amounts, storedBytes: 0, storedObjects: 0 };
const storage = { ...nothing, storedBytes: 30, storedObjects: 4 };

async function counters(): Promise<Record<string, object>> {
  const rows = await listUsage(db.tx, null);
  return Object.fromEntries(rows.map(({ account, ...counted }) => [account, counted]));
}

describe('a charge', () => {
  it('puts transfers on who asked, and storage on the owner, each once', async () => {
    const usage = new UsagePosting();
    const bucket = { tenant: 'cms', name: 'raw', owner: 'bob' };
    usage.post({ tenant: 'cms', principal: 'alice', bucket }, amounts);
    await usage.flush(db.tx);
    expect(await counters()).toEqual({
      'bucket:cms/raw': amounts,
      'principal:cms/alice': transfer,
      'principal:cms/bob': storage,
      'tenant:cms': amounts,
    });
  });

  it('of an owner’s own request is one account for both', async () => {
    const usage = new UsagePosting();
    const bucket = { tenant: 'cms', name: 'raw', owner: 'alice' };
    usage.post({ tenant: 'cms', principal: 'alice', bucket }, amounts);
    await usage.flush(db.tx);
    expect(await readUsage(db.tx, 'principal:cms/alice')).toMatchObject(amounts);
  });

  it('across tenants puts storage on the bucket’s tenant, transfers on the requester’s', async () => {
    const usage = new UsagePosting();
    const bucket = { tenant: 'atlas', name: 'raw', owner: 'bob' };
    usage.post({ tenant: 'cms', principal: 'alice', bucket }, amounts);
    await usage.flush(db.tx);
    expect(await counters()).toEqual({
      'bucket:atlas/raw': amounts,
      'principal:atlas/bob': storage,
      'principal:cms/alice': transfer,
      'tenant:atlas': storage,
      'tenant:cms': transfer,
    });
  });

  it('without a bucket is the requester’s alone', async () => {
    const usage = new UsagePosting();
    usage.post({ tenant: 'cms', principal: 'alice', bucket: null }, transfer);
    await usage.flush(db.tx);
    expect(await counters()).toEqual({ 'principal:cms/alice': transfer, 'tenant:cms': transfer });
  });

  it('adds to what was there, in one batch or in several, and storage can shrink', async () => {
    const charged = {
      tenant: 'cms',
      principal: 'alice',
      bucket: { tenant: 'cms', name: 'raw', owner: 'alice' },
    };
    const usage = new UsagePosting();
    usage.post(charged, amounts);
    usage.post(charged, amounts);
    await usage.flush(db.tx);
    usage.post(charged, { ...amounts, storedBytes: -40, storedObjects: -8 });
    await usage.flush(db.tx);
    await usage.flush(db.tx);
    expect(await readUsage(db.tx, 'bucket:cms/raw')).toEqual({
      account: 'bucket:cms/raw',
      requests: 3,
      ingressBytes: 30,
      egressBytes: 60,
      storedBytes: 20,
      storedObjects: 0,
    });
  });

  it('that is discarded leaves no trace', async () => {
    const usage = new UsagePosting();
    usage.post({ tenant: 'cms', principal: 'alice', bucket: null }, amounts);
    usage.discard();
    await usage.flush(db.tx);
    expect(await counters()).toEqual({});
  });
});

describe('the counters of a tenant', () => {
  it('are its own, its principals’ and its buckets’, and none of a tenant of a longer name', async () => {
    const usage = new UsagePosting();
    for (const tenant of ['cms', 'cms-2', 'cmsx', 'cm']) {
      const bucket = { tenant, name: 'raw', owner: 'alice' };
      usage.post({ tenant, principal: 'alice', bucket }, amounts);
    }
    await usage.flush(db.tx);
    expect((await listUsage(db.tx, 'cms')).map(({ account }) => account)).toEqual([
      'bucket:cms/raw',
      'principal:cms/alice',
      'tenant:cms',
    ]);
    expect(await readUsage(db.tx, 'tenant:none')).toEqual({ account: 'tenant:none', ...nothing });
  });
});
