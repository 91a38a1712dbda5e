// The durable half of limits: accounts as the ledger's transactions change them. It runs in the
// ledger's thread, the only writer, so what it has read stays true and is kept.
// Invariants: a request that is refused charges nothing and sets nothing aside; after one that
// throws, which is a bug, and after a rollback come `discard` and `postAgain`, before a commit
// `takeReached` and, where something `isUrgent`, `flush`, and after it `settle`; a post never
// exceeds its reservation.
//
// What was posted need not be in the transaction that records it: the rows of accounts are written
// once for many, and a run that finds records behind them (`recorded`) posts these again. All else
// that changes an account is written at once.
import { expiredTokenKeptMs } from '../../core/limits.ts';
import { type Limits, type Meter, meters } from '../../core/quota-terms.ts';
import type { Draw, MeterAmounts, TokenFacts } from '../amounts.ts';
import type { Reached } from '../limits/alarms.ts';
import { type LimitSet, limitSetOf, tightest } from '../limits/limit-set.ts';
import {
  type AccountStorage,
  checkCovered,
  type Entry,
  entryOf,
  noteLeases,
  type OpenHeld,
  unlessUnsealed,
} from './account-entry.ts';
import {
  type AccountState,
  beginWindows,
  couldFit,
  findShortage,
  forgetLost,
  grantLease,
  isWindowOver,
  listHeadroom,
  markedWindows,
  newAccountState,
  useUpLeases,
  writeOffLease,
} from './account-state.ts';
import { nextAlarms, tellRefused, watchCaps } from './alarm-watch.ts';
import { HolderNames } from './holder-names.ts';
import type {
  AccountDraw,
  DrawAnswer,
  DrawRequest,
  GiveBackRequest,
  Held,
  HeldAccount,
  LimitedToken,
  Settlement,
  Shortage,
  TighterLimits,
} from './requests.ts';

/** What an operation held and used. */
interface Posting {
  settlement: Settlement;
  used: readonly Draw[];
  timeMs: number;
}

/** An account, by itself or with what is said of it. */
type Named = string | { readonly account: string };

const nameOf = (one: Named) => (typeof one === 'string' ? one : one.account);

/** How many accounts are kept, at about 3 KiB each. */
const keptMax = 10_000;
/** After so many postings accounts are written: each is a record that a start has to read. */
const unwrittenMax = 64;

export class AccountBook {
  /**
   * How far the times that it is given, those of records, are ahead of the clock, milliseconds.
   * Records keep the time of the newest until that is past; windows go by the clock.
   */
  aheadMs = 0;
  readonly #storage: AccountStorage;
  readonly #holders: HolderNames;
  readonly #kept = new Map<string, Entry>();
  readonly #changed = new Set<Entry>();
  /** A cache of lists that many requests of a batch share. */
  readonly #entriesOf = new Map<readonly Named[], readonly Entry[]>();
  #reached: Reached[] = [];
  /** Since accounts were written. */
  #unwritten: Posting[] = [];
  /** Of which so many are committed, as they were at the last commit. */
  #recorded = { postings: this.#unwritten, count: 0 };
  #isUrgent = false;

  /** `run` names this run of the gateway: leases of other runs belong to runs that have ended. */
  constructor(storage: AccountStorage, run: string) {
    this.#storage = storage;
    this.#holders = new HolderNames(run);
  }

  /** Whether something was posted that is not in the rows of accounts. */
  get hasUnwritten(): boolean {
    return this.#unwritten.length > 0;
  }

  /** Whether the transaction must not be committed without what changed of accounts. */
  get isUrgent(): boolean {
    return this.#isUrgent || this.#unwritten.length >= unwrittenMax;
  }

  /** Sets amounts aside in the lease of a holder of this run. */
  async draw({ holder, draws }: DrawRequest, timeMs: number): Promise<DrawAnswer> {
    await this.#load(draws);
    const name = this.#holders.nameOf(holder);
    const entries: Entry[] = [];
    for (const draw of draws) {
      const { account, need, token } = draw;
      const entry = this.#open(account, timeMs);
      if (entries.includes(entry)) throw new Error(`${account} is drawn on twice at once`);
      const tighter = token && this.#meetLimits(entry, token, name);
      if (tighter) return { ok: false, tighter };
      const shortage = findShortage(entry.state, account, need);
      if (shortage) {
        const heldByOthers = this.#mayRecall(entry.state, draw, name);
        if (!heldByOthers) this.#tellRefused(entry, shortage);
        return { ok: false, shortage, heldByOthers };
      }
      entries.push(entry);
    }
    const granted = draws.map(({ need, want }, i) => {
      const entry = entries[i] as Entry;
      this.#changeNow(entry, name);
      return grantLease(entry.state, name, need, want);
    });
    const headroom = entries.map(({ state }) => listHeadroom(state));
    return { ok: true, granted, headroom };
  }

