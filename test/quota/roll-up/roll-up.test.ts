// Usage by day, action and class is what the records say: it adds up to the accounts' counters,
// each record once, whatever dies in between.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Commit } from '#bursar/ledger/commit.js';
import { catchUpUsage } from '#bursar/ledger/timers.js';
import type { Charged } from '#bursar/quota/charge.js';
import {
  type Breakdown,
  breakdowns,
  brokenDownBy,
  dayOf,
  endOfDays,
  nextUnsummed,
  readBreakdown,
} from '#bursar/quota/roll-up/usage-days.js';
import { readAccountUsage } from '#bursar/quota/usage.js';
import { randomBelow, randomOf, seededRandom } from '../../fuzz/seeded-random.ts';
import { commitOf, deleteOf, type LedgerFixture, openLedger, putOf } from '../../ledger/fixture.ts';
import { listUsage } from '../listed-usage.ts';

let fixture: LedgerFixture;
beforeEach(async () => {
  fixture = await openLedger();
  // From here on records say whose bucket it is.
  await fixture.ledger.commit(charged(commitOf({ kind: 'none' })));
});
afterEach(() => fixture.close());

const data = { tenant: 'one', name: 'data', owner: 'alice' };

/** A commit whose record says whom it charges, as the gateway's do. */
function charged(
  commit: Commit,
  who: Partial<Charged> = {},
  priced: Partial<NonNullable<Commit['charge']>> = {},
): Commit {
  const { charge, record } = commit;
  if (!charge) throw new Error('it charges nobody');
  const party = { ...charge.who, ...who };
  const all = { ...charge, ...priced, who: party };
  const { tenant, principal, bucket } = party;
  return {
    ...commit,
    charge: all,
    record: {
      ...record,
      ...{ tenant, principal, class: all.pricing.storageClass || null },
      bucket: bucket?.name ?? null,
      bucketOwner: bucket?.owner ?? null,
      bucketTenant: bucket && bucket.tenant !== tenant ? bucket.tenant : null,
      bytesIn: all.transfer.ingressBytes,
      bytesOut: all.transfer.egressBytes,
    },
  };
}

/** Reads, writes, deletes, retries and other tenants' requests, as they come. */
function randomCommit(random: () => number, keys: string[]): Commit {
  const egressBytes = randomBelow(random, 5_000_000_000);
  const moved = { requests: 1, ingressBytes: randomBelow(random, 9999), egressBytes };
  const transfer = { ...moved, retrievalBytes: randomBelow(random, 2) * egressBytes };
  const base = {
    book: 'aws-us-east-1-2026',
    storageClass: randomOf(random, ['STANDARD', 'STANDARD_IA', 'GLACIER']),
    sourceClass: null,
  };
  const nothing = { requests: 0, ingressBytes: 0, egressBytes: 0, retrievalBytes: 0 };
  const who: Partial<Charged> = randomOf(random, [
    {},
    { principal: 'bob' },
    { tenant: 'two', principal: 'alice' },
    { tenant: 'two', principal: 'bob', bucket: null },
    { tokens: [{ name: 'token:t', expiresAtMs: 9e12 }] },
  ] as Partial<Charged>[]);
  const key = `k${keys.length}`;
  switch (randomBelow(random, 5)) {
    case 0:
      keys.push(key);
      return charged(putOf(key), { ...who, bucket: data });
    case 1: {
      const pricing = { ...base, price: 'free' } as const;
      const gone = keys.pop() ?? 'none';
      return charged(deleteOf(gone), { ...who, bucket: data }, { transfer: nothing, pricing });
    }
    case 2: {
      const pricing = { ...base, price: 'put' } as const;
      return charged(commitOf({ kind: 'none' }), who, { transfer: nothing, pricing });
    }
    case 3:
      return { ...charged(commitOf({ kind: 'none' }), who), charge: null };
    default: {
      const pricing = { ...base, price: 'get', sourceClass: base.storageClass } as const;
      return charged(commitOf({ kind: 'none' }), who, { transfer, pricing });
    }
  }
}

