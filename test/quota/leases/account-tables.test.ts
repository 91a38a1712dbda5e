// Accounts in SQLite: what is written is read again, to the last of 64 bits.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { meters } from '#bursar/core/quota-terms.js';
import { emptySums } from '#bursar/quota/amounts.js';
import { newAccountState } from '#bursar/quota/leases/account-state.js';
import { AccountTables, accountSchema, readLimited } from '#bursar/quota/leases/account-tables.js';
import { limitSetOf } from '#bursar/quota/limits/limit-set.js';

const most = 2n ** 63n - 1n;
let db: OpenDatabase;
let tables: AccountTables;
beforeEach(() => {
  db = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  db.exec(accountSchema);
  tables = new AccountTables(db.tx);
});
afterEach(() => db.close());

const sums = (from: bigint) =>
  Object.fromEntries(meters.map((meter, i) => [meter, from - BigInt(i)])) as Record<
    (typeof meters)[number],
    bigint
  >;

/** Levels are not lost, and have no windows. */
const flows = (from: bigint) => ({ ...sums(from), storedBytes: 0n, storedObjects: 0n });

function fullState() {
  const state = newAccountState();
  state.limits = limitSetOf({ spend: { month: '12.50', total: '100' }, rate: { bytes: 5 } });
  state.token = { tenant: 'cms', principal: 'alice', expiresAtMs: 1_800_000_000_000 };
  state.told.set('spend/month', {
    amount: '12500000000000',
    periodMs: 7,
    percent: 80,
    isRefused: true,
  });
  state.used = sums(most);
  state.lost = flows(most - 100n);
  state.marks.day = { beginMs: 86_400_000, used: flows(most - 200n), lost: flows(most - 300n) };
  state.leases.set('run 1', sums(most - 400n));
  state.leases.set('run 2', sums(1000n));
  return state;
}

const all = { windows: new Set(['day'] as const), holders: new Set(['run 1', 'run 2']) };

describe('an account', () => {
  it('is read as it was written, each column in its own place', async () => {
    await tables.write('token:t', fullState(), all);
    expect(await tables.read('token:t')).toEqual(fullState());
    expect(await tables.read('token:u')).toBeUndefined();
  });

  it('keeps levels below nothing', async () => {
    const state = newAccountState();
    state.used.storedBytes = -5n;
    await tables.write('bucket:cms/raw', state, { windows: new Set(), holders: new Set() });
    expect((await tables.read('bucket:cms/raw'))?.used.storedBytes).toBe(-5n);
  });

  it('goes on when it has spent more than 64 bits hold, to the picodollar', async () => {
    const state = fullState();
    const spent = most * 1000n + 7n;
    state.used.spend = spent;
    state.lost.spend = spent + 1n;
    state.marks.day.used.spend = spent - 1n;
    await tables.write('token:t', state, all);
    expect(await tables.read('token:t')).toEqual(state);
  });

  it('does not hold more bytes than 64 bits do, rather than others than they were', async () => {
    const state = fullState();
    state.used.egressBytes = most + 1n;
    await expect(tables.write('tenant:cms', state, all)).rejects.toThrow();
  });

  it('whose lease is gone has no row of it', async () => {
    const state = fullState();
    await tables.write('token:t', state, all);
    state.leases.delete('run 2');
    await tables.write('token:t', state, { windows: new Set(), holders: new Set(['run 2']) });
    expect([...((await tables.read('token:t'))?.leases.keys() ?? [])]).toEqual(['run 1']);
    expect(await tables.leasedByOthers('run 1', 9)).toEqual([]);
    expect(await tables.leasedByOthers('run 3', 9)).toEqual(['token:t']);
  });

  it('tells the holders of one run from those of others', async () => {
    const state = fullState();
    const [lease] = state.leases.values();
    state.leases.clear();
    for (const name of ['run', 'run/1']) state.leases.set(name, lease ?? emptySums());
    const holders = new Set(state.leases.keys());
    await tables.write('token:t', state, { windows: new Set(), holders });
    expect([...((await tables.read('token:t'))?.leases.keys() ?? [])]).toEqual(['run', 'run/1']);
    expect(await tables.leasedByOthers('run', 9)).toEqual([]);
    for (const run of ['ru', 'run/1', 'run 2']) {
      expect(await tables.leasedByOthers(run, 9)).toEqual(['token:t']);
    }
  });

  it('of a token is over when the token is, and nothing is leased of it', async () => {
    const state = fullState();
    await tables.write('token:t', state, all);
    expect(await tables.expiredTokens(1_800_000_000_001, 9)).toEqual([]);
    state.leases.clear();
    await tables.write('token:t', state, all);
    expect(await tables.expiredTokens(1_800_000_000_000, 9)).toEqual([]);
    expect(await tables.expiredTokens(1_800_000_000_001, 9)).toEqual(['token:t']);
  });

  it('that is removed leaves nothing', async () => {
    await tables.write('token:t', fullState(), all);
    await tables.remove('token:t');
    for (const table of ['quota_accounts', 'quota_windows', 'quota_leases']) {
      expect(await db.tx.all(`SELECT * FROM ${table}`)).toEqual([]);
    }
  });

  it('has the same limits in memory as all others that have the same', async () => {
    for (const account of ['tenant:cms', 'tenant:atlas']) {
      await tables.write(account, { ...fullState(), token: null }, all);
    }
    const [one, other] = await readLimited(db.tx);
    expect(one?.limits).toEqual(fullState().limits?.limits);
    expect(one?.limits).toBe(other?.limits);
  });

  it('whose limits cannot be read is not read as having none', async () => {
    await tables.write('tenant:cms', fullState(), all);
    db.exec(`UPDATE quota_accounts SET limits = '{"spent":{"month":"1"}}'`);
    await expect(tables.read('tenant:cms')).rejects.toThrow('cannot be read');
    await expect(readLimited(db.tx)).rejects.toThrow('cannot be read');
  });
});