  /**
   * Charges what an operation used and settles what it had reserved, which comes off the lease
   * whole. An account may be used more than once. Throws when more was used of what was reserved
   * than was reserved. What needs no reservation (storage that goes on, what had no limit when it
   * began) is charged whatever the limits say. null: it is done; the accounts are kept.
   */
  post(settlement: Settlement, used: readonly Draw[], timeMs: number): Promise<void> | null {
    if (this.#keepsAll(settlement.held) && this.#keepsAll(used)) {
      this.#postNew({ settlement, used, timeMs });
      return null;
    }
    return this.#postLoaded({ settlement, used, timeMs });
  }

  /**
   * Posts what a record of an earlier run says was charged that is not in the rows of accounts. It
   * comes off the leases of that run, of which the rest is written off. An account whose row is not
   * authentic is left as it is.
   */
  async postRecorded(used: readonly Draw[], timeMs: number): Promise<void> {
    for (const { accounts, amounts } of used) {
      for (const account of accounts) {
        const entry = await this.#loadOne(account, timeMs).catch(unlessUnsealed);
        if (!entry) continue;
        entry.posted.use(amounts);
        for (const name of useUpLeases(entry.state, amounts)) entry.holders.add(name);
        this.#changeNow(entry);
      }
    }
  }

  /** Takes off the lease of a holder what it does not need. */
  async giveBack({ holder, returns }: GiveBackRequest, timeMs: number): Promise<void> {
    await this.#load(returns);
    for (const { account, amounts } of returns) {
      this.#settle(this.#openBehind(account, timeMs), holder, amounts, meters);
    }
    this.#isUrgent = true;
  }

  /** Takes what an operation held off the lease, without charging anything. */
  async void({ holder, held }: Settlement, timeMs: number): Promise<void> {
    for (const { accounts } of held) await this.#load(accounts);
    for (const group of held) this.#settleHeld(this.#openHeld(group, timeMs), holder);
    this.#isUrgent = true;
  }

  /**
   * Returns the first of these accounts that has less left than is drawn, whatever is reserved.
   * Undefined means that all have enough.
   */
  async findShortage(draws: readonly Draw[], timeMs: number): Promise<Shortage | undefined> {
    for (const { accounts, amounts } of draws) {
      for (const account of accounts) {
        const entry = await this.#loadOne(account, timeMs);
        const shortage = findShortage(entry.state, account, amounts);
        if (!shortage) continue;
        this.#tellRefused(entry, shortage);
        return shortage;
      }
    }
    return undefined;
  }

  /** Replaces an account's limits; null: it has none. They hold for what is drawn from now on. */
  async setLimits(account: string, limits: Limits | null, timeMs: number): Promise<void> {
    const entry = await this.#loadOne(account, timeMs);
    entry.state.limits = limits && limitSetOf(limits);
    entry.nextAlarms = null;
    this.#changeNow(entry);
  }

