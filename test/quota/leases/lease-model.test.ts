// Leases against a plain model: lists of what was charged and of what is under way, added up anew
// at each step; with crashes between any two steps. BURSAR_FULL=1 tries twice as many sequences.
import { expect, it } from 'vitest';
import { type Limits, type Meter, meters, type Window } from '#bursar/core/quota-terms.js';
import type { Draw, MeterAmounts } from '#bursar/quota/amounts.js';
import type { AccountBook } from '#bursar/quota/leases/account-book.js';
import { leasedOf, lostIn, type MarkedWindow, usedIn } from '#bursar/quota/leases/account-state.js';
import { LeaseHolder } from '#bursar/quota/leases/lease-holder.js';
import type { Reservation } from '#bursar/quota/leases/reservation.js';
import { limitSetOf } from '#bursar/quota/limits/limit-set.js';
import { windowBeginMs } from '#bursar/quota/limits/windows.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from '../../fuzz/seeded-random.ts';
import { LedgerRig } from './ledger-rig.ts';

type Random = () => number;

interface Entry {
  account: string;
  amounts: MeterAmounts;
  timeMs: number;
}

interface Operation {
  draws: Draw[];
  reservation: Reservation;
}

const fixed = ['tenant:a', 'principal:a/b', 'bucket:a/raw', 'token:t'];
const changing = ['tenant:c', 'principal:c/d'];
const tokenFacts = { tenant: 'a', principal: 'b', expiresAtMs: Date.UTC(2100, 0) };
const beginMs = Date.UTC(2026, 10, 30, 23, 59, 30);
const longestMs = 40 * 24 * 3600 * 1000;
const sequences = process.env.BURSAR_FULL === '1' ? 2000 : 1000;

function randomLimits(random: Random): Limits {
  const limits: Record<string, Record<string, number | string>> = {};
  const amount = () => randomOf(random, [0, 3, 40, 700, 20_000]);
  for (const meter of ['requests', 'egressBytes', 'storedBytes'] as const) {
    if (random() < 0.4) continue;
    const windows: Window[] = meter === 'storedBytes' ? ['total'] : ['minute', 'day', 'total'];
    limits[meter] = { [randomOf(random, windows)]: amount() };
    if (random() < 0.3) limits[meter][randomOf(random, windows)] = amount();
  }
  if (random() < 0.3) limits.spend = { month: `0.${String(amount()).padStart(12, '0')}` };
  return limits as Limits;
}

class World {
  readonly random: Random;
  readonly rig = new LedgerRig(beginMs);
  readonly limits = new Map<string, Limits>();
  /** Charged in commits that are durable. */
  readonly records: Entry[] = [];
  /** What was perhaps served before a crash, and is in no record. */
  readonly ghosts: Entry[] = [];
  open: Operation[] = [];
  /** Posted, and not yet in a durable commit. */
  posted: Operation[] = [];
  leaseHolder: LeaseHolder;
  refusals = 0;
  grants = 0;
  /** For want of room on the disk. */
  unreserved = 0;
  unposted = 0;
  #clockMs = 0;
  #run = 0;

  constructor(random: Random) {
    this.random = random;
    this.leaseHolder = this.#newHolder();
  }

  async start(): Promise<void> {
    for (const account of [...fixed, ...changing]) {
      if (this.random() < 0.2) continue;
      const limits = randomLimits(this.random);
      this.limits.set(account, limits);
      if (account.startsWith('token:')) continue;
      void this.rig.send((book, timeMs) => book.setLimits(account, limits, timeMs));
    }
    await this.rig.settle();
    this.leaseHolder = this.#newHolder();
  }