const meters = [
  ...(['requests', 'ingressBytes', 'egressBytes', 'storedBytes', 'storedObjects'] as const),
];

async function sums(account: string, by: Breakdown) {
  const whole = { from: '', to: endOfDays, after: '', limit: 10_000 };
  const rows = await readBreakdown(fixture.read, { account, by, ...whole });
  const sum = {
    ...{ requests: 0, ingressBytes: 0, egressBytes: 0, storedBytes: 0, storedObjects: 0 },
    spend: 0n,
  };
  for (const row of rows) {
    for (const meter of meters) sum[meter] += row[meter];
    sum.spend += row.spend;
  }
  return sum;
}

/** The counters of all accounts but tokens, less what was charged before the records said whom. */
async function differences(): Promise<string[]> {
  const found: string[] = [];
  for (const row of await listUsage(fixture.read, null)) {
    // The accounts of principals and buckets overlap, so they add up to nothing.
    for (const by of breakdowns.filter((one) => brokenDownBy(one) === null)) {
      const sum = await sums(row.account, by);
      for (const meter of meters) {
        if (sum[meter] !== row[meter]) found.push(`${row.account} ${by} ${meter}`);
      }
      if (sum.spend !== BigInt(row.spend)) found.push(`${row.account} ${by} spend`);
    }
  }
  return found;
}

async function catchUp(): Promise<void> {
  await catchUpUsage(fixture.ledger);
}

describe('usage by day, action and class', () => {
  it('adds up to more than 64 bits hold', async () => {
    for (const month of ['01', '02', '03']) {
      fixture.edit(`INSERT INTO usage_days VALUES
        ('tenant:one', '2020-${month}-01', 's3:GetObject', 'STANDARD',
         1, 0, 0, 0, 0, 9000000, ${2n ** 50n})`);
    }
    expect((await sums('tenant:one', 'action')).spend).toBe(
      27_000_000n * 10n ** 12n + 3n * 2n ** 50n,
    );
  });

  it('adds up to the counters of every account, to the picodollar', async () => {
    const random = seededRandom(5);
    const keys: string[] = [];
    // What the fixture charged before is no part of it: it had records without an owner.
    await forgetBefore();
    for (let round = 0; round < 4; round++) {
      const commits = Array.from({ length: 300 }, () => randomCommit(random, keys));
      const answers = await Promise.all(commits.map((commit) => fixture.ledger.commit(commit)));
      expect(answers.some(({ ok }) => ok)).toBe(true);
      if (round % 2 === 1) await catchUp();
      if (round === 2) await fixture.reopen();
    }
    expect(fixture.failures).toEqual([]);
    const accounts = (await listUsage(fixture.read, null)).map(({ account }) => account);
    expect(accounts).toEqual([
      ...['bucket:one/data', 'principal:one/alice', 'principal:one/bob', 'principal:two/alice'],
      ...['principal:two/bob', 'tenant:one', 'tenant:two'],
    ]);
    expect(await differences()).toEqual([]);
    const spent = (await sums('tenant:two', 'action')).spend;
    expect(spent).toBeGreaterThan(1_000_000_000_000n);
  });

  it('takes each record once, however many call at the same time', async () => {
    await forgetBefore();
    const puts = Array.from({ length: 60 }, (_, i) => charged(putOf(`k${i}`)));
    await Promise.all(puts.map((put) => fixture.ledger.commit(put)));
    const small = () => fixture.ledger.maintain({ kind: 'sumUsage', max: 7 });
    await Promise.all([catchUp(), small(), small(), catchUp(), small()]);
    await catchUp();
    expect(await sums('bucket:one/data', 'class')).toMatchObject({
      requests: 60,
      storedObjects: 60,
      storedBytes: 600,
    });
    expect(await small()).toBe(0);
  });

  it('gives the rows of the days that are asked for, in pages', async () => {
    await fixture.ledger.commit(charged(putOf('k')));
    await catchUp();
    const account = 'bucket:one/data';
    const read = (query: object) =>
      readBreakdown(fixture.read, {
        ...{ account, by: 'action', from: '', to: endOfDays, after: '', limit: 10, ...query },
      });
    const names = (await read({})).map(({ name }) => name);
    expect(names).toEqual([...names].sort());
    expect(names).toContain('putObject');
    expect((await read({ after: names[0], limit: 1 })).map(({ name }) => name)).toEqual([names[1]]);
    expect(await read({ to: dayOf(Date.now() - 86_400_000) })).toEqual([]);
    expect(await read({ from: dayOf(Date.now() + 86_400_000) })).toEqual([]);
    const [today, ...others] = await read({ by: 'day' });
    expect(others.length).toBeLessThan(2);
    expect(today?.name).toMatch(/^\d{4}-\d{2}-\d{2}$/);
    expect(await nextUnsummed(fixture.read)).toBeGreaterThan(4);
  });
});

