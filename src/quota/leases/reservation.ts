// What one operation has set aside. It is resolved exactly once, by a post or a void.
import type { Meter } from '../../core/quota-terms.ts';
import type { MeterAmounts } from '../amounts.ts';
import type { AccountLease } from './account-lease.ts';
import type { LeaseDesk } from './lease-desk.ts';
import type { Settlement } from './requests.ts';

/** Set aside in one account, of the meters that were limited then. */
export interface Hold {
  readonly lease: AccountLease;
  readonly limited: readonly Meter[];
  readonly amounts: MeterAmounts;
}

export class Reservation {
  /** Of the desk only. */
  readonly holds: Hold[];
  /** Did limits change between its steps? */
  isMixed = false;
  /** Of the desk's limits, when it began. */
  readonly edition: number;
  readonly #desk: LeaseDesk;
  #state: 'open' | 'posted' | 'void' = 'open';

  constructor(desk: LeaseDesk, holds: Hold[], edition: number) {
    this.#desk = desk;
    this.holds = holds;
    this.edition = edition;
  }

  /**
   * Ends it with what was used, which travels with the result of this in the operation's commit:
   * `AccountBook.post` settles the one and charges the other. Calling it twice is a bug.
   */
  post(): Settlement {
    if (this.#state !== 'open') throw new Error('a reservation was resolved twice');
    this.#state = 'posted';
    this.#desk.resolve(this, true);
    return { held: sumHolds(this.holds), isMixed: this.isMixed };
  }

  /** After a post whose commit left no record, and so charged nothing: makes it all free again. */
  unpost(): void {
    if (this.#state !== 'posted') throw new Error('what was not posted cannot be taken back');
    this.#state = 'void';
    this.#desk.free(this.holds);
  }

  /** Ends it unused; harmless after `post`. */
  void(): void {
    if (this.#state !== 'open') return;
    this.#state = 'void';
    this.#desk.resolve(this, false);
  }
}

/**
 * By account. Accounts that hold the same share one object, which crosses threads as one: most do,
 * since what an operation asks of one it asks of the others.
 */
function sumHolds(holds: readonly Hold[]): Held[] {
  const all: Held[] = [];
  const sums: { before: MeterAmounts | undefined; hold: Hold; amounts: MeterAmounts }[] = [];
  for (const hold of holds) {
    const { account } = hold.lease;
    const held = all.find((one) => one.account === account);
    const before = held?.amounts;
    let sum = sums.find((one) => one.before === before && isAlike(one.hold, hold));
    if (!sum) {
      sum = { before, hold, amounts: addHold(before, hold) };
      sums.push(sum);
    }
    if (held) held.amounts = sum.amounts;
    else all.push({ account, amounts: sum.amounts });
  }
  return all;
}

interface Held {
  account: string;
  amounts: MeterAmounts;
}

function isAlike(one: Hold, other: Hold): boolean {
  return one.amounts === other.amounts && one.limited === other.limited;
}

/** Meters without a limit are not held; of one that has, nothing may be. */
function addHold(before: MeterAmounts | undefined, { limited, amounts }: Hold): MeterAmounts {
  const sum: { [M in Meter]?: number } = { ...before };
  for (const meter of limited) sum[meter] = (sum[meter] ?? 0) + (amounts[meter] ?? 0);
  return sum;
}
