// Leases in memory: when the ledger is asked, what is refused without asking it, and what goes
// back.
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Limits } from '#bursar/core/quota-terms.js';
import type { Draw, MeterAmounts } from '#bursar/quota/amounts.js';
import { leasedOf } from '#bursar/quota/leases/account-state.js';
import { LeaseHolder } from '#bursar/quota/leases/lease-holder.js';
import type { Held, Settlement } from '#bursar/quota/leases/requests.js';
import type { Reservation } from '#bursar/quota/leases/reservation.js';
import { LedgerRig } from './ledger-rig.ts';

const alice = 'principal:cms/alice';
const cms = 'tenant:cms';

let rig: LedgerRig;
let leaseHolder: LeaseHolder;
let clockMs: number;
beforeEach(() => {
  clockMs = 0;
  rig = new LedgerRig(Date.UTC(2026, 10, 21));
  leaseHolder = new LeaseHolder(rig.source(), () => clockMs);
});

async function limit(account: string, limits: Limits): Promise<void> {
  void rig.send((book, timeMs) => book.setLimits(account, limits, timeMs));
  await rig.settle();
  leaseHolder.setLimits(account, limits);
}

/** By account, what is limited of what is held. */
function sumsOf(held: readonly Held[]): Record<string, MeterAmounts> {
  const sums: Record<string, Record<string, number>> = {};
  for (const { accounts, amounts } of held) {
    for (const { account, limited } of accounts) {
      sums[account] ??= {};
      for (const meter of limited) {
        const amount = amounts[meter] ?? 0;
        if (amount > 0) sums[account][meter] = (sums[account][meter] ?? 0) + amount;
      }
    }
  }
  return sums;
}

const drawsOf = (amounts: MeterAmounts, accounts = [alice]) =>
  accounts.map((account) => ({ accounts: [account], amounts }));

/** Of what memory holds. */
function postOf(draws: Draw[]): Settlement {
  const reservation = leaseHolder.tryReserve(draws);
  if (!reservation) throw new Error('memory does not hold it');
  return reservation.post();
}

/** Asks the ledger where it must. */
async function reserve(amounts: MeterAmounts, accounts = [alice]): Promise<Reservation> {
  const asked = leaseHolder.reserve(drawsOf(amounts, accounts));
  await rig.settle();
  const outcome = await asked;
  if (!outcome.ok) throw new Error(`${outcome.shortage.account} refused`);
  return outcome.reservation;
}

function leased(account = alice): bigint {
  const state = rig.storage.durable.get(account);
  return state ? leasedOf(state, 'requests') : 0n;
}

