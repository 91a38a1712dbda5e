// Leases against a plain model: lists of what was charged and of what is under way, added up anew
// at each step; with one holder or several, and crashes between any two steps. BURSAR_FULL=1 tries
// twice as many sequences.
import { expect, it } from 'vitest';
import { type Limits, type Meter, meters, type Window } from '#bursar/core/quota-terms.js';
import type { Draw, MeterAmounts } from '#bursar/quota/amounts.js';
import type { AccountBook } from '#bursar/quota/leases/account-book.js';
import type { AccountLease } from '#bursar/quota/leases/account-lease.js';
import {
  beginWindows,
  headroomOf,
  leasedOf,
  lostIn,
  type MarkedWindow,
  usedIn,
} from '#bursar/quota/leases/account-state.js';
import { HolderNames } from '#bursar/quota/leases/holder-names.js';
import { LeaseHolder } from '#bursar/quota/leases/lease-holder.js';
import type { Headroom } from '#bursar/quota/leases/requests.js';
import type { Reservation } from '#bursar/quota/leases/reservation.js';
import { limitSetOf } from '#bursar/quota/limits/limit-set.js';
import { windowBeginMs } from '#bursar/quota/limits/windows.js';
import { fuzz, fuzzTimeoutMs, randomBelow, randomOf } from '../../fuzz/seeded-random.ts';
import { copyOf, LedgerRig } from './ledger-rig.ts';

type Random = () => number;

interface Entry {
  account: string;
  amounts: MeterAmounts;
  timeMs: number;
}

interface Operation {
  leaseHolder: LeaseHolder;
  draws: Draw[];
  reservation: Reservation;
}

