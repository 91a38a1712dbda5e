// How fast accounts may go: requests per second, which refuse or have those wait that must not be
// refused, and bytes per second, which only slow a stream down. In memory alone, which the threads
// of a gateway share: after a restart all begin with one second's worth. Invariants: a request that
// is refused takes nothing of any account; of several accounts the slowest rules; and an account
// without rates costs a look into a map.
import type { Limits } from '../core/quota-terms.ts';
import { BytePipe, pieceBytesOf, type Turn } from './byte-pipe.ts';
import { tightest } from './limits/limit-set.ts';
import { makeRateTable, type RateBucket, RateTable } from './rate-table.ts';

interface Rate {
  limits: Limits;
  /** Its place in the table. */
  slot: number;
  requests: RateBucket | null;
  bytes: BytePipe | null;
  /** Whether the account is a token's, which is forgotten when it is at rest. */
  isIntroduced: boolean;
}

/** The account that allows no more requests for now. */
export interface TooFast {
  account: string;
  perSecond: number;
  /** How long until there is room for one, unless others come first; milliseconds. */
  waitMs: number;
}

/** A rate of requests, and how many may come at once now. */
export interface RequestRoom {
  account: string;
  perSecond: number;
  left: number;
}

/** A request is let in if there is room for it within this, milliseconds. */
const earlyMs = 0.9;

export class Rates {
  readonly #table: RateTable;
  readonly #rates = new Map<string, Rate>();

  /** Without a table of all threads there is one thread. */
  constructor(table: RateTable = new RateTable(makeRateTable())) {
    this.#table = table;
  }

  /** Whether no account has a rate. If so, rates need not be asked. */
  isEmpty = true;

  /** An account's limits: at the start, and whenever they changed. Streams under way follow. */
  setLimits(account: string, limits: Limits | null): void {
    const { requests, bytes } = limits?.rate ?? {};
    const known = this.#rates.get(account);
    if (!limits || (requests === undefined && bytes === undefined)) {
      this.#forget(account);
      return;
    }
    this.isEmpty = false;
    const table = this.#table;
    const slot = known?.slot ?? table.enter(account);
    const bucket = bytes === undefined ? null : table.bucket(slot, 'bytes', bytes);
    known?.bytes?.setRate(bucket);
    this.#rates.set(account, {
      limits,
      slot,
      requests: requests === undefined ? null : table.bucket(slot, 'requests', requests),
      bytes: bucket && (known?.bytes ?? new BytePipe(bucket)),
      isIntroduced: false,
    });
  }

  /** Tells of a token, whose limits are its link's, before each request with it. */
  introduce(account: string, limits: Limits): void {
    if (limits.rate === undefined) return;
    const known = this.#rates.get(account);
    if (known?.limits === limits) return;
    const all = known ? tightest(known.limits, limits) : limits;
    if (all === known?.limits) return;
    this.setLimits(account, all);
    const rate = this.#rates.get(account);
    // Limits that were set for the account stay, however tight its links are.
    if (rate) rate.isIntroduced = known?.isIntroduced ?? true;
  }

  /** To be called from time to time: forgets the tokens whose rates are fully recovered. */
  keep(): void {
    for (const [account, { slot, requests, bytes, isIntroduced }] of this.#rates) {
      this.#table.refresh(slot);
      if (!isIntroduced) continue;
      const isAtRest = (requests?.isFull() ?? true) && (bytes?.isAtRest ?? true);
      if (isAtRest) this.#forget(account);
    }
  }

  #forget(account: string): void {
    const known = this.#rates.get(account);
    if (!known) return;
    known.bytes?.setRate(null);
    this.#rates.delete(account);
    this.isEmpty = this.#rates.size === 0;
    this.#table.leave(known.slot);
  }

  /** Takes a request in all accounts or, if one of them allows none, in none; null: all do. */
  admit(accounts: readonly string[]): TooFast | null {
    for (;;) {
      const slowest = this.#slowest(accounts);
      if (slowest) return slowest;
      if (typeof this.#takeAll(accounts, earlyMs) === 'number') return null;
      // Another thread was faster.
    }
  }

  /**
   * Takes a request in all accounts, however little they have left, for one that is to wait for as
   * long as it gives, milliseconds. Where that were longer than `waitMsMax`, it takes nothing, and
   * gives who allows no more.
   */
  queue(accounts: readonly string[], waitMsMax: number): TooFast | number {
    return this.#takeAll(accounts, waitMsMax);
  }

  /** Gives how long the request is to wait for all, or the first for which that is too long. */
  #takeAll(accounts: readonly string[], waitMsMax: number): TooFast | number {
    let longestMs = 0;
    let now: number | undefined;
    for (let i = 0; i < accounts.length; i++) {
      const account = accounts[i] as string;
      const bucket = this.#rates.get(account)?.requests;
      if (!bucket) continue;
      now ??= this.#table.nowFor('requests');
      const waitMs = bucket.take(1, waitMsMax, now);
      if (waitMs === null) {
        for (let j = 0; j < i; j++) this.#rates.get(accounts[j] as string)?.requests?.untake();
        return { account, perSecond: bucket.perSecond, waitMs: bucket.waitMs(1, now) };
      }
      if (waitMs > longestMs) longestMs = waitMs;
    }
    return longestMs;
  }

  /** Of the accounts that allow no more requests now, the one that is to wait longest. */
  #slowest(accounts: readonly string[]): TooFast | null {
    let slowest: TooFast | null = null;
    let now: number | undefined;
    for (const account of accounts) {
      const bucket = this.#rates.get(account)?.requests;
      if (!bucket) continue;
      now ??= this.#table.nowFor('requests');
      const waitMs = bucket.waitMs(1, now);
      if (waitMs <= earlyMs || waitMs <= (slowest?.waitMs ?? 0)) continue;
      slowest = { account, perSecond: bucket.perSecond, waitMs };
    }
    return slowest;
  }

  /**
   * Returns the account whose rate of requests has the least room now. Null means that none has a
   * rate.
   */
  tightest(accounts: readonly string[]): RequestRoom | null {
    const now = this.#table.nowFor('requests');
    let found: RequestRoom | null = null;
    for (const account of accounts) {
      const bucket = this.#rates.get(account)?.requests;
      if (!bucket) continue;
      const { perSecond } = bucket;
      const left = bucket.level(now);
      if (!found || left < found.left) found = { account, perSecond, left };
    }
    return found;
  }

  /** What a request's bytes have to go through, in both directions; null: nothing slows them. */
  openStream(accounts: readonly string[]): ShapedStream | null {
    let pipes: BytePipe[] | null = null;
    for (const account of accounts) {
      const pipe = this.#rates.get(account)?.bytes;
      if (!pipe) continue;
      pipes ??= [];
      pipes.push(pipe);
    }
    return pipes && new ShapedStream(pipes);
  }
}