describe('a lease holder', () => {
  it('asks nobody for accounts without limits', () => {
    expect(leaseHolder.hasLimits).toBe(false);
    expect(leaseHolder.tryReserve(drawsOf({ requests: 1 }))).toBeDefined();
    expect(rig.busy).toBe(0);
  });

  it('asks once, and then serves many from memory', async () => {
    await limit(alice, { requests: { day: 1000 } });
    expect(leaseHolder.tryReserve(drawsOf({ requests: 1 }))).toBeUndefined();
    (await reserve({ requests: 1 })).void();
    for (let times = 0; times < 8; times++) {
      expect(leaseHolder.tryReserve(drawsOf({ requests: 1 }))).toBeDefined();
    }
  });

  it('sets nothing aside in one account when another refuses', async () => {
    await limit(alice, { requests: { day: 1000 } });
    await limit(cms, { requests: { day: 1 } });
    (await reserve({ requests: 1 })).void();
    await expect(reserve({ requests: 2 }, [alice, cms])).rejects.toThrow(cms);
    await leaseHolder.keep();
    void leaseHolder.close();
    await rig.settle();
    expect([leased(alice), leased(cms)]).toEqual([0n, 0n]);
  });

  it('says of a refusal all that was asked for, and as reserved what others hold', async () => {
    await limit(alice, { requests: { day: 40 } });
    const first = await reserve({ requests: 1 });
    const asked = leaseHolder.reserve(drawsOf({ requests: 40 }));
    await rig.settle();
    // What is free in memory is not others'.
    expect(await asked).toMatchObject({ shortage: { limit: 40n, reserved: 1n, asked: 40n } });
    first.void();
    expect(await reserve({ requests: 40 })).toBeDefined();
  });

  it.each([-1, Number.NaN, 2 ** 51])('refuses to reserve %d as a bug', async (requests) => {
    await limit(alice, { requests: { day: 1000 } });
    (await reserve({ requests: 1 })).void();
    expect(leaseHolder.tryReserve(drawsOf({ requests }))).toBeUndefined();
    await expect(leaseHolder.reserve(drawsOf({ requests }))).rejects.toThrow(RangeError);
    expect(leaseHolder.tryReserve(drawsOf({ requests: 1 }))).toBeDefined();
  });

  it('counts exactly what is more than a double can hold', async () => {
    const most = 2 ** 50;
    await limit(alice, { spend: { total: '9000000.000000000001' } });
    const all = await Promise.all(
      Array.from({ length: 16 }, async () => reserve({ spend: most - 1, requests: 1 })),
    );
    for (const reservation of all) reservation.void();
    void leaseHolder.close();
    await rig.settle();
    const state = rig.storage.durable.get(alice);
    expect(state && leasedOf(state, 'spend')).toBe(0n);
  });

  it('gives back what nobody drew on for two rounds, and all when it closes', async () => {
    await limit(alice, { requests: { day: 1000 } });
    const held = await reserve({ requests: 1 });
    expect(leased()).toBeGreaterThan(1n);
    for (let rounds = 0; rounds < 3; rounds++) void leaseHolder.keep();
    await rig.settle();
    expect(leased()).toBe(1n);
    held.void();
    void leaseHolder.close();
    await rig.settle();
    expect(leased()).toBe(0n);
  });

  it('gives back what was on its way to it when it closed', async () => {
    await limit(alice, { requests: { day: 100_000 } });
    const first = await reserve({ requests: 10 });
    const second = leaseHolder.tryReserve(drawsOf({ requests: 2000 }));
    await new Promise(setImmediate);
    // More was asked for, since memory ran low.
    expect(rig.busy).toBe(1);
    void leaseHolder.close();
    await rig.settle();
    expect(leased()).toBe(2010n);
    first.void();
    second?.void();
    void leaseHolder.close();
    await rig.settle();
    expect(leased()).toBe(0n);
  });
});

describe('a lease holder that is recalled', () => {
  it('gives back what is free, and what was on its way, before it says so', async () => {
    await limit(alice, { requests: { day: 100_000 } });
    const held = await reserve({ requests: 10 });
    const all = Number(leased());
    expect(leaseHolder.tryReserve(drawsOf({ requests: all - 10 }))).toBeDefined();
    // More was asked for, since memory ran low; the ledger has granted it and not yet said so.
    await new Promise(setImmediate);
    await rig.apply();
    expect(leased()).toBeGreaterThan(BigInt(all));
    const leasedThen = leaseHolder.giveUpFree([alice]).then(() => leased());
    await rig.settle();
    expect(await leasedThen).toBe(BigInt(all));
    held.void();
    await rig.settle();
    expect(leased()).toBe(BigInt(all - 10));
  });

  it('asks for no more than it needs, until a moment later', async () => {
    await limit(alice, { requests: { day: 100_000 } });
    void leaseHolder.giveUpFree([alice]);
    await reserve({ requests: 1 });
    await reserve({ requests: 1 });
    expect(leased()).toBe(2n);
    clockMs += 1000;
    await reserve({ requests: 1 });
    expect(leased()).toBeGreaterThan(3n);
  });
});

