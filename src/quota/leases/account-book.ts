// The durable half of limits: accounts as the ledger's transactions change them. It runs in the
// ledger's thread, the only writer, so what it has read stays true and is kept.
// Invariants: a request that is refused changes nothing; after one that throws, which is a bug, and
// after a rollback comes `discard`, before a commit `flush`; a post never exceeds its reservation.
import { type Limits, type Meter, meters } from '../../core/quota-terms.ts';
import { addAmounts, type Draw, isEmpty } from '../amounts.ts';
import { limitSetOf } from '../limits/limit-set.ts';
import {
  type AccountState,
  beginWindows,
  buryLease,
  findShortage,
  forgetLost,
  grantLease,
  type MarkedWindow,
  markedWindows,
  newAccountState,
  settleLease,
} from './account-state.ts';
import type { DrawAnswer, DrawRequest, Settlement } from './requests.ts';

/** Where accounts are durable; all of it in the transaction under way. */
export interface AccountStorage {
  read(account: string): Promise<AccountState | undefined>;
  /** Writes an account, and of its windows and leases those that changed. A lease may be gone. */
  write(account: string, state: AccountState, changes: AccountChanges): Promise<void>;
  /** Up to `max` accounts that have leases of other holders. */
  leasedByOthers(holder: string, max: number): Promise<string[]>;
}

export interface AccountChanges {
  windows: ReadonlySet<MarkedWindow>;
  holders: ReadonlySet<string>;
}

interface Entry {
  readonly account: string;
  readonly state: AccountState;
  isChanged: boolean;
  readonly windows: Set<MarkedWindow>;
  readonly holders: Set<string>;
}

/** Accounts kept, at about 3 KiB each. */
const keptMax = 10_000;

export class AccountBook {
  readonly #storage: AccountStorage;
  readonly #holder: string;
  readonly #kept = new Map<string, Entry>();
  readonly #changed = new Set<Entry>();

  /** `holder` names this run of the gateway: leases of other runs are dead. */
  constructor(storage: AccountStorage, holder: string) {
    this.#storage = storage;
    this.#holder = holder;
  }