const fixed = ['tenant:a', 'principal:a/b', 'bucket:a/raw', 'token:t'];
const changing = ['tenant:c', 'principal:c/d'];
const tokenFacts = { tenant: 'a', principal: 'b', expiresAtMs: Date.UTC(2100, 0) };
const beginMs = Date.UTC(2026, 10, 30, 23, 59, 30);
const longestMs = 40 * 24 * 3600 * 1000;
const sequences = process.env.BURSAR_FULL === '1' ? 2000 : 300;

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
  /** How many threads take requests. */
  readonly threads: number;
  leaseHolders: LeaseHolder[] = [];
  refusals = 0;
  recalls = 0;
  grants = 0;
  /** For want of room on the disk. */
  unreserved = 0;
  unposted = 0;
  #clockMs = 0;
  readonly #lists = new Map<string, readonly string[]>();
  #run = 0;

  constructor(random: Random) {
    this.random = random;
    this.threads = 1 + randomBelow(random, 4);
    this.#newHolders();
  }

  get anyHolder(): LeaseHolder {
    return randomOf(this.random, this.leaseHolders);
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
    this.#newHolders();
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
    const first = randomBelow(random, accounts.length + 1);
    const draws = [accounts.slice(0, first), accounts.slice(first)].map((some) => {
      return { accounts: this.#listOf(some), amounts };
    });
    // Who asks may also be who owns.
    if (accounts[0] && random() < 0.3) draws.push({ accounts: [accounts[0]], amounts });
    const token = this.limits.get('token:t');
    const leaseHolder = this.anyHolder;
    if (token) leaseHolder.introduce('token:t', { ...tokenFacts, limits: token });
    const reservation = leaseHolder.tryReserve(draws);
    if (reservation) this.#enter({ leaseHolder, draws, reservation });
    else void this.#beginSlowly(leaseHolder, draws);
  }

  /** Of the same accounts the same list, as requests share one. */
  #listOf(accounts: readonly string[]): readonly string[] {
    const list = this.#lists.get(accounts.join()) ?? accounts;
    this.#lists.set(accounts.join(), list);
    return list;
  }

  async #beginSlowly(leaseHolder: LeaseHolder, draws: Draw[]): Promise<void> {
    const run = this.#run;
    const outcome = await leaseHolder.reserve(draws).catch(() => null);
    if (run !== this.#run) return;
    if (!outcome) this.unreserved += 1;
    else if (outcome.ok) this.#enter({ leaseHolder, draws, reservation: outcome.reservation });
    else this.refusals += 1;
  }

  #enter(operation: Operation): void {
    this.grants += 1;
    this.open.push(operation);
    if (this.random() < 0.2) void this.#extend(operation);
  }

  async #extend(operation: Operation): Promise<void> {
    const run = this.#run;
    const step = operation.draws.slice(0, 2).map(({ accounts }) => {
      return { accounts, amounts: { egressBytes: 1 + randomBelow(this.random, 50) } };
    });
    const { leaseHolder, reservation } = operation;
    const shortage = await leaseHolder.extend(reservation, step).catch(() => null);
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
    const used = draws.map(({ accounts, amounts }) => {
      const part: { [M in Meter]?: number } = {};
      for (const meter of meters) {
        const most = amounts[meter] ?? 0;
        part[meter] = isWhole ? most : randomBelow(this.random, most + 1);
      }
      if (this.random() < 0.2) part.storedBytes = -1;
      return { accounts, amounts: part };
    });
    this.posted.push(operation);
    let timeMs = 0;
    const work = (book: AccountBook, now: number) => {
      timeMs = now;
      return book.post(structuredClone(reserved), used, now);
    };
    const onDurable = () => {
      for (const { accounts, amounts } of used) {
        for (const account of accounts) this.records.push({ account, amounts, timeMs });
      }
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
      for (const { accounts, amounts } of draws) {
        const { storedBytes: _, ...flows } = amounts;
        for (const account of accounts) {
          this.ghosts.push({ account, amounts: flows, timeMs: this.rig.timeMs });
        }
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
    this.#newHolders();
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
      for (const leaseHolder of this.leaseHolders) leaseHolder.setLimits(account, limits);
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
        if (draw.accounts.includes(account)) sum += BigInt(draw.amounts[meter] ?? 0);
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

  /** Nothing is lost: what is leased to each holder is free there, or held by what is open. */
  async checkWhole(): Promise<void> {
    await this.rig.settle();
    for (const leaseHolder of this.leaseHolders) void leaseHolder.keep();
    await this.rig.settle();
    for (const leaseHolder of this.leaseHolders) {
      this.#checkLeased(leaseHolder, (account, meter) => {
        const lease = leaseHolder.leased.get(account) as AccountLease | undefined;
        if (!lease?.limited.includes(meter)) return 0n;
        return BigInt(lease.leftOf({ meter, left: 0 } as Headroom));
      });
    }
  }

  /**
   * Any of the holders gets all that a limit leaves, wherever it is free, and then none gets more.
   */
  async checkLast(): Promise<void> {
    await this.rig.settle();
    // What the ledger could not write down that it was given back is given back with this.
    for (const leaseHolder of this.leaseHolders) void leaseHolder.keep();
    await this.rig.settle();
    const account = randomOf(this.random, ['tenant:a', ...changing]);
    const meter = randomOf(this.random, ['requests', 'egressBytes', 'storedBytes'] as const);
    const left = this.#leftOf(account, meter);
    if (left === undefined || left <= 0n) return;
    const draws = [{ accounts: [account], amounts: { [meter]: Number(left) } }];
    const [first, second] = [this.anyHolder, this.anyHolder];
    const asked = first.reserve(draws);
    await this.rig.settle();
    const outcome = await asked;
    if (!outcome.ok) throw new Error(`refused: ${account} ${meter}, though there are ${left}`);
    const more = second.reserve([{ accounts: [account], amounts: { [meter]: 1 } }]);
    await this.rig.settle();
    if ((await more).ok) throw new Error(`there was more than all: ${account} ${meter}`);
    outcome.reservation.void();
    await this.rig.settle();
  }

  /** What was neither used nor lost, nor is held by what is open; undefined: no limit, or none. */
  #leftOf(account: string, meter: Meter): bigint | undefined {
    const state = this.rig.storage.durable.get(account);
    if (!state?.limits?.caps.some((cap) => cap.meter === meter)) return undefined;
    const now = copyOf(state);
    beginWindows(now, this.rig.timeMs);
    // What had no limit when it began is charged nevertheless, of what was leased since.
    if ((headroomOf(now, meter) ?? 0n) < 0n) return undefined;
    now.leases.clear();
    let held = 0n;
    for (const leaseHolder of this.leaseHolders) held += this.#heldBy(leaseHolder, account, meter);
    return (headroomOf(now, meter) ?? 0n) - held;
  }

  /** What is set aside when the holders have given back what is free: what is open. */
  async checkOpen(): Promise<void> {
    await this.#closeAll();
    for (const leaseHolder of this.leaseHolders) this.#checkLeased(leaseHolder, () => 0n);
  }

  async #closeAll(): Promise<void> {
    await this.rig.settle();
    for (const leaseHolder of this.leaseHolders) void leaseHolder.close();
    await this.rig.settle();
  }

  #checkLeased(leaseHolder: LeaseHolder, free: (account: string, meter: Meter) => bigint): void {
    const name = new HolderNames(this.rig.runName).nameOf(leaseHolder.holder);
    for (const account of [...fixed, ...changing]) {
      const lease = this.rig.storage.durable.get(account)?.leases.get(name);
      for (const meter of meters) {
        const known = this.#heldBy(leaseHolder, account, meter) + free(account, meter);
        const leased = lease?.[meter] ?? 0n;
        if (leased !== known)
          throw new Error(`set aside: ${account} ${meter} ${leased} for ${name}, not ${known}`);
      }
    }
  }

  #heldBy(leaseHolder: LeaseHolder, account: string, meter: Meter): bigint {
    let held = 0n;
    for (const operation of this.open) {
      if (operation.leaseHolder !== leaseHolder) continue;
      for (const { accounts, amounts } of operation.reservation.holds) {
        const one = accounts.find((candidate) => candidate.account === account);
        if (one?.limited.includes(meter)) held += BigInt(amounts[meter] ?? 0);
      }
    }
    return held;
  }

  /** When all is done, what is used is what was charged, and nothing is set aside. */
  async finish(): Promise<void> {
    await this.checkLast();
    await this.checkOpen();
    while (this.open.length > 0) this.end();
    await this.#closeAll();
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

  #newHolders(): void {
    this.leaseHolders = Array.from({ length: this.threads }, (_, i) => this.#newHolder(i));
  }

  #newHolder(holder: number): LeaseHolder {
    const source = this.rig.source(holder);
    const counting = {
      ...source,
      recall: (accounts: string[]) => {
        this.recalls += 1;
        return source.recall?.(accounts) ?? Promise.resolve();
      },
    };
    const leaseHolder = new LeaseHolder(counting, () => this.#clockMs, holder);
    for (const [account, limits] of this.limits) {
      if (!account.startsWith('token:')) leaseHolder.setLimits(account, limits);
    }
    this.rig.join(leaseHolder);
    return leaseHolder;
  }
}