  begin(): void {
    const { random } = this;
    const amounts: MeterAmounts = {
      requests: 1,
      egressBytes: randomOf(random, [0, 1, 5, 90]),
      spend: randomBelow(random, 30),
      storedBytes: randomOf(random, [0, 0, 7, 60]),
    };
    const accounts = [...fixed, ...changing].filter(() => random() < 0.6);
    // Who asks may also be who owns.
    if (accounts[0] && random() < 0.3) accounts.push(accounts[0]);
    const draws = accounts.map((account) => ({ account, amounts }));
    const token = this.limits.get('token:t');
    if (token) this.leaseHolder.introduce('token:t', { ...tokenFacts, limits: token });
    const reservation = this.leaseHolder.tryReserve(draws);
    if (reservation) this.#enter({ draws, reservation });
    else void this.#beginSlowly(draws);
  }

  async #beginSlowly(draws: Draw[]): Promise<void> {
    const run = this.#run;
    const outcome = await this.leaseHolder.reserve(draws).catch(() => null);
    if (run !== this.#run) return;
    if (!outcome) this.unreserved += 1;
    else if (outcome.ok) this.#enter({ draws, reservation: outcome.reservation });
    else this.refusals += 1;
  }

  #enter(operation: Operation): void {
    this.grants += 1;
    this.open.push(operation);
    if (this.random() < 0.2) void this.#extend(operation);
  }

  async #extend(operation: Operation): Promise<void> {
    const run = this.#run;
    const step = operation.draws.slice(0, 2).map(({ account }) => {
      return { account, amounts: { egressBytes: 1 + randomBelow(this.random, 50) } };
    });
    const shortage = await this.leaseHolder.extend(operation.reservation, step).catch(() => null);
    if (shortage === undefined && run === this.#run && this.open.includes(operation)) {
      operation.draws.push(...step);
    }
  }

  end(): void {
    const [operation] = this.open.splice(randomBelow(this.random, this.open.length), 1);
    if (!operation) return;
    const { reservation, draws } = operation;
    if (this.random() < 0.3) {
      reservation.void();
      return;
    }
    const reserved = reservation.post();
    const isWhole = this.random() < 0.5;
    const used = draws.map(({ account, amounts }) => {
      const part: { [M in Meter]?: number } = {};
      for (const meter of meters) {
        const most = amounts[meter] ?? 0;
        part[meter] = isWhole ? most : randomBelow(this.random, most + 1);
      }
      if (this.random() < 0.2) part.storedBytes = -1;
      return { account, amounts: part };
    });
    this.posted.push(operation);
    let timeMs = 0;
    const work = (book: AccountBook, now: number) => {
      timeMs = now;
      return book.post(structuredClone(reserved), used, now);
    };
    const onDurable = () => {
      this.records.push(...used.map((one) => ({ ...one, timeMs })));
      this.posted.splice(this.posted.indexOf(operation), 1);
    };
    const run = this.#run;
    this.rig.send(work, onDurable).catch(() => {
      if (run !== this.#run) return;
      // Nothing of it is durable: nobody was charged.
      reservation.unpost();
      this.posted.splice(this.posted.indexOf(operation), 1);
      this.unposted += 1;
    });
  }

  async crash(): Promise<void> {
    if (this.random() < 0.5) await this.rig.applyInVain(randomBelow(this.random, 5));
    this.#run += 1;
    for (const { draws } of [...this.open, ...this.posted]) {
      for (const { account, amounts } of draws) {
        const { storedBytes: _, ...flows } = amounts;
        this.ghosts.push({ account, amounts: flows, timeMs: this.rig.timeMs });
      }
    }
    this.open = [];
    this.posted = [];
    await this.rig.crash();
    // What a change of limits did not reach the ledger was not answered.
    for (const account of changing) {
      const limits = this.rig.storage.durable.get(account)?.limits?.limits;
      if (limits) this.limits.set(account, limits);
      else this.limits.delete(account);
    }
    this.leaseHolder = this.#newHolder();
  }

  changeLimits(): void {
    const account = randomOf(this.random, changing);
    const limits = this.random() < 0.2 ? null : randomLimits(this.random);
    const run = this.#run;
    const work = (book: AccountBook, timeMs: number) => book.setLimits(account, limits, timeMs);
    const follow = () => {
      if (run !== this.#run) return;
      if (limits) this.limits.set(account, limits);
      else this.limits.delete(account);
      this.leaseHolder.setLimits(account, limits);
    };
    this.rig.send(work).then(follow, () => {});
  }

  pass(): void {
    const passedMs = randomOf(this.random, [1, 900, 50_000, 3_600_000, longestMs]);
    this.#clockMs += passedMs;
    this.rig.timeMs += this.random() < 0.1 ? -500 : passedMs;
  }

  /**
   * Never more than any cap of an account whose limits stay: charged, under way and perhaps lost.
   */
  check(): void {
    for (const account of fixed) {
      const limits = this.limits.get(account);
      for (const { meter, window, amount } of limits ? limitSetOf(limits).caps : []) {
        const sum =
          this.#sum(this.records, account, meter, window) +
          this.#sum(this.ghosts, account, meter, window) +
          this.#underWay(account, meter);
        const use = `${account} ${meter} ${window}: ${sum} of ${amount}`;
        if (sum > amount && amount >= 0n) throw new Error(`beyond the limit: ${use}`);
      }
    }
  }

  #underWay(account: string, meter: Meter): bigint {
    let sum = 0n;
    for (const { draws } of [...this.open, ...this.posted]) {
      for (const draw of draws)
        if (draw.account === account) sum += BigInt(draw.amounts[meter] ?? 0);
    }
    return sum;
  }

  #sum(entries: Entry[], account: string, meter: Meter, window: Window): bigint {
    const isLevel = meter === 'storedBytes';
    const beginMs = isLevel ? 0 : windowBeginMs(window, this.rig.timeMs);
    let sum = 0n;
    for (const entry of entries) {
      if (entry.account !== account || entry.timeMs < beginMs) continue;
      sum += BigInt(entry.amounts[meter] ?? 0);
    }
    return sum;
  }

  /** The same of what the ledger holds: what crashes lost and what is leased counts as well. */
  checkStates(): void {
    for (const account of fixed) {
      const state = this.rig.storage.durable.get(account);
      for (const { meter, window, amount } of state?.limits?.caps ?? []) {
        if (!state) continue;
        const used = usedIn(state, meter, window) + lostIn(state, meter, window);
        const sum = used + leasedOf(state, meter);
        if (sum > amount) throw new Error(`set aside beyond the limit: ${account} ${meter} ${sum}`);
      }
    }
  }

  /**
   * Each percentage was told once in its window, and none that was reached was left out; 100
   * perhaps before it was reached, of a refusal.
   */
  checkAlarms(): void {
    const told = new Map<string, number>();
    const refused = new Set<string>();
    for (const { account, meter, window, beginMs, percent, used, limit } of this.rig.alarms) {
      const isToken = account === 'token:t';
      if (!fixed.includes(account) || (meter === 'storedBytes' && !isToken)) continue;
      const name = isToken ? account : `${account} ${meter} ${window} ${beginMs}`;
      const before = told.get(name) ?? 0;
      if (percent === 100 && (used < limit || limit === 0n)) {
        if (before === 100 || refused.has(name)) throw new Error(`${name} told 100% twice`);
        refused.add(name);
        continue;
      }
      if (percent <= before || (percent === 100 && refused.has(name)))
        throw new Error(`${name} told of ${percent}% after ${before}%`);
      told.set(name, percent);
    }
    for (const account of fixed) {
      const state = this.rig.storage.durable.get(account);
      for (const { meter, window, amount } of state?.limits?.caps ?? []) {
        if (!state || amount === 0n || meter === 'storedBytes') continue;
        const beginMs = window === 'total' ? 0 : state.marks[window as MarkedWindow].beginMs;
        const name = account === 'token:t' ? account : `${account} ${meter} ${window} ${beginMs}`;
        const used = usedIn(state, meter, window) + lostIn(state, meter, window);
        const reached = [100n, 80n, 50n].find((percent) => used * 100n >= amount * percent) ?? 0n;
        if (reached === 100n && refused.has(name)) continue;
        if (reached > (told.get(name) ?? 0)) throw new Error(`nobody told: ${name} ${reached}%`);
      }
    }
  }

  /** What is set aside when the lease holder has given back what is free: what is open. */
  async checkOpen(): Promise<void> {
    await this.rig.settle();
    void this.leaseHolder.close();
    await this.rig.settle();
    for (const account of [...fixed, ...changing]) {
      const state = this.rig.storage.durable.get(account);
      for (const meter of meters) {
        let held = 0n;
        for (const { reservation } of this.open) {
          for (const { held: one, amounts } of reservation.holds) {
            if (one.account !== account || !one.limited.includes(meter)) continue;
            held += BigInt(amounts[meter] ?? 0);
          }
        }
        const leased = state ? leasedOf(state, meter) : 0n;
        if (leased !== held)
          throw new Error(`set aside: ${account} ${meter} ${leased}, not ${held}`);
      }
    }
  }

  /** When all is done, what is used is what was charged, and nothing is set aside. */
  async finish(): Promise<void> {
    await this.checkOpen();
    while (this.open.length > 0) this.end();
    await this.rig.settle();
    void this.leaseHolder.close();
    await this.rig.settle();
    for (const account of [...fixed, ...changing]) {
      const state = this.rig.storage.durable.get(account);
      if (!state) continue;
      if (state.leases.size > 0) throw new Error(`${account} is leased from when all is done`);
      for (const meter of meters) {
        const charged = this.#sum(this.records, account, meter, 'total');
        const used = usedIn(state, meter, 'total');
        if (used !== charged) throw new Error(`used: ${account} ${meter} ${used}, not ${charged}`);
      }
    }
  }

  #newHolder(): LeaseHolder {
    const leaseHolder = new LeaseHolder(this.rig.source(), () => this.#clockMs);
    for (const [account, limits] of this.limits) {
      if (!account.startsWith('token:')) leaseHolder.setLimits(account, limits);
    }
    return leaseHolder;
  }
}

