// Lists of accounts: whose they show, page by page, and that other tenants' cost nothing.
import { beforeEach, describe, expect, it } from 'vitest';
import { type OpenDatabase, openDatabase, type Reader } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';
import { type AccountFilter, listAccounts } from '#bursar/quota/account-list.js';
import { AccountBook } from '#bursar/quota/leases/account-book.js';
import { AccountTables } from '#bursar/quota/leases/account-tables.js';
import { sumStored } from '#bursar/quota/usage.js';

const tenants = ['cm', 'cms', 'cms-2', 'cms.x', 'cmsa'];
const namesIn = (tenant: string) => [
  ...[`bucket:${tenant}/a`, `bucket:${tenant}/b`, `prefix:${tenant}/a/x/`],
  `principal:${tenant}/alice`,
  ...[`principal:${tenant}/bob`, `tenant:${tenant}`, `writer:${tenant}/alice`],
];

let db: OpenDatabase;
beforeEach(async () => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(schema);
  const book = new AccountBook(new AccountTables(db.tx), 'run');
  const used = ['token:x', 'store:local', 'backend:cms', ...tenants.flatMap(namesIn)];
  const amounts = { requests: 1, storedBytes: 5, storedObjects: 1 };
  await book.post({ holder: 0, held: [], isMixed: false }, [{ accounts: used, amounts }], 0);
  await book.setLimits('bucket:cms/b', { requests: { total: 5 } }, 0);
  await book.setLimits('tenant:cms', { requests: { total: 5 } }, 0);
  await book.flush();
});

async function listAll(filter: AccountFilter, isLimited: boolean): Promise<string[]> {
  const all: string[] = [];
  for (;;) {
    const page = { after: all.at(-1) ?? '', limit: 2, isLimited };
    const names = await listAccounts(db.tx, filter, page);
    all.push(...names);
    if (names.length < 2) return all;
  }
}

describe('a list of accounts', () => {
  it('has those of a tenant, none of another of a like name, however it is paged', async () => {
    for (const tenant of tenants) expect(await listAll({ tenant }, false)).toEqual(namesIn(tenant));
  });

  it('of all tenants has neither tokens nor what stores cost', async () => {
    const all = tenants.flatMap(namesIn);
    expect(await listAll({}, false)).toEqual(all.sort());
  });

  it('of limits has the accounts that have some', async () => {
    const limited = ['bucket:cms/b', 'tenant:cms'];
    expect(await listAll({}, true)).toEqual(limited);
    expect(await listAll({ tenant: 'cms' }, true)).toEqual(limited);
    expect(await listAll({ tenant: 'cm' }, true)).toEqual([]);
  });

  it('looks at nothing between the accounts that it shows', async () => {
    const plans: string[] = [];
    const read: Reader = {
      get: db.tx.get,
      all: async (sql, ...values) => {
        const steps = await db.tx.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...values);
        plans.push(...steps.map(({ detail }) => detail).filter((one) => /SEARCH|SCAN/.test(one)));
        return db.tx.all(sql, ...values);
      },
    };
    for (const isLimited of [false, true]) {
      await listAccounts(read, { tenant: 'cms' }, { after: 'bucket:b', limit: 2, isLimited });
    }
    const range = 'SEARCH quota_accounts USING PRIMARY KEY (account>? AND account<?)';
    expect(plans).toEqual(Array(10).fill(range));
  });
});

describe('what is stored in all', () => {
  it('is what the tenants keep, counted once', async () => {
    expect(await sumStored(db.tx)).toEqual({ storedBytes: 25, storedObjects: 5 });
  });
});