const ways = ['refusals', 'grants', 'recalls', 'unreserved', 'unposted'] as const;

async function step(world: World): Promise<void> {
  const dice = world.random();
  if (dice < 0.35) world.begin();
  else if (dice < 0.6) world.end();
  else if (dice < 0.7) await world.rig.apply(1 + randomBelow(world.random, 6));
  else if (dice < 0.74) {
    await world.rig.applyOneByOne(1 + randomBelow(world.random, 6), () => world.random() < 0.5);
  } else if (dice < 0.88) await world.rig.deliver(1 + randomBelow(world.random, 6));
  else if (dice < 0.9) await world.rig.deliverRecalls(1 + randomBelow(world.random, 3));
  else if (dice < 0.92) world.pass();
  else if (dice < 0.94) void world.anyHolder.keep();
  else if (dice < 0.965) world.changeLimits();
  else if (dice < 0.97) await world.checkWhole();
  else if (dice < 0.98) await world.checkLast();
  else await world.crash();
}

it(
  'used, reserved and perhaps lost never exceed a limit, at any interleaving and any crash',
  async () => {
    const gone = { refusals: 0, grants: 0, recalls: 0, unreserved: 0, unposted: 0, alarms: 0 };
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
    for (const times of Object.values(gone)) expect(times).toBeGreaterThan(sequences / 20);
  },
  fuzzTimeoutMs,
);