  /** Sets amounts aside in the lease of this run. */
  async draw({ draws }: DrawRequest, timeMs: number): Promise<DrawAnswer> {
    const entries: Entry[] = [];
    for (const draw of draws) {
      const entry = await this.#open(draw.account, timeMs);
      if (entries.includes(entry)) throw new Error(`${draw.account} is drawn on twice at once`);
      if (draw.limits && entry.state.limits === null) {
        entry.state.limits = limitSetOf(draw.limits);
        this.#change(entry);
      }
      const shortage = findShortage(entry.state, draw.account, draw.need);
      if (shortage) return { ok: false, shortage };
      entries.push(entry);
    }
    const granted = draws.map(({ need, want }, i) => {
      const entry = entries[i] as Entry;
      this.#change(entry, this.#holder);
      return grantLease(entry.state, this.#holder, need, want);
    });
    return { ok: true, granted };
  }

  /**
   * Charges what an operation used and settles what it had reserved, which comes off the lease
   * whole. Accounts may come more than once. Throws when more was used of what was reserved than
   * was reserved. What needs no reservation (storage that goes on, what had no limit when it began)
   * is charged whatever the limits say.
   */
  async post(settlement: Settlement, used: readonly Draw[], timeMs: number): Promise<void> {
    const { held, isMixed } = settlement;
    if (!isMixed) checkCovered(held, used);
    await this.giveBack(held, timeMs);
    for (const { account, amounts } of used) {
      const entry = await this.#open(account, timeMs);
      addAmounts(entry.state.used, amounts);
      this.#change(entry);
    }
  }

  /** Takes off this run's lease what it does not need. */
  async giveBack(draws: readonly Draw[], timeMs: number): Promise<void> {
    for (const { account, amounts } of draws) {
      const entry = await this.#open(account, timeMs);
      settleLease(entry.state, this.#holder, amounts);
      this.#change(entry, this.#holder);
    }
  }

  /** Replaces an account's limits; null: it has none. They hold for what is drawn from now on. */
  async setLimits(account: string, limits: Limits | null, timeMs: number): Promise<void> {
    const entry = await this.#open(account, timeMs);
    entry.state.limits = limits && limitSetOf(limits);
    this.#change(entry);
  }

  /**
   * Ends leases of other runs, in up to `max` accounts; gives in how many. To be called until it
   * gives 0, before anything is served.
   */
  async buryLeases(max: number, timeMs: number): Promise<number> {
    const accounts = await this.#storage.leasedByOthers(this.#holder, max);
    for (const account of accounts) {
      const entry = await this.#open(account, timeMs);
      for (const holder of [...entry.state.leases.keys()]) {
        if (holder === this.#holder) continue;
        buryLease(entry.state, holder);
        this.#change(entry, holder);
      }
    }
    return accounts.length;
  }

  /** Counts as unspent what crashes lost of an account. */
  async forgetLost(account: string, timeMs: number): Promise<void> {
    const entry = await this.#open(account, timeMs);
    forgetLost(entry.state);
    for (const window of markedWindows) entry.windows.add(window);
    this.#change(entry);
  }

  /** An account as it is now. Not to be changed. */
  async read(account: string, timeMs: number): Promise<Readonly<AccountState>> {
    return (await this.#open(account, timeMs)).state;
  }

  /** Writes what changed, into the transaction that is about to be committed. */
  async flush(): Promise<void> {
    for (const entry of this.#changed) {
      const { account, state } = entry;
      for (const holder of entry.holders) {
        const lease = state.leases.get(holder);
        if (lease && isEmpty(lease)) state.leases.delete(holder);
      }
      await this.#storage.write(account, state, entry);
      entry.isChanged = false;
      entry.windows.clear();
      entry.holders.clear();
    }
    this.#changed.clear();
    for (const account of this.#kept.keys()) {
      if (this.#kept.size <= keptMax) break;
      this.#kept.delete(account);
    }
  }

  /** Forgets what was not committed. */
  discard(): void {
    this.#changed.clear();
    // Of what was flushed into the transaction that failed nobody knows what changed.
    this.#kept.clear();
  }

  async #open(account: string, timeMs: number): Promise<Entry> {
    let entry = this.#kept.get(account);
    if (!entry) {
      const state = (await this.#storage.read(account)) ?? newAccountState();
      entry = { account, state, isChanged: false, windows: new Set(), holders: new Set() };
      this.#kept.set(account, entry);
    }
    for (const window of beginWindows(entry.state, timeMs)) entry.windows.add(window);
    return entry;
  }

  #change(entry: Entry, holder?: string): void {
    if (holder !== undefined) entry.holders.add(holder);
    if (entry.isChanged) return;
    entry.isChanged = true;
    this.#changed.add(entry);
  }
}

/** Per account, since that may come more than once on both sides. */
function checkCovered(held: readonly Draw[], used: readonly Draw[]): void {
  const left = new Map<string, { [M in Meter]?: number }>();
  for (const { account, amounts } of held) {
    const sums = left.get(account) ?? {};
    left.set(account, sums);
    for (const meter of meters) {
      const amount = amounts[meter];
      if (amount !== undefined) sums[meter] = (sums[meter] ?? 0) + amount;
    }
  }
  for (const { account, amounts } of left.size === 0 ? [] : used) {
    const sums = left.get(account) ?? {};
    for (const meter of meters) {
      const covered = sums[meter];
      if (covered === undefined) continue;
      const rest = covered - (amounts[meter] ?? 0);
      if (rest < 0) throw new Error(`a post exceeds its reservation of ${meter} in ${account}`);
      sums[meter] = rest;
    }
  }
}