/** One request's way through the pipes of its accounts, one after the other. */
export class ShapedStream {
  readonly #pipes: readonly BytePipe[];
  /** Where it waits, and as who. */
  #place: { pipe: BytePipe; turn: Turn } | null = null;
  #isOpen = true;

  constructor(pipes: readonly BytePipe[]) {
    this.#pipes = pipes;
    for (const pipe of pipes) pipe.streams += 1;
  }

  /** The rate of the slowest of its accounts; Infinity: none has a rate any more. */
  get bytesPerSecond(): number {
    let least = Number.POSITIVE_INFINITY;
    for (const pipe of this.#pipes) least = Math.min(least, pipe.bytesPerSecond);
    return least;
  }

  /** How many bytes should be sent at a time, so that a slow stream flows steadily. */
  get pieceBytes(): number {
    return pieceBytesOf(this.bytesPerSecond);
  }

  /** Waits until so many bytes may move; null: they may now. Not to be called while it waits. */
  pass(bytes: number): Promise<void> | null {
    return this.#passFrom(0, bytes);
  }

  /** Gives up the place of a wait that is no longer needed. */
  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    for (const pipe of this.#pipes) pipe.streams -= 1;
    const place = this.#place;
    place?.pipe.leave(place.turn);
    place?.turn.go();
  }

  #passFrom(from: number, bytes: number): Promise<void> | null {
    for (let i = from; i < this.#pipes.length && this.#isOpen; i++) {
      const waiting = this.#wait(this.#pipes[i] as BytePipe, bytes);
      if (waiting) return waiting.then(() => this.#passFrom(i + 1, bytes) ?? undefined);
    }
    return null;
  }

  #wait(pipe: BytePipe, bytes: number): Promise<void> | null {
    const turn: Turn = { bytes, go: () => {} };
    if (pipe.pass(turn)) return null;
    this.#place = { pipe, turn };
    return new Promise((resolve) => {
      turn.go = () => {
        this.#place = null;
        resolve();
      };
    });
  }
}
