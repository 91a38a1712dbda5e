// Which accounts are told to be near their limits: bounded, and in the end all of them are looked
// at.
import { beforeEach, describe, expect, it } from 'vitest';
import { type OpenDatabase, openDatabase, type Reader } from '#bursar/core/database.js';
import type { Limits } from '#bursar/core/quota-terms.js';
import { schema } from '#bursar/ledger/schema.js';
import { BudgetShares, sharesMax } from '#bursar/quota/budget-shares.js';
import { AccountBook } from '#bursar/quota/leases/account-book.js';
import { AccountTables } from '#bursar/quota/leases/account-tables.js';

let db: OpenDatabase;
let book: AccountBook;
const limited = new Map<string, unknown>();
const leased = new Map<string, unknown>();
beforeEach(() => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  book = new AccountBook(new AccountTables(db.tx), 'run 1');
  limited.clear();
  leased.clear();
});

async function use(account: string, limits: Limits, requests: number): Promise<void> {
  await book.setLimits(account, limits, Date.now());
  limited.set(account, true);
  const settlement = { holder: 0, held: [], isMixed: false };
  await book.post(settlement, [{ accounts: [account], amounts: { requests } }], Date.now());
}

const nameOf = (i: number): string => `principal:cms/p${String(i).padStart(4, '0')}`;

function sharesOf(goodMs: number, read: Reader = db.tx): BudgetShares {
  return new BudgetShares({ read, leaseHolder: { limited, leased }, goodMs });
}

describe('shares of budgets', () => {
  it('are what is used of each limit, the largest first', async () => {
    await use('tenant:cms', { requests: { total: 100, day: 1000 } }, 50);
    await use('tenant:atlas', { requests: { month: 40 } }, 50);
    await use('tenant:none', { requests: { total: 0 }, egressBytes: { day: 7 } }, 0);
    await book.flush();
    expect(await sharesOf(0).list()).toEqual([
      { account: 'tenant:atlas', meter: 'requests', window: 'month', ratio: 1.25 },
      { account: 'tenant:none', meter: 'requests', window: 'total', ratio: 1 },
      { account: 'tenant:cms', meter: 'requests', window: 'total', ratio: 0.5 },
      { account: 'tenant:cms', meter: 'requests', window: 'day', ratio: 0.05 },
      { account: 'tenant:none', meter: 'egressBytes', window: 'day', ratio: 0 },
    ]);
  });

  it('count what a crash has lost as used', async () => {
    await use('tenant:cms', { requests: { total: 100 } }, 10);
    const need = { requests: 5 };
    await book.draw({ holder: 0, draws: [{ account: 'tenant:cms', need, want: {} }] }, Date.now());
    await book.flush();
    expect(await sharesOf(0).list()).toMatchObject([{ ratio: 0.1 }]);
    book = new AccountBook(new AccountTables(db.tx), 'run 2');
    await book.writeOffLeases(10, Date.now());
    await book.flush();
    expect(await sharesOf(0).list()).toMatchObject([{ ratio: 0.15 }]);
  });

  it('of very many accounts are bounded, and each account has its turn', async () => {
    for (let i = 0; i < 1000; i++) await use(nameOf(i), { requests: { total: 1000 } }, i);
    await book.flush();
    const shares = sharesOf(0);
    let reads = 0;
    const counting: Reader = {
      get: (sql, ...values) => db.tx.get(sql, ...values),
      all: (sql, ...values) => {
        reads += 1;
        return db.tx.all(sql, ...values);
      },
    };
    const watched = sharesOf(0, counting);
    await watched.list();
    expect(reads).toBe(400);
    for (let i = 0; i < 3; i++) await shares.list();
    const told = await shares.list();
    expect(told).toHaveLength(sharesMax);
    expect(told[0]).toMatchObject({ account: nameOf(999), ratio: 0.999 });
    expect(told.at(-1)).toMatchObject({ account: nameOf(800) });
  });

  it('show at once who is being drawn on', async () => {
    for (let i = 0; i < 600; i++) await use(nameOf(i), { requests: { total: 1000 } }, 1);
    await use('tenant:last', { requests: { total: 10 } }, 9);
    await book.flush();
    leased.set('tenant:last', true);
    leased.set('token:x', true);
    const [first] = await sharesOf(0).list();
    expect(first).toMatchObject({ account: 'tenant:last', ratio: 0.9 });
  });

  it('of one tenant, however many, do not hide what others use or are near to', async () => {
    for (let i = 0; i < 500; i++) await use(nameOf(i), { requests: { total: 1 } }, 2);
    await use('tenant:last', { requests: { total: 10 } }, 9);
    await book.flush();
    for (let i = 0; i < 500; i++) leased.set(nameOf(i), true);
    leased.set('tenant:last', true);
    const shares = sharesOf(0);
    for (let i = 0; i < 2; i++) await shares.list();
    const told = await shares.list();
    expect(told).toHaveLength(sharesMax);
    expect(told.at(-1)).toMatchObject({ account: 'tenant:last', ratio: 0.9 });
  });

  it('are looked at no more often than they are good', async () => {
    await use('tenant:cms', { requests: { total: 100 } }, 10);
    await book.flush();
    const shares = sharesOf(60_000);
    const [one, other] = await Promise.all([shares.list(), shares.list()]);
    expect(one).toBe(other);
    await use('tenant:cms', { requests: { total: 100 } }, 10);
    await book.flush();
    expect(await shares.list()).toBe(one);
    expect(one).toMatchObject([{ ratio: 0.1 }]);
  });

  it('forget whose limits were taken away', async () => {
    await use('tenant:cms', { requests: { total: 100 } }, 10);
    await book.flush();
    const shares = sharesOf(0);
    expect(await shares.list()).toHaveLength(1);
    await book.setLimits('tenant:cms', null, Date.now());
    await book.flush();
    limited.delete('tenant:cms');
    expect(await shares.list()).toEqual([]);
  });
});
