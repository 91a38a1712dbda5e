// What a holder has leased of one account and no request holds, by limited meter.
// Invariant: free amounts are safe integers and never negative; a meter without a limit never runs
// out.
import { type Meter, meters } from '../../core/quota-terms.ts';
import { amountMax, type Counts, emptyCounts, type MeterAmounts } from '../amounts.ts';
import type { Headroom, HeldAccount, LimitedToken } from './requests.ts';

/** A lease should last about this long, so that the ledger is asked this often. */
const lastsMs = 1000;
/** Before any rate is known, so many times the need of an operation is leased in addition. */
const ahead = 16;
export class AccountLease {
  readonly account: string;
  /** The token, which the ledger may not know yet. */
  token: LimitedToken | undefined;
  /** The account and its limited meters, as reservations tell the ledger. */
  held: HeldAccount;
  /** How many reservations and requests under way will come back to it. */
  holds = 0;
  /** The round of the lease holder in which it was last drawn on. */
  round = 0;
  /** How often something came free, which a request that was refused before may now get. */
  gains = 0;
  isAsking = false;
  /** Requests to the ledger that it is in. */
  readonly asked = new Set<Promise<unknown>>();
  /** Whether so much was taken that the ledger is to be asked for more. */
  isLow = false;
  /**
   * What the ledger had left besides this lease when it last granted some, to be told to clients.
   */
  #headroom: readonly Headroom[] = [];
  readonly #tightest: { [M in Meter]?: Headroom | undefined } = {};
  /** When the first of the windows of its limits ends. */
  #tightestUntilMs = 0;
  readonly #free: Counts = emptyCounts();
  /** Below it more is asked for. */
  readonly #mark: Counts = emptyCounts();
  readonly #takenSince: Counts = emptyCounts();
  #askedMs = 0;

  constructor(account: string, limited: readonly Meter[], token?: LimitedToken) {
    this.account = account;
    this.held = { account, limited };
    this.token = token;
    this.#freeUnlimited();
  }

  get limited(): readonly Meter[] {
    return this.held.limited;
  }

