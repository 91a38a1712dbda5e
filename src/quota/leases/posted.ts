// What was posted to one account and is not yet in its sums. Requests add numbers here; bigints,
// which cost many times as much, come once a batch. Invariant: each count is a safe integer.
import { type Meter, meters } from '../../core/quota-terms.ts';
import { addAmounts, type Counts, emptyCounts, type MeterAmounts, type Sums } from '../amounts.ts';
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
  /** What may be counted until the sums, as they are, come to what `isBelow` was asked about. */
  readonly #room = emptyCounts();
  /** That; null: the sums are others since. */
  #bound: Sums | null = null;

  constructor(state: AccountState, holders: HolderNames) {
    this.#state = state;
    this.#holders = holders;
  }

  use(amounts: MeterAmounts): void {
    this.#hasUsed = true;
    if (add(this.#used, amounts)) return;
    addAmounts(this.#state.used, amounts);
    this.#bound = null;
  }

  /** Whether all of the sums, brought up to date, would be less than these. */
  isBelow(bound: Sums): boolean {
    if (this.#bound !== bound) this.#measureRoom(bound);
    return isLess(this.#used, this.#room);
  }

  /** Takes off the lease of a holder what is `limited`. */
  settle(holder: number, amounts: MeterAmounts, limited: readonly Meter[]): void {
    this.#hasSettled = true;
    this.#settled[holder] ??= emptyCounts();
    const settled = this.#settled[holder];
    const taken = limited.length === meters.length ? amounts : amountsOf(limited, amounts);
    if (!add(settled, taken)) this.#settleNow(holder, taken);
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
      this.#bound = null;
    }
  }

  #measureRoom(bound: Sums): void {
    for (const meter of meters) {
      const room = Number(bound[meter] - this.#state.used[meter]);
      this.#room[meter] = room > countMax ? Number.POSITIVE_INFINITY : room;
    }
    this.#bound = bound;
  }

  #settleNow(holder: number, amounts: MeterAmounts): void {
    settleLease(this.#state, this.#holders.nameOf(holder), amounts);
  }
}

function amountsOf(of: readonly Meter[], amounts: MeterAmounts): MeterAmounts {
  const some: { [M in Meter]?: number } = {};
  for (const meter of of) some[meter] = amounts[meter] ?? 0;
  return some;
}

/**
 * False: it would be more than is counted here, and nothing was added. Member by member, since this
 * is of each account of each request.
 */
function add(counts: Counts, amounts: MeterAmounts): boolean {
  const spend = counts.spend + (amounts.spend ?? 0);
  const storedBytes = counts.storedBytes + (amounts.storedBytes ?? 0);
  const storedObjects = counts.storedObjects + (amounts.storedObjects ?? 0);
  const ingressBytes = counts.ingressBytes + (amounts.ingressBytes ?? 0);
  const egressBytes = counts.egressBytes + (amounts.egressBytes ?? 0);
  const requests = counts.requests + (amounts.requests ?? 0);
  const isCounted =
    Math.abs(spend) <= countMax &&
    Math.abs(storedBytes) <= countMax &&
    Math.abs(storedObjects) <= countMax &&
    Math.abs(ingressBytes) <= countMax &&
    Math.abs(egressBytes) <= countMax &&
    Math.abs(requests) <= countMax;
  if (!isCounted) return false;
  counts.spend = spend;
  counts.storedBytes = storedBytes;
  counts.storedObjects = storedObjects;
  counts.ingressBytes = ingressBytes;
  counts.egressBytes = egressBytes;
  counts.requests = requests;
  return true;
}

/** Member by member, as `add`. */
function isLess(counts: Counts, bounds: Counts): boolean {
  return (
    counts.spend < bounds.spend &&
    counts.storedBytes < bounds.storedBytes &&
    counts.storedObjects < bounds.storedObjects &&
    counts.ingressBytes < bounds.ingressBytes &&
    counts.egressBytes < bounds.egressBytes &&
    counts.requests < bounds.requests
  );
}

function clear(counts: Counts): void {
  for (const meter of meters) counts[meter] = 0;
}