  /**
   * Writes off the leases of earlier runs in at most `max` accounts, and returns the number of
   * these accounts. It must be called until it returns 0, before anything is served. The leases of
   * an account whose rows are not authentic stay set aside.
   */
  async writeOffLeases(max: number, timeMs: number): Promise<number> {
    const accounts = await this.#storage.leasedByOthers(this.#holders.run, max);
    let writtenOff = 0;
    for (const account of accounts) {
      const entry = await this.#loadOne(account, timeMs).catch(unlessUnsealed);
      if (!entry) continue;
      const others = [...entry.state.leases.keys()].filter((name) => !this.#holders.has(name));
      // Rows that somebody else wrote may name leases that do not exist.
      if (others.length > 0) writtenOff += 1;
      for (const name of others) {
        writeOffLease(entry.state, name);
        entry.nextAlarms = null;
        this.#changeNow(entry, name);
      }
    }
    return writtenOff;
  }

  /** Counts what crashes lost of an account as unspent. */
  async forgetLost(account: string, timeMs: number): Promise<void> {
    const entry = await this.#loadOne(account, timeMs);
    forgetLost(entry.state);
    for (const window of markedWindows) entry.windows.add(window);
    this.#changeNow(entry);
  }

  /** Forgets up to `max` tokens' accounts some time after they ended; gives how many. */
  async purgeTokens(max: number, timeMs: number): Promise<number> {
    const expired = await this.#storage.expiredTokens(timeMs - expiredTokenKeptMs, max);
    for (const account of expired) {
      await this.#storage.remove(account);
      const entry = this.#kept.get(account);
      if (entry) this.#changed.delete(entry);
      this.#kept.delete(account);
    }
    this.#entriesOf.clear();
    return expired.length;
  }

  /** An account as it is now. Not to be changed. */
  async read(account: string, timeMs: number): Promise<Readonly<AccountState>> {
    return (await this.#loadOne(account, timeMs)).state;
  }

  /** The caps that accounts reached since this was last called. Each is given once. */
  takeReached(): Reached[] {
    for (const entry of this.#changed) this.#watch(entry);
    const reached = this.#reached;
    if (reached.length > 0) {
      this.#reached = [];
      this.#isUrgent = true;
    }
    return reached;
  }

  /** Writes all that changed, into the transaction that is about to be committed. */
  async flush(): Promise<void> {
    this.#unwritten = [];
    this.#isUrgent = false;
    for (const entry of this.#changed) {
      const { account, state } = entry;
      entry.posted.bringIn();
      noteLeases(entry);
      await this.#storage.write(account, state, entry);
      entry.isStored = true;
      entry.isChanged = false;
      entry.windows.clear();
      entry.holders.clear();
    }
    this.#changed.clear();
    this.#entriesOf.clear();
    for (const account of this.#kept.keys()) {
      if (this.#kept.size <= keptMax) break;
      this.#kept.delete(account);
    }
  }

  /** To be called after each commit. */
  settle(): void {
    this.#recorded = { postings: this.#unwritten, count: this.#unwritten.length };
  }

  /** Forgets what was not committed. `postAgain` brings back what was, and was not written. */
  discard(): void {
    this.#changed.clear();
    this.#reached = [];
    this.#isUrgent = false;
    this.#unwritten = this.#recorded.postings;
    this.#unwritten.length = this.#recorded.count;
    // After a transaction failed, nobody knows what changed of the accounts that were flushed into
    // it.
    this.#kept.clear();
    this.#entriesOf.clear();
  }

  /**
   * Posts again what was committed and is in no row yet; an account whose row is not authentic is
   * left out.
   */
  async postAgain(): Promise<void> {
    for (const posting of this.#unwritten) {
      await this.#loadFor(posting).then(() => this.#postKept(posting), unlessUnsealed);
    }
  }

  async #postLoaded(posting: Posting): Promise<void> {
    await this.#loadFor(posting);
    this.#postNew(posting);
  }

  async #loadFor({ settlement, used }: Posting): Promise<void> {
    for (const { accounts } of settlement.held) await this.#load(accounts);
    for (const { accounts } of used) await this.#load(accounts);
  }

  #postNew(posting: Posting): void {
    this.#postKept(posting);
    this.#unwritten.push(posting);
  }

  #postKept({ settlement, used, timeMs }: Posting): void {
    const { holder, held, isMixed } = settlement;
    const groups = held.map((group) => this.#openHeld(group, timeMs));
    const payers = used.map((draw) => ({ draw, entries: this.#openAll(draw.accounts, timeMs) }));
    if (!isMixed) checkCovered(groups, payers);
    for (const group of groups) this.#settleHeld(group, holder);
    for (const { draw, entries } of payers) {
      const { amounts, token } = draw;
      for (const entry of entries) {
        if (token) this.#meetToken(entry, token, null);
        entry.posted.use(amounts);
        this.#change(entry);
      }
    }
  }

  #openHeld({ accounts, amounts }: Held, timeMs: number): OpenHeld {
    return { accounts, entries: this.#openAll(accounts, timeMs), amounts };
  }

  #settleHeld({ accounts, entries, amounts }: OpenHeld, holder: number): void {
    for (let i = 0; i < entries.length; i++) {
      const { limited } = accounts[i] as HeldAccount;
      this.#settle(entries[i] as Entry, holder, amounts, limited);
    }
  }

  /** As `#openBehind`. */
  #openAll(accounts: readonly Named[], timeMs: number): readonly Entry[] {
    const entries = this.#entriesIn(accounts);
    for (const entry of entries) this.#beginWindows(entry, timeMs);
    return entries;
  }

  #settle(entry: Entry, holder: number, amounts: MeterAmounts, limited: readonly Meter[]): void {
    entry.posted.settle(holder, amounts, limited);
    this.#change(entry, this.#holders.nameOf(holder));
  }

  /**
   * Whether what is drawn would be there if the other holders of this run had nothing free: they
   * are asked for it before anybody is refused.
   */
  #mayRecall(state: AccountState, { need, isRecalled }: AccountDraw, name: string): boolean {
    if (isRecalled) return false;
    const others = this.#othersOf(state, name);
    return others.length > 0 && couldFit(state, need, others);
  }

  /** The other holders of this run that have a lease of an account. */
  #othersOf({ leases }: AccountState, name: string): string[] {
    return [...leases.keys()].filter((one) => one !== name && this.#holders.has(one));
  }

