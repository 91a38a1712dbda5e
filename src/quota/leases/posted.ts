// What was posted to one account and is not yet in its sums. Requests add numbers here; bigints,
// which cost many times as much, come once a batch. Invariant: each count is a safe integer.
import { type Meter, meters } from '../../core/quota-terms.ts';
import { addAmounts, type Counts, emptyCounts, type MeterAmounts } from '../amounts.ts';
import { type AccountState, settleLease } from './account-state.ts';

/** Larger amounts are not counted here but added to the sums at once. */
const countMax = 2 ** 52;

export class Posted {
  readonly #state: AccountState;
  readonly #holder: string;
  readonly #used = emptyCounts();
  readonly #settled = emptyCounts();
  #hasUsed = false;
  #hasSettled = false;

  /** `holder` is the run whose lease is settled. */
  constructor(state: AccountState, holder: string) {
    this.#state = state;
    this.#holder = holder;
  }

  use(amounts: MeterAmounts): void {
    this.#hasUsed = true;
    for (const meter of meters) {
      const amount = amounts[meter];
      if (amount !== undefined && amount !== 0) this.#add(this.#used, meter, amount);
    }
  }

  /** Takes off the lease what is `limited`. */
  settle(amounts: MeterAmounts, limited: readonly Meter[]): void {
    this.#hasSettled = true;
    for (const meter of limited) {
      const amount = amounts[meter];
      if (amount !== undefined && amount !== 0) this.#add(this.#settled, meter, amount);
    }
  }

  /** Brings the sums up to date. Throws if more was settled than was leased, a bug. */
  bringIn(): void {
    if (this.#hasSettled) {
      this.#hasSettled = false;
      settleLease(this.#state, this.#holder, this.#settled);
      clear(this.#settled);
    }
    if (this.#hasUsed) {
      this.#hasUsed = false;
      addAmounts(this.#state.used, this.#used);
      clear(this.#used);
    }
  }

  #add(counts: Counts, meter: Meter, amount: number): void {
    if (Math.abs(counts[meter] + amount) <= countMax) counts[meter] += amount;
    else if (counts === this.#used) addAmounts(this.#state.used, { [meter]: amount });
    else settleLease(this.#state, this.#holder, { [meter]: amount });
  }
}

function clear(counts: Counts): void {
  for (const meter of meters) counts[meter] = 0;
}
