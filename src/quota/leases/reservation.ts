// What one operation has set aside. It is resolved exactly once, by a post or a void.
import { covers } from '../amounts.ts';
import type { AccountLease } from './account-lease.ts';
import type { LeaseHolder } from './lease-holder.ts';
import type { Held, HeldAccount, Settlement } from './requests.ts';

/** What is set aside in each of some accounts. */
export interface Hold extends Held {
  /** Of its accounts. */
  readonly leases: readonly AccountLease[];
}

export class Reservation {
  /** For `LeaseHolder` only. */
  readonly holds: Hold[];
  /** Whether limits changed between the steps of the reservation. */
  isMixed = false;
  /** The version of the lease holder's limits when the reservation began. */
  readonly edition: number;
  readonly #leaseHolder: LeaseHolder;
  #state: 'open' | 'posted' | 'void' = 'open';

  constructor(leaseHolder: LeaseHolder, holds: Hold[], edition: number) {
    this.#leaseHolder = leaseHolder;
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
    this.#leaseHolder.resolve(this, true);
    const { holder } = this.#leaseHolder;
    return settlementOf(holder, this.holds, this.isMixed);
  }

  /** After a post whose commit left no record, and so charged nothing: makes it all free again. */
  unpost(): void {
    if (this.#state !== 'posted') throw new Error('what was not posted cannot be taken back');
    this.#state = 'void';
    this.#leaseHolder.free(this.holds);
  }

  get isOpen(): boolean {
    return this.#state === 'open';
  }

  /** Ends it unused; harmless after `post`. */
  void(): void {
    if (this.#state !== 'open') return;
    this.#state = 'void';
    this.#leaseHolder.resolve(this, false);
  }
}

/** By the accounts of the first hold: what was held last in these. */
const latest = new WeakMap<readonly HeldAccount[], Settlement>();

/** Requests that held the same share one settlement: it crosses threads once for all of them. */
function settlementOf(holder: number, holds: readonly Hold[], isMixed: boolean): Settlement {
  const [first] = holds;
  const known = first && latest.get(first.accounts);
  if (known?.holder === holder && known.isMixed === isMixed && isAlike(known.held, holds)) {
    return known;
  }
  const held = holds.map(({ accounts, amounts }) => ({ accounts, amounts }));
  const settlement = { holder, held, isMixed };
  if (first) latest.set(first.accounts, settlement);
  return settlement;
}

function isAlike(one: readonly Held[], other: readonly Held[]): boolean {
  if (one.length !== other.length) return false;
  for (let i = 0; i < one.length; i++) {
    const { accounts, amounts } = one[i] as Held;
    const { accounts: others, amounts: more } = other[i] as Held;
    if (accounts !== others) return false;
    if (amounts !== more && !(covers(amounts, more) && covers(more, amounts))) return false;
  }
  return true;
}