const ways = ['refusals', 'grants', 'unreserved', 'unposted'] as const;

async function step(world: World): Promise<void> {
  const dice = world.random();
  if (dice < 0.35) world.begin();
  else if (dice < 0.6) world.end();
  else if (dice < 0.7) await world.rig.apply(1 + randomBelow(world.random, 6));
  else if (dice < 0.74) {
    await world.rig.applyOneByOne(1 + randomBelow(world.random, 6), () => world.random() < 0.5);
  } else if (dice < 0.88) await world.rig.deliver(1 + randomBelow(world.random, 6));
  else if (dice < 0.92) world.pass();
  else if (dice < 0.95) void world.leaseHolder.keep();
  else if (dice < 0.98) world.changeLimits();
  else await world.crash();
}

it(
  'used, reserved and perhaps lost never exceed a limit, at any interleaving and any crash',
  async () => {
    const gone = { refusals: 0, grants: 0, unreserved: 0, unposted: 0, alarms: 0 };
    await fuzz(1, sequences, async (random) => {
      const world = new World(random);
      await world.start();
      let checked = 0;
      for (let steps = 20 + randomBelow(random, 100); steps > 0; steps--) {
        await step(world);
        world.check();
        if (world.rig.transactions === checked) continue;
        checked = world.rig.transactions;
        world.checkStates();
        world.checkAlarms();
      }
      await world.finish();
      world.check();
      for (const way of ways) gone[way] += world[way];
      gone.alarms += world.rig.alarms.length;
    });
    // All ways were gone.
    for (const times of Object.values(gone)) expect(times).toBeGreaterThan(100);
  },
  fuzzTimeoutMs,
);
