// Alarms in the ledger: in the log behind what they tell of, told to the gateway, and durable until
// somebody was told of them.
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Commit } from '#bursar/ledger/commit.js';
import { type Alarm, listUntoldAlarms } from '#bursar/quota/limits/alarms.js';
import { commitOf, type LedgerFixture, openLedger, putOf } from './fixture.ts';

let fixture: LedgerFixture;
let heard: Alarm[];
beforeEach(async () => {
  fixture = await openLedger();
  heard = fixture.alarms;
});
afterEach(() => fixture.close());

async function limit(account: string, storedObjects: number): Promise<void> {
  const limits = { storedObjects: { total: storedObjects } };
  await fixture.ledger.commit(commitOf({ kind: 'setLimits', account, limits }));
}

const putAll = (...keys: string[]) =>
  Promise.all(keys.map((key) => fixture.ledger.commit(putOf(key))));

async function records(): Promise<{ action: string; index: number }[]> {
  const rows = await fixture.read.all<{ record: string }>(
    'SELECT record FROM records ORDER BY idx',
  );
  return rows.map(({ record }) => JSON.parse(record));
}

describe('an alarm', () => {
  it('has its own record behind those of its batch, told once they are durable', async () => {
    await limit('bucket:one/data', 4);
    const answers = await putAll('a', 'b', 'c');
    const last = Math.max(...answers.map(({ index }) => index ?? 0));
    const all = await records();
    const [alarm, ...others] = all.filter(({ action }) => action === 'bursar:BudgetAlarm');
    expect(others).toEqual([]);
    expect(alarm).toMatchObject({
      ...{ index: last + 1, tenant: 'one', principal: 'alice', target: 'accounts/bucket:one/data' },
      ...{ evidence: 'none', storedBytes: 0, storedObjects: 0 },
      alarm: { limit: '4', meter: 'storedObjects', percent: 50, used: '3', window: 'total' },
    });
    expect(alarm).not.toHaveProperty('cost');
    expect(all.map(({ index }) => index)).toEqual(all.map((_, i) => i));
    expect(heard).toEqual(await listUntoldAlarms(fixture.read, 9));
    expect(heard).toMatchObject([
      { id: last + 1, account: 'bucket:one/data', limit: 4n, used: 3n },
    ]);
  });

  it('of a batch that fails is told once, when its requests are applied one by one', async () => {
    await limit('tenant:one', 2);
    const bug = { kind: 'no such change' } as unknown as Commit['change'];
    const answers = await Promise.all([
      fixture.ledger.commit(putOf('a')),
      fixture.ledger.commit(commitOf(bug)),
      fixture.ledger.commit(putOf('b')),
    ]);
    expect(answers.map(({ ok }) => ok)).toEqual([true, false, true]);
    expect(heard.map(({ percent }) => percent)).toEqual([50, 100]);
    expect(await listUntoldAlarms(fixture.read, 9)).toEqual(heard);
    const indexes = (await records()).map(({ index }) => index);
    expect(indexes).toEqual(indexes.map((_, i) => i));
  });

  it('waits over restarts until somebody was told; then only its record stays', async () => {
    await limit('tenant:one', 2);
    await limit('principal:one/alice', 4);
    await putAll('a', 'b');
    await fixture.reopen();
    const untold = await listUntoldAlarms(fixture.read, 9);
    expect(untold.map(({ account, percent }) => [account, percent])).toEqual([
      ['principal:one/alice', 50],
      ['tenant:one', 100],
    ]);
    expect(await listUntoldAlarms(fixture.read, 1)).toEqual(untold.slice(0, 1));
    const ids = untold.map(({ id }) => id);
    expect(await fixture.ledger.maintain({ kind: 'noteToldAlarms', ids })).toBe(2);
    expect(await fixture.ledger.maintain({ kind: 'noteToldAlarms', ids })).toBe(0);
    expect(await listUntoldAlarms(fixture.read, 9)).toEqual([]);
    await putAll('c');
    // The tenant's was told before; alice's is at 75 percent.
    expect(await listUntoldAlarms(fixture.read, 9)).toEqual([]);
    expect((await records()).filter(({ action }) => action === 'bursar:BudgetAlarm')).toHaveLength(
      2,
    );
  });

  it('of a token comes behind all others, to whom the token acts for', async () => {
    const name = 'token:t';
    const token = { tenant: 'one', principal: 'alice', expiresAtMs: Date.now() + 1000 };
    const draws = [
      {
        account: name,
        need: { requests: 2 },
        want: {},
        token: { ...token, limits: { requests: { day: 1 } } },
      },
    ];
    expect(await fixture.ledger.draw({ holder: 0, draws })).toMatchObject({ ok: false });
    await limit('tenant:one', 2);
    await putAll('a');
    const untold = await listUntoldAlarms(fixture.read, 9);
    expect(untold).toMatchObject([
      { account: 'tenant:one', tenant: 'one', principal: '' },
      { account: name, tenant: 'one', principal: 'alice', percent: 100 },
    ]);
  });
});
