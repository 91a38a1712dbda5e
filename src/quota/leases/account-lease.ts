// What one account has leased to this run of the gateway and nobody holds yet, by limited meter.
// Invariant: free amounts are safe integers and never less than 0; a meter without limit has none.
import type { Meter } from '../../core/quota-terms.ts';
import { amountMax, type MeterAmounts } from '../amounts.ts';
import type { Headroom, LimitedToken } from './requests.ts';

/** A lease should last about this long, so that the ledger is asked this often. */
const lastsMs = 1000;
/** As many times what an operation needs are wanted beside it, before any rate is known. */
const ahead = 16;

type Counts = Record<Meter, number>;

export class AccountLease {
  readonly account: string;
  /** Of a token, which the ledger may not know yet. */
  token: LimitedToken | undefined;
  limited: readonly Meter[];
  /** Reservations and requests under way that come back to it. */
  holds = 0;
  /** When it was last drawn on, in the desk's rounds. */
  round = 0;
  /** How often something came free: who was refused before may find it. */
  gains = 0;
  isAsking = false;
  /** Was something taken beyond the mark at which to ask for more? */
  isLow = false;
  /** What the ledger had left beside this when it last granted some; for those who ask. */
  headroom: readonly Headroom[] = [];
  readonly #free: Counts = none();
  /** Below it more is asked for. */
  readonly #mark: Counts = none();
  readonly #takenSince: Counts = none();
  #askedMs = 0;

  constructor(account: string, limited: readonly Meter[], token?: LimitedToken) {
    this.account = account;
    this.limited = limited;
    this.token = token;
  }

  /** Takes all of it or nothing. */
  take(amounts: MeterAmounts): boolean {
    const { limited } = this;
    // Neither less than nothing nor what is no number can be had: both compare as false.
    for (const meter of limited) {
      const amount = amounts[meter];
      if (amount === undefined || amount === 0) continue;
      if (!(amount >= 0 && amount <= this.#free[meter])) return false;
    }
    for (const meter of limited) {
      const amount = amounts[meter];
      if (amount === undefined || amount === 0) continue;
      this.#free[meter] -= amount;
      this.#takenSince[meter] += amount;
      if (this.#free[meter] < this.#mark[meter]) this.isLow = true;
    }
    return true;
  }

  /** Undoes a `take` of this turn. */
  untake(amounts: MeterAmounts): void {
    for (const meter of this.limited) {
      this.#free[meter] += amounts[meter] ?? 0;
      this.#takenSince[meter] -= amounts[meter] ?? 0;
    }
  }

  /** Takes of `needed` what is there, and says in `taken` what. */
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
   * Of what is needed or runs low, as much as lasts a while at the rate since this was last asked;
   * `need` is on top of it.
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

  /** Takes note of what came of a `want`: less when a limit is near, and then it is asked for later. */
  expect(meter: Meter, granted: number): void {
    this.#mark[meter] = Math.floor(granted / 2);
    this.isLow = false;
  }

  /**
   * About what a cap leaves: what is not leased, and what is leased and free. What was reserved and
   * not used is missing from it until the ledger is asked again.
   */
  leftOf({ meter, left }: Headroom): number {
    return Math.max(0, left + this.#free[meter]);
  }

  /** Takes out all that is free; undefined when that is nothing. */
  empty(): MeterAmounts | undefined {
    let amounts: { [M in Meter]?: number } | undefined;
    for (const meter of this.limited) {
      const amount = this.#free[meter];
      this.#mark[meter] = 0;
      if (amount === 0) continue;
      amounts ??= {};
      amounts[meter] = amount;
      this.#free[meter] = 0;
      for (const cap of this.headroom) if (cap.meter === meter) cap.left += amount;
    }
    return amounts;
  }

  /** Replaces what is limited; it must be `empty`. */
  limit(limited: readonly Meter[]): void {
    this.limited = limited;
    this.headroom = [];
  }
}

function none(): Counts {
  return {
    spend: 0,
    storedBytes: 0,
    storedObjects: 0,
    ingressBytes: 0,
    egressBytes: 0,
    requests: 0,
  };
}
