// The durable half of limits: what is refused, what crashes lose, and what is forgotten.
import { beforeEach, describe, expect, it } from 'vitest';
import { type Limits, meters } from '#bursar/core/quota-terms.js';
import type { MeterAmounts } from '#bursar/quota/amounts.js';
import { AccountBook } from '#bursar/quota/leases/account-book.js';
import { leasedOf, lostIn, usedIn } from '#bursar/quota/leases/account-state.js';
import {
  type AccountDraw,
  type DrawAnswer,
  type Held,
  noSettlement,
} from '#bursar/quota/leases/requests.js';
import { MemoryStorage } from './ledger-rig.ts';

const alice = 'principal:cms/alice';
const cms = 'tenant:cms';
const dayMs = 24 * 3600 * 1000;
const nowMs = Date.UTC(2026, 10, 21, 12);

let storage: MemoryStorage;
let book: AccountBook;
beforeEach(() => {
  storage = new MemoryStorage();
  book = new AccountBook(storage, 'run 1');
});

async function commit(): Promise<void> {
  book.takeReached();
  await book.flush();
  storage.commit();
  book.settle();
}

/** The process dies; what was not committed is gone. */
async function crash(timeMs = nowMs): Promise<void> {
  book = new AccountBook(storage, 'run 2');
  while ((await book.writeOffLeases(1, timeMs)) > 0) await commit();
}

async function limit(account: string, limits: Limits | null): Promise<void> {
  await book.setLimits(account, limits, nowMs);
}

function drawOf(account: string, need: MeterAmounts, want: MeterAmounts = {}): AccountDraw {
  return { account, need, want };
}

function draw(account: string, need: MeterAmounts, timeMs = nowMs): Promise<DrawAnswer> {
  return book.draw({ holder: 0, draws: [drawOf(account, need)] }, timeMs);
}

/** Charges what `draw` has set aside. */
async function post(account: string, amounts: MeterAmounts, timeMs = nowMs): Promise<void> {
  const settlement = { ...noSettlement, held: [heldIn(account, amounts)] };
  await book.post(settlement, [{ accounts: [account], amounts }], timeMs);
}

function heldIn(account: string, amounts: MeterAmounts): Held {
  const limited = meters.filter((meter) => amounts[meter] !== undefined);
  return { accounts: [{ account, limited }], amounts };
}

const granted = (amounts: MeterAmounts) => ({ ok: true, granted: [amounts] });

describe('what was posted', () => {
  const limits: Limits = { requests: { total: 100 } };
  const used = async () => (await book.read(alice, nowMs)).used.requests;

  it('can wait, but for what no record says', async () => {
    await limit(alice, limits);
    await draw(alice, { requests: 10 });
    expect(book.isUrgent).toBe(true);
    await commit();
    await post(alice, { requests: 4 });
    expect([book.isUrgent, book.hasUnwritten]).toEqual([false, true]);
    await draw(alice, { requests: 1 });
    expect(book.isUrgent).toBe(true);
    await commit();
    expect([book.isUrgent, book.hasUnwritten]).toEqual([false, false]);
    const other = [{ accounts: ['principal:cms/new'], amounts: { requests: 1 } }];
    await book.post(noSettlement, other, nowMs);
    expect(book.isUrgent).toBe(true);
    await commit();
    for (let i = 0; i < 63; i++) await book.post(noSettlement, other, nowMs);
    expect(book.isUrgent).toBe(false);
    await book.post(noSettlement, other, nowMs);
    expect(book.isUrgent).toBe(true);
  });

  it('waits for its window to begin', async () => {
    await limit(alice, limits);
    await post(alice, { requests: 0 });
    await commit();
    await post(alice, { requests: 0 }, nowMs + 61_000);
    expect(book.isUrgent).toBe(true);
  });

  it('and committed is there after a rollback, and what was not is gone', async () => {
    await limit(alice, limits);
    await draw(alice, { requests: 10 });
    await commit();
    await post(alice, { requests: 4 });
    book.settle();
    await post(alice, { requests: 3 });
    // The rows were written when the transaction failed.
    await book.flush();
    storage.rollback();
    book.discard();
    await book.postAgain();
    expect(await used()).toBe(4n);
    expect(leasedOf(await book.read(alice, nowMs), 'requests')).toBe(6n);
    await post(alice, { requests: 2 });
    book.discard();
    await book.postAgain();
    await commit();
    expect(storage.durable.get(alice)?.used.requests).toBe(4n);
  });

  it('and recorded by a run that died comes off its lease, of which the rest is lost', async () => {
    await limit(alice, limits);
    await draw(alice, { requests: 10 });
    await commit();
    book = new AccountBook(storage, 'run 2');
    await book.postRecorded([{ accounts: [alice], amounts: { requests: 4 } }], nowMs);
    while ((await book.writeOffLeases(1, nowMs)) > 0) await commit();
    const state = await book.read(alice, nowMs);
    expect([usedIn(state, 'requests', 'total'), lostIn(state, 'requests', 'total')]).toEqual([
      4n,
      6n,
    ]);
  });
});

