// The half of limits that is in memory, one in each thread that takes requests: an operation
// reserves from the leases that the ledger granted, without waiting; a lease that runs low is
// topped up in the background; what it does not hold is asked of the ledger, which alone refuses.
// Before the ledger does that, the other holders of this run are recalled: they give back what is
// free. Invariant: what the ledger has leased to this holder is, in each account and meter, what is
// free here + held by reservations + posted in commits under way + in requests under way. So
// nothing is spent that was not set aside, whatever is forgotten when the process dies. The ledger
// answers in order. An account without limits costs a look into a map.
//
// Of an account that was recalled, a holder keeps nothing free for a moment: what comes free goes
// back, and it asks for no more than it needs. So who recalled finds in the ledger all that was
// free elsewhere; and of holders that recall from each other at the same time, one has what it
// needs, since what is free is in the ledger then, which serves them in order.
import { type Limits, type Meter, meters } from '../../core/quota-terms.ts';
import type { Draw, MeterAmounts } from '../amounts.ts';
import { limitedMeters, limitSetOf, tightest } from '../limits/limit-set.ts';
import { AccountLease } from './account-lease.ts';
import { type Claim, checkAmounts, explain, gainsOf, isLacking, lackOf, track } from './claims.ts';
import type {
  AccountDraw,
  DrawAnswer,
  DrawRequest,
  GiveBackRequest,
  Headroom,
  HeldAccount,
  LimitedToken,
  Return,
  Shortage,
  TighterLimits,
} from './requests.ts';
import { type Hold, Reservation } from './reservation.ts';

/** The ledger, as the lease holder needs it. A rejected request has changed nothing there. */
export interface LeaseSource {
  draw(request: DrawRequest): Promise<DrawAnswer>;
  giveBack(request: GiveBackRequest): Promise<unknown>;
  /**
   * Has the other holders give up what they have free of these accounts (`giveUpFree`); resolves
   * when they have. Absent: there are no others.
   */
  recall?(accounts: string[]): Promise<unknown>;
}

export type ReserveOutcome =
  | { ok: true; reservation: Reservation }
  | { ok: false; shortage: Shortage };

/** How often a refused request is asked for again because amounts came free meanwhile. */
const triesMax = 5;
/** How long nothing is kept free of an account that was recalled, milliseconds. */
const yieldMs = 1000;
/** How long other holders may take to give up what is free: longer, and a thread is stuck. */
const recallMsMax = 1000;

/** The leases of those of some accounts that have limits, and what the ledger is told of them. */
interface Leased {
  readonly leases: readonly AccountLease[];
  readonly held: readonly HeldAccount[];
}

type Acquired = { ok: true; holds: Hold[] } | { ok: false; shortage: Shortage };
type Attempt =
  | { ok: true; holds: Hold[] }
  | { ok: false; shortage: Shortage; heldByOthers: boolean; hasGained: boolean }
  | { ok: false; tighter: TighterLimits };

export class LeaseHolder {
  /** Its number: 0 for the first thread. */
  readonly holder: number;
  readonly #source: LeaseSource;
  readonly #nowMs: () => number;
  readonly #limited = new Map<string, readonly Meter[]>();
  readonly #leases = new Map<string, AccountLease>();
  /** By lists of accounts, until another account has limits, or one has others. */
  #leased = new WeakMap<readonly string[], Leased>();
  #open = 0;
  #returns: Return[] = [];
  /** Under way, and those before it. */
  #returning: Promise<unknown> = Promise.resolve();
  #isReturnDue = false;
  /** Accounts of which nothing is kept free, until when. */
  readonly #yielding = new Map<string, number>();
  #low: AccountLease[] = [];
  #round = 0;
  #isClosed = false;
  #edition = 0;

  /** `nowMs`: a clock that is never set, milliseconds. */
  constructor(source: LeaseSource, nowMs: () => number, holder = 0) {
    this.#source = source;
    this.#nowMs = nowMs;
    this.holder = holder;
  }

  /** Whether any account has limits. If none has, nothing needs to be reserved. */
  get hasLimits(): boolean {
    return this.#limited.size > 0 || this.#leases.size > 0;
  }