  #entriesIn(accounts: readonly Named[]): readonly Entry[] {
    const known = this.#entriesOf.get(accounts);
    if (known) return known;
    const entries = accounts.map((account) => this.#entryOf(nameOf(account)));
    this.#entriesOf.set(accounts, entries);
    return entries;
  }

  #keepsAll(lists: readonly { accounts: readonly Named[] }[]): boolean {
    for (const { accounts } of lists) {
      if (!this.#entriesOf.has(accounts) && !this.#keeps(accounts)) return false;
    }
    return true;
  }

  #keeps(accounts: readonly Named[]): boolean {
    for (const account of accounts) if (!this.#kept.has(nameOf(account))) return false;
    return true;
  }

  async #load(accounts: readonly Named[]): Promise<void> {
    for (const account of accounts.map(nameOf)) {
      if (this.#kept.has(account)) continue;
      const stored = await this.#storage.read(account);
      const [isStored, holders] = [stored !== undefined, this.#holders];
      const kept = entryOf(account, stored ?? newAccountState(), { isStored, holders });
      this.#kept.set(account, kept);
    }
  }

  async #loadOne(account: string, timeMs: number): Promise<Entry> {
    await this.#load([account]);
    return this.#open(account, timeMs);
  }

  /** An account in memory, with its windows brought to the present. */
  #open(account: string, timeMs: number): Entry {
    const entry = this.#openBehind(account, timeMs);
    entry.posted.bringIn();
    return entry;
  }

  /** The same for posting to it: what was posted before need not be in its state yet. */
  #openBehind(account: string, timeMs: number): Entry {
    const entry = this.#entryOf(account);
    this.#beginWindows(entry, timeMs);
    return entry;
  }

  #entryOf(account: string): Entry {
    const entry = this.#kept.get(account);
    if (!entry) throw new Error(`${account} was not loaded`);
    return entry;
  }

  #beginWindows(entry: Entry, recordMs: number): void {
    const timeMs = recordMs - this.aheadMs;
    if (!isWindowOver(entry.state, timeMs)) return;
    entry.posted.bringIn();
    // A percentage that was reached in a window must be reported for that window, before the next
    // one begins.
    if (entry.isChanged) this.#watch(entry);
    for (const window of beginWindows(entry.state, timeMs)) entry.windows.add(window);
    entry.nextAlarms = null;
  }

  /**
   * Gives the account's limits where they are tighter than the token's link says, or became so by
   * it while others lease of the account: either way who draws, or the others, hold too little.
   */
  #meetLimits(entry: Entry, token: LimitedToken, holder: string): TighterLimits | undefined {
    const { account, state } = entry;
    const before = state.limits;
    this.#meetToken(entry, token, token.limits);
    const { limits } = state.limits as LimitSet;
    const isTighter = tightest(token.limits, limits) !== token.limits;
    const isTightened = before !== null && before !== state.limits;
    const isNew = isTightened && this.#othersOf(state, holder).length > 0;
    return isTighter || isNew ? { account, limits, isNew } : undefined;
  }

  /** A token's limits are those of all links with its id that the ledger met, together. */
  #meetToken(entry: Entry, token: TokenFacts, limits: Limits | null): void {
    const { state } = entry;
    const known = state.limits?.limits;
    const all = limits && known ? tightest(known, limits) : limits;
    if (all && all !== known) {
      state.limits = limitSetOf(all);
      entry.nextAlarms = null;
      this.#changeNow(entry);
    }
    if (state.token && state.token.expiresAtMs >= token.expiresAtMs) return;
    const { tenant, principal, expiresAtMs } = token;
    state.token = { tenant, principal, expiresAtMs };
    this.#changeNow(entry);
  }

  #watch(entry: Entry): void {
    const { account, state } = entry;
    if (!state.limits || (entry.nextAlarms && entry.posted.isBelow(entry.nextAlarms))) return;
    entry.posted.bringIn();
    this.#reached.push(...watchCaps(account, state));
    entry.nextAlarms = nextAlarms(state);
  }

  #tellRefused(entry: Entry, shortage: Shortage): void {
    const reached = tellRefused(entry.account, entry.state, shortage);
    if (!reached) return;
    this.#reached.push(reached);
    this.#changeNow(entry);
  }

  /** What no posting says. */
  #changeNow(entry: Entry, holder?: string): void {
    this.#isUrgent = true;
    this.#change(entry, holder);
  }

  #change(entry: Entry, holder?: string): void {
    if (holder !== undefined) entry.holders.add(holder);
    // A row says of which token an account is, and when its windows began.
    if (!entry.isStored || entry.windows.size > 0) this.#isUrgent = true;
    if (entry.isChanged) return;
    entry.isChanged = true;
    this.#changed.add(entry);
  }
}