/** Makes what was charged until now uncharged. */
async function forgetBefore(): Promise<void> {
  await fixture.rewrite('DELETE FROM quota_accounts');
  await catchUp();
  fixture.edit('DELETE FROM usage_days');
}

describe('the rate of a week', () => {
  const limits = { storedBytes: { total: 1_000_000 } };
  const account = 'bucket:one/data';
  const dayMs = 86_400_000;

  /** What 700 bytes that were stored today come to in a day. */
  async function perDay(): Promise<bigint | undefined> {
    const { caps } = await readAccountUsage(fixture.read, account, { nowMs: Date.now() });
    return caps[0]?.forecasts.find(({ basis }) => basis === 'week')?.perDay;
  }

  it('goes back for seven days, or to the first day of a younger account', async () => {
    await forgetBefore();
    await fixture.ledger.commit({
      ...commitOf({ kind: 'setLimits', account, limits }),
      charge: null,
    });
    for (let i = 0; i < 70; i++) await fixture.ledger.commit(charged(putOf(`k${i}`)));
    await catchUp();
    // So many bytes in so much of today.
    const atRateOf = () => (700 * dayMs) / Math.max(1000, Date.now() % dayMs);
    const most = atRateOf();
    const young = Number(await perDay());
    expect(young).toBeLessThanOrEqual(most);
    expect(young).toBeGreaterThanOrEqual(Math.floor(atRateOf()));
    // The same after a month in which nothing was done.
    fixture.edit(`INSERT INTO usage_days VALUES
      ('${account}', '2020-01-01', 's3:PutObject', 'STANDARD', 1, 0, 0, 0, 0, 0, 0)`);
    const old = Number(await perDay());
    expect(old).toBeGreaterThanOrEqual(100);
    expect(old).toBeLessThanOrEqual(117);
  });

  it('has what was stored since there is a limit, not what its count found', async () => {
    for (let i = 0; i < 70; i++) await fixture.ledger.commit(charged(putOf(`k${i}`)));
    const account = 'prefix:one/data/k';
    const set = async (action: string, limits: object | null) => {
      const commit = commitOf({ kind: 'setLimits', account, limits });
      const record = { ...commit.record, action };
      await fixture.ledger.commit({ ...commit, record, charge: null });
    };
    const rate = async () => {
      await catchUp();
      const { caps } = await readAccountUsage(fixture.read, account, { nowMs: Date.now() });
      return caps[0]?.forecasts;
    };
    await set('bursar:PutLimit', limits);
    expect(await rate()).toEqual([{ basis: 'week', perDay: 0n, reachedMs: null }]);
    await set('bursar:DeleteLimit', null);
    await set('bursar:PutLimit', limits);
    await fixture.ledger.commit(charged(putOf('k70')));
    const most = (10 * dayMs) / Math.max(1000, Date.now() % dayMs);
    const [grown] = (await rate()) ?? [];
    expect(Number(grown?.perDay)).toBeGreaterThanOrEqual(10);
    expect(Number(grown?.perDay)).toBeLessThanOrEqual(most);
  });
});