  /** The version of all limits that it knows. */
  get edition(): number {
    return this.#edition;
  }

  /** Accounts for which amounts are leased, or were a moment ago. */
  get leased(): ReadonlyMap<string, unknown> {
    return this.#leases;
  }

  /** Accounts with limits, tokens not among them. */
  get limited(): ReadonlyMap<string, unknown> {
    return this.#limited;
  }

  /** Reservations that are open. */
  get open(): number {
    return this.#open;
  }

  /**
   * An account's limits, as they are durable: at the start, and whenever the ledger answered that
   * it changed them. What is left of its lease goes back, so that from here on the new ones hold.
   */
  setLimits(account: string, limits: Limits | null): void {
    const limited = limits ? shared(limitedMeters(limitSetOf(limits))) : shared([]);
    this.#edition += 1;
    if (limited.length > 0) this.#limited.set(account, limited);
    else this.#limited.delete(account);
    this.#leased = new WeakMap();
    const lease = this.#leases.get(account);
    if (lease) this.#relimit(lease, limited);
  }

  /** Tells of a token, whose limits are its link's, before it is first drawn on. */
  introduce(account: string, token: LimitedToken): void {
    const lease = this.#leases.get(account);
    const known = lease?.token?.limits;
    if (known === token.limits) return;
    const limits = known ? tightest(known, token.limits) : token.limits;
    if (limits === known) return;
    const limited = shared(limitedMeters(limitSetOf(limits)));
    if (!lease) {
      const made = new AccountLease(account, limited, token);
      made.round = this.#round;
      this.#leases.set(account, made);
      this.#leased = new WeakMap();
      return;
    }
    // Another link with the same id, and tighter.
    lease.token = { ...token, limits };
    this.#edition += 1;
    this.#relimit(lease, limited);
  }

  /**
   * Reserves from memory; undefined when that does not hold enough, and `reserve` must be asked.
   */
  tryReserve(draws: readonly Draw[]): Reservation | undefined {
    const holds = this.#take(draws);
    if (!holds) return undefined;
    this.#open += 1;
    return new Reservation(this, holds, this.#edition);
  }

  /**
   * Reserves in all accounts or in none, waiting for the ledger where memory does not hold enough.
   * Rejects when the ledger cannot write. To be given up as a whole: `Shortage` says who refused.
   */
  async reserve(draws: readonly Draw[]): Promise<ReserveOutcome> {
    const edition = this.#edition;
    const acquired = await this.#acquire(draws);
    if (!acquired.ok) return acquired;
    this.#open += 1;
    return { ok: true, reservation: new Reservation(this, acquired.holds, edition) };
  }

  /** Adds to an open reservation: the next step of a body of unknown size. */
  async extend(reservation: Reservation, draws: readonly Draw[]): Promise<Shortage | undefined> {
    const acquired = await this.#acquire(draws);
    if (!acquired.ok) return acquired.shortage;
    // It may have been resolved meanwhile; then nobody needs the step.
    if (!reservation.isOpen) {
      this.#release(acquired.holds, false);
      return undefined;
    }
    reservation.holds.push(...acquired.holds);
    reservation.isMixed ||= reservation.edition !== this.#edition;
    return undefined;
  }

  /**
   * Must be called from time to time: gives back what was not drawn on since the last call but one.
   */
  async keep(): Promise<void> {
    this.#round += 1;
    for (const lease of this.#leases.values()) {
      if (lease.round >= this.#round - 1) continue;
      this.#return(lease);
      if (lease.holds > 0) continue;
      this.#leases.delete(lease.account);
      this.#leased = new WeakMap();
    }
    const nowMs = this.#nowMs();
    for (const [account, untilMs] of this.#yielding) {
      if (nowMs >= untilMs) this.#yielding.delete(account);
    }
    await this.#sendReturns();
  }

  /**
   * Another holder needs what is free of these accounts. Resolves when the ledger has it, and what
   * requests under way to the ledger left of what they held, too.
   */
  async giveUpFree(accounts: readonly string[]): Promise<void> {
    const asked: Promise<unknown>[] = [];
    for (const account of accounts) {
      this.#yielding.set(account, this.#nowMs() + yieldMs);
      const lease = this.#leases.get(account);
      if (!lease) continue;
      this.#return(lease);
      asked.push(...lease.asked);
    }
    await this.#sendReturns();
    await Promise.allSettled(asked);
    await this.#sendReturns();
  }

  /**
   * Gives back all that is free, at a clean stop; what is open stays set aside. What was asked for
   * before is answered before the first giving back is, and goes back with the second.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    for (let times = 0; times < 2; times++) {
      for (const lease of this.#leases.values()) this.#return(lease);
      await this.#sendReturns();
    }
  }

  /** For `Reservation` only: ends it, and frees what it holds unless that was posted. */
  resolve({ holds }: Reservation, isPosted: boolean): void {
    this.#open -= 1;
    this.#release(holds, isPosted);
  }

  /** For `Reservation` only: what was posted was not charged after all. */
  free(holds: readonly Hold[]): void {
    for (const { leases, accounts, amounts } of holds) {
      for (const [i, lease] of leases.entries()) {
        const { limited } = accounts[i] as HeldAccount;
        for (const meter of limited) this.#credit(lease, meter, amounts[meter] ?? 0);
      }
    }
  }

  #relimit(lease: AccountLease, limited: readonly Meter[]): void {
    this.#return(lease);
    lease.limit(limited);
    this.#leased = new WeakMap();
    void this.#sendReturns();
  }

  #release(holds: readonly Hold[], isPosted: boolean): void {
    for (const { leases } of holds) for (const lease of leases) lease.holds -= 1;
    if (!isPosted) this.free(holds);
  }