describe('a ledger that is short of something', () => {
  const needOf = (requests: number) => drawsOf({ requests });

  it('has other holders give it back only where that can be enough', async () => {
    const others = new LeaseHolder(rig.source(1), () => clockMs, 1);
    rig.join(others);
    const recalled = vi.spyOn(others, 'giveUpFree');
    await limit(alice, { requests: { day: 3200 } });
    others.setLimits(alice, { requests: { day: 3200 } });
    const held = others.reserve(needOf(1));
    await rig.settle();
    await held;
    expect(leased()).toBeGreaterThan(1n);
    await expect(reserve({ requests: 3201 })).rejects.toThrow('refused');
    expect(recalled).not.toHaveBeenCalled();
    await expect(reserve({ requests: 3200 })).rejects.toThrow('refused');
    expect(await reserve({ requests: 3199 })).toBeDefined();
    expect(recalled).toHaveBeenCalled();
  });

  it('has the last word where a holder is stuck', async () => {
    const others = new LeaseHolder(rig.source(1), () => clockMs, 1);
    await limit(alice, { requests: { day: 3200 } });
    others.setLimits(alice, { requests: { day: 3200 } });
    const held = others.reserve(needOf(1));
    await rig.settle();
    await held;
    const recall = vi.fn(() => new Promise(() => {}));
    const waiting = new LeaseHolder({ ...rig.source(), recall }, () => clockMs);
    waiting.setLimits(alice, { requests: { day: 3200 } });
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const asked = waiting.reserve(needOf(3199));
      await rig.settle();
      expect(recall).toHaveBeenCalledOnce();
      vi.runAllTimers();
      await rig.settle();
      expect(await asked).toMatchObject({ ok: false, shortage: { account: alice } });
      expect(recall).toHaveBeenCalledOnce();
    } finally {
      vi.useRealTimers();
    }
  });

  it('knows the limits of a token whose other holders take their time', async () => {
    const token = {
      ...{ tenant: 'a', principal: 'alice', expiresAtMs: Date.UTC(2100, 0) },
      limits: { requests: { total: 2 } },
    };
    const draws = [{ accounts: ['token:t'], amounts: { requests: 2 } }];
    const others = new LeaseHolder(rig.source(1), () => clockMs, 1);
    others.introduce('token:t', token);
    const first = others.reserve([{ accounts: ['token:t'], amounts: { requests: 1 } }]);
    await rig.settle();
    expect((await first).ok).toBe(true);
    let isRecalled = () => {};
    const recalling = new Promise<void>((resolve) => {
      isRecalled = resolve;
    });
    const waiting = new LeaseHolder({ ...rig.source(), recall: () => recalling }, () => clockMs);
    waiting.introduce('token:t', token);
    await waiting.keep();
    const asked = waiting.reserve(draws);
    await rig.settle();
    for (let seconds = 0; seconds < 3; seconds++) await waiting.keep();
    isRecalled();
    await new Promise(setImmediate);
    await rig.settle();
    expect(await asked).toMatchObject({ ok: false, shortage: { account: 'token:t' } });
  });

  it('tells of a refusal only when it is the last word', async () => {
    const others = new LeaseHolder(rig.source(1), () => clockMs, 1);
    rig.join(others);
    await limit(alice, { requests: { day: 3200 } });
    others.setLimits(alice, { requests: { day: 3200 } });
    const asked = others.reserve(needOf(1));
    await rig.settle();
    const outcome = await asked;
    if (outcome.ok) outcome.reservation.void();
    const all = await reserve({ requests: 3200 });
    expect(rig.alarms).toEqual([]);
    await expect(reserve({ requests: 1 })).rejects.toThrow('refused');
    expect(rig.alarms).toMatchObject([{ account: alice, percent: 100 }]);
    all.void();
  });
});