/** Four threads of one gateway, and a tenant with a limit of requests. */
async function fourHolders(
  random: Random,
  limit: number,
): Promise<{ rig: LedgerRig; leaseHolders: LeaseHolder[]; step: () => Promise<void> }> {
  const rig = new LedgerRig(beginMs);
  const limits = { requests: { total: limit } };
  void rig.send((book, timeMs) => book.setLimits('tenant:a', limits, timeMs));
  await rig.settle();
  let clockMs = 0;
  const leaseHolders = [0, 1, 2, 3].map((holder) => {
    const leaseHolder = new LeaseHolder(rig.source(holder), () => clockMs, holder);
    leaseHolder.setLimits('tenant:a', limits);
    rig.join(leaseHolder);
    return leaseHolder;
  });
  const step = async (): Promise<void> => {
    clockMs += randomBelow(random, 20);
    await rig.apply(randomBelow(random, 4));
    await rig.deliver(randomBelow(random, 4));
    await rig.deliverRecalls(randomBelow(random, 3));
  };
  return { rig, leaseHolders, step };
}

const drawOf = (requests: number): Draw[] => [{ accounts: ['tenant:a'], amounts: { requests } }];

it('four holders use a limit up to its last unit, each asking for one at a time', async () => {
  await fuzz(1, 50, async (random) => {
    const limit = 1 + randomBelow(random, 300);
    const { rig, leaseHolders, step } = await fourHolders(random, limit);
    let granted = 0;
    let refused = 0;
    for (const leaseHolder of leaseHolders) {
      void (async () => {
        for (;;) {
          const outcome = await leaseHolder.reserve(drawOf(1));
          if (!outcome.ok) break;
          granted += 1;
          const posted = outcome.reservation.post();
          if (random() < 0.5) await new Promise(setImmediate);
          void rig.send((book, timeMs) => book.post(posted, drawOf(1), timeMs));
        }
        refused += 1;
      })();
    }
    while (refused < leaseHolders.length) await step();
    await rig.settle();
    expect(granted).toBe(limit);
    const state = rig.storage.durable.get('tenant:a');
    expect(state && usedIn(state, 'requests', 'total')).toBe(BigInt(limit));
  });
});

it('of holders that each need all of a limit at the same moment, one has it', async () => {
  await fuzz(1, 200, async (random) => {
    const limit = 1000 + randomBelow(random, 2000);
    const { leaseHolders, step } = await fourHolders(random, limit);
    for (let rounds = 0; rounds < 3; rounds++) {
      // Something is free here and there, and more is on its way.
      const small: Reservation[] = [];
      let asking = 0;
      for (let times = randomBelow(random, 40); times > 0; times--) {
        const draws = drawOf(1 + randomBelow(random, 9));
        const leaseHolder = randomOf(random, leaseHolders);
        const reservation = leaseHolder.tryReserve(draws);
        if (reservation) {
          small.push(reservation);
        } else {
          asking += 1;
          void leaseHolder.reserve(draws).then((outcome) => {
            asking -= 1;
            if (outcome.ok) small.push(outcome.reservation);
          });
        }
        if (random() < 0.5) await step();
      }
      while (asking > 0) await step();
      for (const reservation of small) reservation.void();
      const winners: Reservation[] = [];
      let answers = 0;
      for (const leaseHolder of leaseHolders) {
        void leaseHolder.reserve(drawOf(limit)).then((outcome) => {
          answers += 1;
          if (outcome.ok) winners.push(outcome.reservation);
        });
      }
      while (answers < leaseHolders.length) await step();
      expect(winners).toHaveLength(1);
      winners[0]?.void();
    }
  });
});