  /** Takes the amounts from memory, in all accounts or in none. */
  #take(draws: readonly Draw[]): Hold[] | undefined {
    const holds: Hold[] = [];
    let isAnyLow = false;
    for (const { accounts, amounts } of draws) {
      const leased = this.#leasesOf(accounts);
      const { leases } = leased;
      for (let i = 0; i < leases.length; i++) {
        const lease = leases[i] as AccountLease;
        lease.round = this.#round;
        if (!lease.take(amounts)) {
          this.#untake(leases.slice(0, i), amounts);
          for (const hold of holds) this.#untake(hold.leases, hold.amounts);
          return undefined;
        }
        lease.holds += 1;
        isAnyLow ||= lease.isLow;
      }
      if (leases.length > 0) holds.push({ leases, accounts: leased.held, amounts });
    }
    if (isAnyLow) this.#topUpLow(holds);
    return holds;
  }

  #untake(leases: readonly AccountLease[], amounts: MeterAmounts): void {
    for (const lease of leases) {
      lease.holds -= 1;
      lease.untake(amounts);
    }
  }

  #topUpLow(holds: readonly Hold[]): void {
    for (const { leases } of holds) {
      for (const lease of leases) if (lease.isLow && !lease.isAsking) this.#topUpSoon(lease);
    }
  }

  /** Those of some accounts that have limits. */
  #leasesOf(accounts: readonly string[]): Leased {
    const known = this.#leased.get(accounts);
    if (known) return known;
    const leases = accounts.flatMap((account) => this.#lease(account) ?? []);
    const made = { leases, held: leases.map(({ held }) => held) };
    this.#leased.set(accounts, made);
    return made;
  }

  async #acquire(draws: readonly Draw[]): Promise<Acquired> {
    const recalled = new Set<string>();
    for (let tries = 1; ; ) {
      const holds = this.#take(draws);
      if (holds) return { ok: true, holds };
      for (const { amounts } of draws) checkAmounts(amounts);
      const claims = this.#claim(draws);
      const attempt = await track(claims, this.#attempt(claims, recalled));
      if (attempt.ok) return attempt;
      if ('tighter' in attempt) {
        const { account, isNew } = attempt.tighter;
        // So the others have nothing free, and hear of the limits when they ask.
        if (isNew) await this.#recall(account, claims, recalled);
      } else if (attempt.heldByOthers && this.#source.recall) {
        await this.#recall(attempt.shortage.account, claims, recalled);
      } else if (!attempt.hasGained || tries++ === triesMax) {
        return { ok: false, shortage: attempt.shortage };
      }
    }
  }

  /** Has the others give up what they have free of an account. */
  async #recall(account: string, claims: readonly Claim[], recalled: Set<string>): Promise<void> {
    recalled.add(account);
    if (!this.#source.recall) return;
    // A token whose lease were forgotten meanwhile would be one without limits.
    for (const { lease } of claims) lease.holds += 1;
    await inTime(this.#source.recall([account]));
    for (const { lease } of claims) lease.holds -= 1;
  }

  /** Asks the ledger once. `recalled`: the accounts of which the others have nothing free. */
  async #attempt(claims: readonly Claim[], recalled: ReadonlySet<string>): Promise<Attempt> {
    const before = gainsOf(claims);
    const answer = await this.#ask(claims, recalled);
    if (answer.ok) {
      return {
        ok: true,
        holds: claims.map(({ lease, held, needed: amounts }) => {
          return { leases: [lease], accounts: [held], amounts };
        }),
      };
    }
    const hasGained = gainsOf(claims) !== before;
    this.#giveUp(claims);
    if ('tighter' in answer) {
      const { account, limits } = answer.tighter;
      const token = claims.find(({ lease }) => lease.account === account)?.lease.token;
      if (token) this.introduce(account, { ...token, limits });
      return answer;
    }
    const { shortage, heldByOthers } = answer;
    return { ok: false, shortage: explain(shortage, claims), heldByOthers, hasGained };
  }

  /** Adds up what all accounts need, where one appears twice, and takes what memory holds of it. */
  #claim(draws: readonly Draw[]): Claim[] {
    const claims = new Map<AccountLease, Claim>();
    for (const { accounts, amounts } of draws) {
      for (const lease of this.#leasesOf(accounts).leases) {
        let claim = claims.get(lease);
        if (!claim) {
          claim = { lease, held: lease.held, needed: {}, taken: {} };
          claims.set(lease, claim);
          lease.holds += 1;
          lease.round = this.#round;
        }
        for (const meter of lease.limited) {
          claim.needed[meter] = (claim.needed[meter] ?? 0) + (amounts[meter] ?? 0);
        }
      }
    }
    for (const { lease, needed, taken } of claims.values()) lease.takePart(needed, taken);
    return [...claims.values()];
  }

  /** Asks the ledger for what is lacking, and what it grants beyond that is free. */
  async #ask(claims: readonly Claim[], recalled: ReadonlySet<string>): Promise<DrawAnswer> {
    const nowMs = this.#nowMs();
    const lacking = claims.filter(isLacking);
    // Of several requests for one lease, only one asks for more than it needs: together they would
    // set aside most of what is left, which a crash would lose.
    const first = lacking.filter(({ lease }) => !lease.isAsking).map(({ lease }) => lease);
    const draws = lacking.map((claim): AccountDraw => {
      const { account, token, isAsking } = claim.lease;
      const need = lackOf(claim);
      const isExact = isAsking || this.#isYielding(account);
      const want = isExact ? {} : claim.lease.want(need, nowMs);
      return { account, need, want, token, isRecalled: recalled.has(account) };
    });
    // What came free of them goes first, since the need is the whole need.
    if (this.#yielding.size > 0) void this.#sendReturns();
    for (const lease of first) lease.isAsking = true;
    let answer: DrawAnswer;
    try {
      answer = await this.#source.draw({ holder: this.holder, draws });
    } catch (error) {
      this.#giveUp(claims);
      throw error;
    } finally {
      for (const lease of first) lease.isAsking = false;
    }
    if (!answer.ok) return answer;
    for (const [i, claim] of lacking.entries()) {
      claim.lease.learn(answer.headroom[i] as Headroom[]);
      this.#enlarge(claim.lease, draws[i] as AccountDraw, answer.granted[i] as MeterAmounts);
    }
    return answer;
  }

  /** Makes free what was granted beyond what was needed. */
  #enlarge(lease: AccountLease, { need, want }: AccountDraw, granted: MeterAmounts): void {
    for (const meter of meters) {
      if (want[meter] === undefined) continue;
      const extra = (granted[meter] ?? 0) - (need[meter] ?? 0);
      lease.expect(meter, extra);
      this.#credit(lease, meter, extra);
    }
  }

  #giveUp(claims: readonly Claim[]): void {
    for (const { lease, held, taken } of claims) {
      lease.holds -= 1;
      for (const meter of held.limited) this.#credit(lease, meter, taken[meter] ?? 0);
    }
  }

  #topUpSoon(lease: AccountLease): void {
    if (this.#isYielding(lease.account)) return;
    lease.isAsking = true;
    lease.holds += 1;
    this.#low.push(lease);
    if (this.#low.length > 1) return;
    setImmediate(() => {
      const low = this.#low.splice(0).map((one) => ({ lease: one }));
      void track(low, this.#topUp(low));
    });
  }

  async #topUp(low: readonly { lease: AccountLease }[]): Promise<void> {
    if (this.#isClosed) return;
    const nowMs = this.#nowMs();
    const draws = low.map(({ lease }): AccountDraw => {
      const want = this.#isYielding(lease.account) ? {} : lease.want({}, nowMs);
      return { account: lease.account, need: {}, want, token: lease.token };
    });
    // Nobody waits for this. A request that then finds too little asks again, and gets the answer.
    const answer = await this.#source.draw({ holder: this.holder, draws }).catch(() => undefined);
    for (const [i, { lease }] of low.entries()) {
      lease.holds -= 1;
      lease.isAsking = false;
      if (answer?.ok) lease.learn(answer.headroom[i] as Headroom[]);
      const granted = answer?.ok ? (answer.granted[i] as MeterAmounts) : {};
      this.#enlarge(lease, draws[i] as AccountDraw, granted);
    }
  }

  /** Makes an amount free; what is not limited any more, or was put away, goes back instead. */
  #credit(lease: AccountLease, meter: Meter, amount: number): void {
    if (amount === 0) return;
    if (this.#isYielding(lease.account)) {
      this.#returns.push({ account: lease.account, amounts: { [meter]: amount } });
      lease.gains += 1;
      this.#returnSoon();
      return;
    }
    const isInUse = this.#leases.get(lease.account) === lease;
    const isFree = isInUse && lease.limited.includes(meter) && lease.put(meter, amount);
    if (!isFree) this.#returns.push({ account: lease.account, amounts: { [meter]: amount } });
  }

  #return(lease: AccountLease): void {
    const amounts = lease.empty();
    if (amounts) this.#returns.push({ account: lease.account, amounts });
  }

  /** Whether nothing is kept free of an account, since it was recalled. */
  #isYielding(account: string): boolean {
    if (this.#yielding.size === 0) return false;
    const untilMs = this.#yielding.get(account);
    return untilMs !== undefined && this.#nowMs() < untilMs;
  }

  #returnSoon(): void {
    if (this.#isReturnDue) return;
    this.#isReturnDue = true;
    setImmediate(() => {
      this.#isReturnDue = false;
      void this.#sendReturns();
    });
  }

  /** Resolves when the ledger has them, and those that were sent before. */
  async #sendReturns(): Promise<void> {
    if (this.#returns.length > 0) {
      const returns = this.#returns;
      this.#returns = [];
      // The disk is full: the amounts stay set aside, and are given back with the next ones.
      const keep = () => this.#returns.push(...returns);
      const sent = this.#source.giveBack({ holder: this.holder, returns }).catch(keep);
      this.#returning = Promise.all([this.#returning, sent]);
    }
    await this.#returning;
  }

  #lease(account: string): AccountLease | undefined {
    const lease = this.#leases.get(account);
    if (lease) return lease;
    const limited = this.#limited.get(account);
    if (!limited) return undefined;
    const made = new AccountLease(account, limited);
    this.#leases.set(account, made);
    return made;
  }
}

/** One list for each set of meters, so that an account keeps no list of its own. */
const lists = new Map<string, readonly Meter[]>();
function shared(limited: readonly Meter[]): readonly Meter[] {
  const name = limited.join();
  const list = lists.get(name) ?? limited;
  lists.set(name, list);
  return list;
}

/** Resolves when the others are done, or take too long. */
async function inTime(recalled: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const tooLong = new Promise((resolve) => {
    timer = setTimeout(resolve, recallMsMax);
  });
  await Promise.race([recalled, tooLong]);
  clearTimeout(timer);
}
