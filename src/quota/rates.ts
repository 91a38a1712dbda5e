// How fast accounts may go: requests per second, which refuse or have those wait that must not be
// refused, and bytes per second, which only slow a stream down. In memory alone: after a restart
// all begin with one second's worth. Invariants: a request that is refused takes nothing of any
// account; of several accounts the slowest rules; and an account without rates costs a look into a
// map.
import type { Limits } from '../core/quota-terms.ts';
import { BytePipe, pieceBytesOf, type Turn } from './byte-pipe.ts';
import { tightest } from './limits/limit-set.ts';
import { TokenBucket } from './token-bucket.ts';

interface Rate {
  limits: Limits;
  requests: TokenBucket | null;
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

export class Rates {
  readonly #rates = new Map<string, Rate>();

  /** Whether no account has a rate. If so, rates need not be asked. */
  isEmpty = true;

  /** An account's limits: at the start, and whenever they changed. Streams under way follow. */
  setLimits(account: string, limits: Limits | null): void {
    const { requests, bytes } = limits?.rate ?? {};
    const known = this.#rates.get(account)?.bytes;
    known?.setRate(bytes ?? null);
    if (!limits || (requests === undefined && bytes === undefined)) {
      this.#forget(account);
      return;
    }
    this.isEmpty = false;
    this.#rates.set(account, {
      limits,
      requests: requests === undefined ? null : new TokenBucket(requests),
      bytes: bytes === undefined ? null : (known ?? new BytePipe(bytes)),
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
    for (const [account, { requests, bytes, isIntroduced }] of this.#rates) {
      if (!isIntroduced) continue;
      const isAtRest = (requests?.isFull ?? true) && (bytes?.isAtRest ?? true);
      if (isAtRest) this.#forget(account);
    }
  }

  #forget(account: string): void {
    this.#rates.delete(account);
    this.isEmpty = this.#rates.size === 0;
  }

  /** Takes a request in all accounts or, if one of them allows none, in none; null: all do. */
  admit(accounts: readonly string[]): TooFast | null {
    let slowest: TooFast | null = null;
    for (const account of accounts) {
      const bucket = this.#rates.get(account)?.requests;
      const waitMs = bucket?.waitMs(1) ?? 0;
      if (!bucket || waitMs < 1 || waitMs <= (slowest?.waitMs ?? 0)) continue;
      slowest = { account, perSecond: bucket.perSecond, waitMs };
    }
    if (slowest) return slowest;
    for (const account of accounts) this.#rates.get(account)?.requests?.take(1);
    return null;
  }

  /**
   * Takes a request in all accounts, however little they have left, for one that is to wait for as
   * long as it gives, milliseconds. Where that were longer than `waitMsMax`, it takes nothing, and
   * gives who allows no more.
   */
  queue(accounts: readonly string[], waitMsMax: number): TooFast | number {
    let longestMs = 0;
    for (const account of accounts) {
      const bucket = this.#rates.get(account)?.requests;
      const waitMs = bucket?.waitMs(1) ?? 0;
      if (bucket && waitMs > waitMsMax) return { account, perSecond: bucket.perSecond, waitMs };
      longestMs = Math.max(longestMs, waitMs);
    }
    for (const account of accounts) this.#rates.get(account)?.requests?.take(1);
    return longestMs;
  }

  /**
   * Returns the account whose rate of requests has the least room now. Null means that none has a
   * rate.
   */
  tightest(accounts: readonly string[]): RequestRoom | null {
    let found: RequestRoom | null = null;
    for (const account of accounts) {
      const bucket = this.#rates.get(account)?.requests;
      if (!bucket) continue;
      const { perSecond, level: left } = bucket;
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