describe('a draw', () => {
  it('has the last of a limit, and nothing beyond it', async () => {
    await limit(alice, { requests: { day: 3 } });
    expect(await draw(alice, { requests: 2 })).toMatchObject(granted({ requests: 2 }));
    expect(await draw(alice, { requests: 2 })).toEqual({
      ok: false,
      heldByOthers: false,
      shortage: {
        ...{ account: alice, meter: 'requests', window: 'day' },
        ...{ limit: 3n, used: 0n, reserved: 2n, asked: 2n, resetMs: Date.UTC(2026, 10, 22) },
      },
    });
    expect(await draw(alice, { requests: 1 })).toMatchObject(granted({ requests: 1 }));
  });

  it('names of several caps the one that is reset last', async () => {
    await limit(alice, { requests: { minute: 1, month: 1, hour: 1 } });
    expect(await draw(alice, { requests: 2 })).toMatchObject({ shortage: { window: 'month' } });
  });

  it('in several accounts of which one refuses sets nothing aside in the others', async () => {
    await limit(alice, { requests: { day: 5 } });
    await limit(cms, { requests: { day: 1 } });
    const draws = [drawOf(alice, { requests: 2 }), drawOf(cms, { requests: 2 })];
    expect(await book.draw({ holder: 0, draws }, nowMs)).toMatchObject({
      ok: false,
      shortage: { account: cms },
    });
    expect(leasedOf(await book.read(alice, nowMs), 'requests')).toBe(0n);
  });

  it('gets a small part of what is left beyond its need, and near the limit nothing', async () => {
    await limit(alice, { egressBytes: { day: 3300 } });
    const draws = [drawOf(alice, { egressBytes: 100 }, { egressBytes: 1e6 })];
    expect(await book.draw({ holder: 0, draws }, nowMs)).toMatchObject(
      granted({ egressBytes: 200 }),
    );
    await draw(alice, { egressBytes: 3000 });
    expect(await book.draw({ holder: 0, draws }, nowMs)).toMatchObject(
      granted({ egressBytes: 100 }),
    );
  });

  it('after a limit was lowered below what is used is refused, and says so', async () => {
    await limit(alice, { spend: { month: '1.00' } });
    await draw(alice, { spend: 6e11 });
    await post(alice, { spend: 6e11 });
    await limit(alice, { spend: { month: '0.50' } });
    expect(await draw(alice, { spend: 1 })).toMatchObject({
      shortage: { limit: 500_000_000_000n, used: 600_000_000_000n, asked: 1n },
    });
    await limit(alice, null);
    expect(await draw(alice, { spend: 1 })).toMatchObject({ ok: true });
  });

  it('that is repeated for one account in one request is a bug', async () => {
    const draws = [drawOf(alice, {}), drawOf(alice, {})];
    await expect(book.draw({ holder: 0, draws }, nowMs)).rejects.toThrow('twice');
  });
});

