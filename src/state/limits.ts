// The limits of accounts, passed on to those that enforce them.
import type { Reader } from '../core/database.ts';
import type { Limits } from '../core/quota-terms.ts';
import type { LedgerEvent } from '../ledger/events.ts';
import { readLimited } from '../quota/leases/account-tables.ts';

export interface LimitKeeper {
  /** An account's limits from now on; null: it has none. */
  setLimits(account: string, limits: Limits | null): void;
}

export class AccountLimits {
  readonly #keepers: LimitKeeper[] = [];
  /** The limits as they were read, until something enforces them. */
  #read: Awaited<ReturnType<typeof readLimited>>;

  private constructor(limited: Awaited<ReturnType<typeof readLimited>>) {
    this.#read = limited;
  }

  static async load(read: Reader): Promise<AccountLimits> {
    return new AccountLimits(await readLimited(read));
  }

  /**
   * Tells the keepers of all limits, and from now on of each that is set. To be called once, at the
   * start.
   */
  begin(...keepers: LimitKeeper[]): void {
    this.#keepers.push(...keepers);
    for (const { account, limits } of this.#read) this.#set(account, limits);
    this.#read = [];
  }

  apply(event: LedgerEvent): void {
    if (event.kind === 'limits') this.#set(event.account, event.limits);
  }

  #set(account: string, limits: Limits | null): void {
    for (const keeper of this.#keepers) keeper.setLimits(account, limits);
  }
}
