// An account as the account book has it in memory, what is posted to it, and how it is stored.
import { UnsealedRow } from '../../core/seals/row-seal.ts';
import { covers, type Draw, isEmpty, type Sums } from '../amounts.ts';
import type { AccountState, MarkedWindow } from './account-state.ts';
import type { HolderNames } from './holder-names.ts';
import { Posted } from './posted.ts';
import type { Held } from './requests.ts';

/** The durable storage of accounts. All calls belong to the transaction under way. */
export interface AccountStorage {
  read(account: string): Promise<AccountState | undefined>;
  /** Writes an account, and of its windows those that changed. */
  write(account: string, state: AccountState, changes: AccountChanges): Promise<void>;
  /** Forgets an account. */
  remove(account: string): Promise<void>;
  /**
   * Up to `max` accounts of tokens that ended before a time, of which nothing is leased: when the
   * clock was set forward, something may be, and is yet to be settled.
   */
  expiredTokens(beforeMs: number, max: number): Promise<string[]>;
  /** Returns up to `max` accounts that have leases of holders of other runs. */
  leasedByOthers(run: string, max: number): Promise<string[]>;
}

export interface AccountChanges {
  windows: ReadonlySet<MarkedWindow>;
  /** The holders whose leases began or ended. */
  holders: ReadonlySet<string>;
}

export interface Entry {
  readonly account: string;
  readonly state: AccountState;
  /** It has a row. */
  isStored: boolean;
  isChanged: boolean;
  readonly windows: Set<MarkedWindow>;
  readonly holders: Set<string>;
  /** The holders that have a lease, as it was written last. */
  readonly leased: Set<string>;
  /** Amounts that are not yet in the state, which `#open` brings up to date. */
  readonly posted: Posted;
  /** While the counters are below these, no alarm is due; null: that was not computed yet. */
  nextAlarms: Sums | null;
}

/** What is held, with the entries of its accounts. */
export interface OpenHeld extends Held {
  readonly entries: readonly Entry[];
}

/** What is used, with the entries of its accounts. */
export interface OpenDraw {
  readonly draw: Draw;
  readonly entries: readonly Entry[];
}

/** An account that was just read; `isStored`: it has a row. */
export function entryOf(
  account: string,
  state: AccountState,
  { isStored, holders }: { isStored: boolean; holders: HolderNames },
): Entry {
  return {
    account,
    state,
    isStored,
    isChanged: false,
    windows: new Set(),
    holders: new Set(),
    leased: new Set(state.leases.keys()),
    posted: new Posted(state, holders),
    nextAlarms: null,
  };
}

/** Of its holders those whose lease began or ended since it was written last. */
export function noteLeases({ state: { leases }, holders, leased }: Entry): void {
  for (const holder of holders) {
    const lease = leases.get(holder);
    if (lease && isEmpty(lease)) leases.delete(holder);
    // The storage must know which accounts have a lease, and which have none any more.
    const isLeased = leases.has(holder);
    if (leased.has(holder) === isLeased) holders.delete(holder);
    else if (isLeased) leased.add(holder);
    else leased.delete(holder);
  }
}

/**
 * Throws if more was used than was held of what had to be reserved; an account may be in several of
 * both.
 */
export function checkCovered(held: readonly OpenHeld[], used: readonly OpenDraw[]): void {
  if (isPlainlyCovered(held, used)) return;
  for (const { accounts, entries } of held) {
    for (const [i, { account, limited }] of accounts.entries()) {
      const entry = entries[i] as Entry;
      for (const meter of limited) {
        let left = 0;
        for (const group of held) {
          for (const one of group.entries) if (one === entry) left += group.amounts[meter] ?? 0;
        }
        for (const { entries: payers, draw } of used) {
          const { amounts, isUnreserved } = draw;
          if (payers.includes(entry) && !isUnreserved) left -= amounts[meter] ?? 0;
        }
        if (left < 0) throw new Error(`a post exceeds its reservation of ${meter} in ${account}`);
      }
    }
  }
}

/** As nearly all is: each account is used at most once, and no more than one holding has of all. */
function isPlainlyCovered(held: readonly OpenHeld[], used: readonly OpenDraw[]): boolean {
  for (const { entries, amounts } of held) {
    for (const entry of entries) if (countDraws(used, entry) > 1) return false;
    for (const { entries: payers, draw } of used) {
      const isHeld = payers.some((payer) => entries.includes(payer));
      if (isHeld && !covers(amounts, draw.amounts)) return false;
    }
  }
  return true;
}

function countDraws(used: readonly OpenDraw[], entry: Entry): number {
  let count = 0;
  for (const { entries } of used) if (entries.includes(entry)) count += 1;
  return count;
}

/** For what goes on without an account whose row is not authentic. */
export function unlessUnsealed(error: unknown): null {
  if (error instanceof UnsealedRow) return null;
  throw error;
}