describe('a post', () => {
  it('that exceeds what was reserved is a bug, also by a meter of which nothing was', async () => {
    await limit(alice, { requests: { day: 5 }, egressBytes: { day: 5 } });
    await draw(alice, { requests: 1, egressBytes: 0 });
    const held = [heldIn(alice, { requests: 1, egressBytes: 0 })];
    await book.read(cms, nowMs);
    const used = (amounts: MeterAmounts) => [{ accounts: [alice], amounts }];
    const settlement = { ...noSettlement, held };
    expect(() => book.post(settlement, used({ requests: 2 }), nowMs)).toThrow('of requests');
    expect(() => book.post(settlement, used({ egressBytes: 1 }), nowMs)).toThrow('of egressBytes');
    const twice = [...used({ requests: 1 }), ...used({ requests: 1 })];
    expect(() => book.post(settlement, twice, nowMs)).toThrow('of requests');
  });

  it('counts in the window in which it is made, with what was leased before it', async () => {
    await limit(alice, { requests: { day: 2 } });
    await draw(alice, { requests: 2 });
    const nextDayMs = nowMs + dayMs;
    // The lease of yesterday may be spent today, so today has no more than the rest.
    expect(await draw(alice, { requests: 1 }, nextDayMs)).toMatchObject({
      shortage: { used: 0n, reserved: 2n },
    });
    await post(alice, { requests: 2 }, nextDayMs);
    expect(usedIn(await book.read(alice, nextDayMs), 'requests', 'day')).toBe(2n);
    expect(await draw(alice, { requests: 1 }, nextDayMs)).toMatchObject({ ok: false });
    expect(await draw(alice, { requests: 2 }, nextDayMs + dayMs)).toMatchObject({ ok: true });
  });

  it('into accounts that are not kept any more adds to what is durable', async () => {
    const accounts = Array.from({ length: 10_500 }, (_, i) => `bucket:cms/b${i}`);
    const charge = (account: string) =>
      book.post(noSettlement, [{ accounts: [account], amounts: { requests: 1 } }], nowMs);
    for (const account of accounts) await charge(account);
    await commit();
    for (const account of ['bucket:cms/b0', 'bucket:cms/b10499']) {
      await charge(account);
      await commit();
      expect(storage.durable.get(account)?.used.requests).toBe(2n);
    }
  });
});

describe('what a crash lost', () => {
  beforeEach(async () => {
    await limit(alice, { egressBytes: { day: 100 }, storedBytes: { total: 100 } });
    await draw(alice, { egressBytes: 60, storedBytes: 60 });
    await commit();
  });

  it('counts as used in the window of the restart, unless it was to be stored', async () => {
    await crash();
    const state = await book.read(alice, nowMs);
    expect(lostIn(state, 'egressBytes', 'day')).toBe(60n);
    expect([...state.leases]).toEqual([]);
    expect(await draw(alice, { egressBytes: 41 })).toMatchObject({ shortage: { used: 60n } });
    expect(await draw(alice, { storedBytes: 100 })).toMatchObject({ ok: true });
  });

  it('is over with the window', async () => {
    await crash();
    expect(await draw(alice, { egressBytes: 100 }, nowMs + dayMs)).toMatchObject({ ok: true });
  });

  it('can be forgotten, for good', async () => {
    await crash();
    await book.forgetLost(alice, nowMs);
    await commit();
    await crash();
    expect(await draw(alice, { egressBytes: 100 })).toMatchObject({ ok: true });
  });
});

describe('who has not so much left', () => {
  it('is found without anything being set aside', async () => {
    await limit(cms, { spend: { total: '0.000000000010' } });
    const draws = [{ accounts: [alice, cms], amounts: { spend: 10 } }];
    expect(await book.findShortage(draws, nowMs)).toBeUndefined();
    expect(await book.findShortage(draws, nowMs)).toBeUndefined();
    const more = draws.map(({ accounts }) => ({ accounts, amounts: { spend: 11 } }));
    expect(await book.findShortage(more, nowMs)).toMatchObject({ account: cms, asked: 11n });
  });
});

describe('a token’s account', () => {
  const facts = { tenant: 'cms', principal: 'alice', expiresAtMs: nowMs + dayMs };
  const account = 'token:t';

  it('has the limits that the ledger met first', async () => {
    const token = (day: number) => ({ ...facts, limits: { requests: { day } } });
    const drawWith = (day: number) =>
      book.draw(
        { holder: 0, draws: [{ ...drawOf(account, { requests: 2 }), token: token(day) }] },
        nowMs,
      );
    expect(await drawWith(1)).toMatchObject({ ok: false });
    expect(await drawWith(9)).toMatchObject({ ok: false });
  });

  it('is forgotten 30 days after the last of its links ended, alone', async () => {
    const charge = (expiresAtMs: number) =>
      book.post(
        noSettlement,
        [
          { accounts: [account], amounts: { requests: 1 }, token: { ...facts, expiresAtMs } },
          { accounts: [alice], amounts: { requests: 1 } },
        ],
        nowMs,
      );
    await charge(nowMs + dayMs);
    await charge(nowMs);
    await commit();
    expect(await book.purgeTokens(10, nowMs + 31 * dayMs)).toBe(0);
    expect(await book.purgeTokens(10, nowMs + 31 * dayMs + 1)).toBe(1);
    await commit();
    expect([...storage.durable.keys()]).toEqual([alice]);
  });
});