  /** Takes the whole amount, or nothing of it. */
  take(amounts: MeterAmounts): boolean {
    if (!holdsAll(this.#free, amounts)) return false;
    addAll(this.#free, amounts, -1);
    addAll(this.#takenSince, amounts, 1);
    if (isBelow(this.#free, this.#mark)) this.isLow = true;
    return true;
  }

  /** Undoes a `take` of this turn. */
  untake(amounts: MeterAmounts): void {
    addAll(this.#free, amounts, 1);
    addAll(this.#takenSince, amounts, -1);
  }

  /** Takes as much of `needed` as is there, and notes in `taken` how much that is. */
  takePart(needed: MeterAmounts, taken: { [M in Meter]?: number }): void {
    for (const meter of this.limited) {
      const amount = Math.min(needed[meter] ?? 0, this.#free[meter]);
      this.#free[meter] -= amount;
      this.#takenSince[meter] += needed[meter] ?? 0;
      taken[meter] = amount;
    }
  }

  /** Makes an amount free; false: there is too much of it to count here. */
  put(meter: Meter, amount: number): boolean {
    const free = this.#free[meter] + amount;
    if (free > amountMax) return false;
    this.#free[meter] = free;
    this.gains += 1;
    return true;
  }

  /**
   * How much to lease of what is needed or runs low: as much as lasts a while at the present rate,
   * with `need` in addition.
   */
  want(need: MeterAmounts, nowMs: number): MeterAmounts {
    const want: { [M in Meter]?: number } = {};
    const sinceMs = Math.max(nowMs - this.#askedMs, 1);
    this.#askedMs = nowMs;
    for (const meter of this.limited) {
      const byRate = (this.#takenSince[meter] * lastsMs) / sinceMs;
      this.#takenSince[meter] = 0;
      const needed = need[meter] ?? 0;
      if (needed === 0 && this.#free[meter] >= this.#mark[meter]) continue;
      const least = Math.max(ahead * needed, 2 * this.#mark[meter]);
      want[meter] = Math.min(Math.ceil(Math.max(byRate, least)), amountMax);
    }
    return want;
  }

  /**
   * Takes note of what came of a `want`: less when a limit is near, and then it is asked for later.
   */
  expect(meter: Meter, granted: number): void {
    this.#mark[meter] = Math.floor(granted / 2);
    this.isLow = false;
  }

  /** Takes note of what the ledger says that its caps leave. */
  learn(headroom: readonly Headroom[]): void {
    this.#headroom = headroom;
    this.#tightestUntilMs = 0;
  }

  /** The cap on a meter that leaves least; a window that is over says nothing. */
  tightest(meter: Meter, nowMs: number): Headroom | undefined {
    if (nowMs >= this.#tightestUntilMs) this.#findTightest(nowMs);
    return this.#tightest[meter];
  }

  #freeUnlimited(): void {
    for (const meter of meters) {
      if (!this.limited.includes(meter)) this.#free[meter] = Number.POSITIVE_INFINITY;
    }
  }

  #findTightest(nowMs: number): void {
    for (const meter of meters) this.#tightest[meter] = undefined;
    this.#tightestUntilMs = Number.POSITIVE_INFINITY;
    for (const cap of this.#headroom) {
      if (cap.resetMs <= nowMs) continue;
      this.#tightestUntilMs = Math.min(this.#tightestUntilMs, cap.resetMs);
      const before = this.#tightest[cap.meter];
      if (!before || cap.left < before.left) this.#tightest[cap.meter] = cap;
    }
  }

  /**
   * About what a cap leaves: what is not leased, and what is leased and free. What was reserved and
   * not used is missing from it until the ledger is asked again.
   */
  leftOf({ meter, left }: Headroom): number {
    return Math.max(0, left + this.#free[meter]);
  }

  /** Takes out everything that is free. Undefined means that there is nothing. */
  empty(): MeterAmounts | undefined {
    let amounts: { [M in Meter]?: number } | undefined;
    for (const meter of this.limited) {
      const amount = this.#free[meter];
      this.#mark[meter] = 0;
      if (amount === 0) continue;
      amounts ??= {};
      amounts[meter] = amount;
      this.#free[meter] = 0;
      for (const cap of this.#headroom) if (cap.meter === meter) cap.left += amount;
    }
    return amounts;
  }

  /** Replaces what is limited; it must be `empty`. */
  limit(limited: readonly Meter[]): void {
    this.held = { account: this.account, limited };
    for (const meter of meters) {
      this.#free[meter] = 0;
      this.#takenSince[meter] = 0;
    }
    this.#freeUnlimited();
    this.learn([]);
  }
}

// Meter by meter, since these are on the way of each request: a loop over names takes ten times as
// long.

/** A negative amount, and one that is no number, cannot be had: both compare as false. */
function holdsAll(free: Counts, amounts: MeterAmounts): boolean {
  const { spend = 0, storedBytes = 0, storedObjects = 0 } = amounts;
  const { ingressBytes = 0, egressBytes = 0, requests = 0 } = amounts;
  return (
    spend >= 0 &&
    spend <= free.spend &&
    storedBytes >= 0 &&
    storedBytes <= free.storedBytes &&
    storedObjects >= 0 &&
    storedObjects <= free.storedObjects &&
    ingressBytes >= 0 &&
    ingressBytes <= free.ingressBytes &&
    egressBytes >= 0 &&
    egressBytes <= free.egressBytes &&
    requests >= 0 &&
    requests <= free.requests
  );
}

function addAll(counts: Counts, amounts: MeterAmounts, sign: 1 | -1): void {
  counts.spend += sign * (amounts.spend ?? 0);
  counts.storedBytes += sign * (amounts.storedBytes ?? 0);
  counts.storedObjects += sign * (amounts.storedObjects ?? 0);
  counts.ingressBytes += sign * (amounts.ingressBytes ?? 0);
  counts.egressBytes += sign * (amounts.egressBytes ?? 0);
  counts.requests += sign * (amounts.requests ?? 0);
}

function isBelow(counts: Counts, marks: Counts): boolean {
  return (
    counts.spend < marks.spend ||
    counts.storedBytes < marks.storedBytes ||
    counts.storedObjects < marks.storedObjects ||
    counts.ingressBytes < marks.ingressBytes ||
    counts.egressBytes < marks.egressBytes ||
    counts.requests < marks.requests
  );
}
