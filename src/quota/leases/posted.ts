// What was posted to one account and is not yet in its sums. Requests add numbers here; bigints,
// which cost many times as much, come once a batch. Invariant: each count is a safe integer.
import { type Meter, meters } from '../../core/quota-terms.ts';
import { addAmounts, type Counts, emptyCounts, type MeterAmounts } from '../amounts.ts';
import { type AccountState, settleLease } from './account-state.ts';
import type { HolderNames } from './holder-names.ts';

/** Larger amounts are not counted here but added to the sums at once. */
const countMax = 2 ** 52;

export class Posted {
  readonly #state: AccountState;
  readonly #holders: HolderNames;
  readonly #used = emptyCounts();
  /** By holder. */
  readonly #settled: (Counts | undefined)[] = [];
  #hasUsed = false;
  #hasSettled = false;

  constructor(state: AccountState, holders: HolderNames) {
    this.#state = state;
    this.#holders = holders;
  }

  use(amounts: MeterAmounts): void {
    this.#hasUsed = true;
    for (const meter of meters) {
      const amount = amounts[meter];
      if (amount === undefined || amount === 0) continue;
      if (!add(this.#used, meter, amount)) addAmounts(this.#state.used, { [meter]: amount });
    }
  }

  /** Takes off the lease of a holder what is `limited`. */
  settle(holder: number, amounts: MeterAmounts, limited: readonly Meter[]): void {
    this.#hasSettled = true;
    this.#settled[holder] ??= emptyCounts();
    const settled = this.#settled[holder];
    for (const meter of limited) {
      const amount = amounts[meter];
      if (amount === undefined || amount === 0) continue;
      if (!add(settled, meter, amount)) this.#settleNow(holder, { [meter]: amount });
    }
  }

  /** Brings the sums up to date. Throws if more was settled than was leased, a bug. */
  bringIn(): void {
    if (this.#hasSettled) {
      this.#hasSettled = false;
      for (const [holder, settled] of this.#settled.entries()) {
        if (!settled) continue;
        this.#settleNow(holder, settled);
        clear(settled);
      }
    }
    if (this.#hasUsed) {
      this.#hasUsed = false;
      addAmounts(this.#state.used, this.#used);
      clear(this.#used);
    }
  }

  #settleNow(holder: number, amounts: MeterAmounts): void {
    settleLease(this.#state, this.#holders.nameOf(holder), amounts);
  }
}

/** False: it would be more than is counted here. */
function add(counts: Counts, meter: Meter, amount: number): boolean {
  const sum = counts[meter] + amount;
  if (Math.abs(sum) > countMax) return false;
  counts[meter] = sum;
  return true;
}

function clear(counts: Counts): void {
  for (const meter of meters) counts[meter] = 0;
}
