// How near accounts are to their limits, for the instruments. Invariants: those that are told are
// bounded, and so is what one look costs, however many accounts have limits: all are looked at in
// turns, those that are being drawn on in shorter ones, and those that were near each time; and no
// tenant hides others behind many limits of its own. Tokens' limits are not among them.
import { setImmediate as turn } from 'node:timers/promises';
import { monotonicMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import type { Meter, Window } from '../core/quota-terms.ts';
import { parseAccount } from './accounts.ts';
import { beginWindows, lostIn, usedIn } from './leases/account-state.ts';
import { readAccountState } from './leases/account-tables.ts';
import type { LeaseHolder } from './leases/lease-holder.ts';

export interface BudgetShare {
  account: string;
  meter: Meter;
  window: Window;
  /**
   * The share of the limit that counts as used: 1 is all of it, and it is more where the limit was
   * lowered.
   */
  ratio: number;
}

export interface BudgetSharesOptions {
  read: Reader;
  leaseHolder: Pick<LeaseHolder, 'leased' | 'limited'>;
  /** For how long a result is reused, milliseconds. Default 5000. */
  goodMs?: number;
}

/**
 * At most so many shares are reported: the largest, by turns of the tenants where there are more.
 */
export const sharesMax = 200;
const leasedMax = 200;
const walkedMax = 400;
/** Accounts that are read before others have their turn: a millisecond or two. */
const sliceAccounts = 10;
const parts = 1_000_000n;

export class BudgetShares {
  readonly #options: BudgetSharesOptions;
  readonly #leased = new Turns();
  readonly #limited = new Turns();
  #shares: readonly BudgetShare[] = [];
  #looked = Number.NEGATIVE_INFINITY;
  #looking: Promise<void> | null = null;

  constructor(options: BudgetSharesOptions) {
    this.#options = options;
  }

  /** Gives the largest shares first, at most a few seconds old. */
  async list(): Promise<readonly BudgetShare[]> {
    const { goodMs = 5000 } = this.#options;
    if (monotonicMs() - this.#looked >= goodMs) {
      this.#looking ??= this.#look().finally(() => {
        this.#looking = null;
      });
      await this.#looking;
    }
    return this.#shares;
  }

  async #look(): Promise<void> {
    const accounts = this.#choose();
    const shares: BudgetShare[] = [];
    let slice = 0;
    for (const account of accounts) {
      await this.#read(account, shares);
      if (++slice % sliceAccounts === 0) await turn();
    }
    this.#shares = nearest(shares);
    this.#looked = monotonicMs();
  }

  #choose(): Set<string> {
    const { leased, limited } = this.#options.leaseHolder;
    const chosen = new Set(this.#shares.map(({ account }) => account));
    for (const account of this.#leased.take(leased, leasedMax)) {
      if (limited.has(account)) chosen.add(account);
    }
    for (const account of this.#limited.take(limited, walkedMax)) chosen.add(account);
    return chosen;
  }

  async #read(account: string, shares: BudgetShare[]): Promise<void> {
    const state = await readAccountState(this.#options.read, account);
    if (!state?.limits) return;
    beginWindows(state, Date.now());
    for (const { meter, window, amount } of state.limits.caps) {
      const used = usedIn(state, meter, window) + lostIn(state, meter, window);
      shares.push({ account, meter, window, ratio: ratioOf(used, amount) });
    }
  }
}

/** A limit of nothing counts as fully used. */
function ratioOf(used: bigint, amount: bigint): number {
  return amount === 0n ? 1 : Number((used * parts) / amount) / Number(parts);
}

/** Sorts them by size; each tenant's largest comes before the second of any other. */
function nearest(shares: BudgetShare[]): BudgetShare[] {
  const largestFirst = (one: BudgetShare, other: BudgetShare): number => other.ratio - one.ratio;
  shares.sort(largestFirst);
  if (shares.length <= sharesMax) return shares;
  const counts = new Map<string, number>();
  const ranked = shares.map((share) => {
    const account = parseAccount(share.account);
    const tenant = account && account.kind !== 'token' ? account.tenant : '';
    const rank = counts.get(tenant) ?? 0;
    counts.set(tenant, rank + 1);
    return { share, rank };
  });
  ranked.sort((one, other) => one.rank - other.rank);
  const chosen = ranked.slice(0, sharesMax).map(({ share }) => share);
  return chosen.sort(largestFirst);
}

/**
 * Goes through the keys of a map a few at a time, so that each has its turn. Keys that come or go
 * in the meantime may be missed.
 */
class Turns {
  #keys: Iterator<string> | null = null;

  *take(map: ReadonlyMap<string, unknown>, max: number): Generator<string> {
    for (let left = Math.min(max, map.size); left > 0; left--) {
      let next = this.#keys?.next();
      if (!next || next.done) {
        this.#keys = map.keys();
        next = this.#keys.next();
      }
      if (!next.done) yield next.value;
    }
  }
}