describe('a reservation', () => {
  it('is resolved once', async () => {
    await limit(alice, { requests: { day: 100 } });
    const reservation = await reserve({ requests: 1 });
    reservation.post();
    expect(() => reservation.post()).toThrow('twice');
    reservation.void();
    reservation.unpost();
    expect(() => reservation.unpost()).toThrow();
    expect(leaseHolder.open).toBe(0);
  });

  it('settles its steps, of what is limited in each account', async () => {
    await limit(alice, { requests: { day: 100 }, egressBytes: { day: 1000 } });
    await limit(cms, { requests: { day: 100 } });
    const both = [alice, cms];
    const reservation = await reserve({ requests: 1 }, both);
    const extended = leaseHolder.extend(reservation, drawsOf({ egressBytes: 7 }, both));
    await rig.settle();
    expect(await extended).toBeUndefined();
    const { held, isMixed } = reservation.post();
    expect(isMixed).toBe(false);
    expect(sumsOf(held)).toEqual({
      [alice]: { requests: 1, egressBytes: 7 },
      [cms]: { requests: 1 },
    });
  });

  it('shares its list of accounts with the next that holds in the same ones', async () => {
    for (const account of [alice, cms]) await limit(account, { requests: { day: 100 } });
    const draws = [{ accounts: [alice, cms], amounts: { requests: 1 } }];
    (await reserve({ requests: 1 }, [alice, cms])).void();
    const posts = [postOf(draws), postOf(draws)];
    const [first, second] = posts.map(({ held }) => held);
    expect(first).toHaveLength(1);
    expect(second?.[0]?.accounts).toBe(first?.[0]?.accounts);
    // What was held under other limits is not the same.
    await limit(cms, { egressBytes: { day: 100 } });
    (await reserve({ requests: 1 }, [alice, cms])).void();
    const { held } = postOf(draws);
    expect(sumsOf(held)).toEqual({ [alice]: { requests: 1 }, [cms]: {} });
  });

  it('of which a step comes when it is over leaves nothing set aside', async () => {
    await limit(alice, { requests: { day: 100 }, egressBytes: { day: 1000 } });
    const reservation = await reserve({ requests: 1 });
    const extended = leaseHolder.extend(reservation, drawsOf({ egressBytes: 7 }));
    reservation.void();
    await rig.settle();
    expect(await extended).toBeUndefined();
    void leaseHolder.close();
    await rig.settle();
    expect(leased()).toBe(0n);
  });
});

describe('two links with one id, of which each thread met one first', () => {
  const token = (limits: Limits) => ({
    ...{ tenant: 'a', principal: 'alice', expiresAtMs: Date.UTC(2100, 0) },
    limits,
  });
  const draws = [{ accounts: ['token:t'], amounts: { requests: 1, egressBytes: 16 } }];

  /** How many of five requests the holder serves. */
  async function served(holder: LeaseHolder, limits: Limits): Promise<number> {
    let count = 0;
    for (let i = 0; i < 5; i++) {
      holder.introduce('token:t', token(limits));
      const asked = holder.reserve(draws);
      await rig.settle();
      const outcome = await asked;
      if (!outcome.ok) continue;
      rig.send((book, timeMs) => {
        const settlement = outcome.reservation.post();
        return Promise.resolve(book.post(settlement, draws, timeMs));
      });
      await rig.settle();
      count += 1;
    }
    return count;
  }

  for (const [name, first, second, expected] of [
    ['tighter', { requests: { total: 50 } }, { requests: { total: 7 } }, [5, 2, 0]],
    ['wider', { requests: { total: 7 } }, { requests: { total: 50 } }, [5, 2, 0]],
    ['on other meters', { requests: { total: 50 } }, { egressBytes: { total: 112 } }, [5, 2, 0]],
  ] as const) {
    it(`share the limits of both where the second is ${name}`, async () => {
      const others = new LeaseHolder(rig.source(1), () => clockMs, 1);
      rig.join(others);
      rig.join(leaseHolder);
      const counts = [
        await served(others, first),
        await served(leaseHolder, second),
        await served(others, first),
      ];
      expect(counts).toEqual(expected);
    });
  }
});
