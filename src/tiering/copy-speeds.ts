// Which of several stores gives what is asked of it soonest, by what its answers took lately: for
// classes that any copy answers for. Invariants: a store of which nothing is known, or nothing new,
// is asked by one reader, and by the others when that one was answered; one that has failed comes
// last for a while; and second requests are a bounded share of all.
import { monotonicMs } from '../core/clock.ts';

/** A small object as a whole, or the first chunk of a longer read. */
export type ReadSize = 'small' | 'chunk';

/** What is older than this is asked for anew, by one read. */
const freshMs = 60_000;
/** A store that has failed is not asked first for so long. */
const failedMs = 5000;
/** Of two whose times differ by less than this factor neither counts as faster. */
const equalFactor = 1.2;
/** When nothing is known of a store, and the bounds of what follows from what is. */
const patienceMs = { unknown: 1000, min: 10, max: 5000 };
const secondShare = 0.05;
const savedMax = 10;

/** As RFC 6298 estimates round trips: a smoothed mean, and how far from it they are. */
interface Estimate {
  meanMs: number;
  deviationMs: number;
  /** When the store was last asked, and when it answered. */
  askedMs: number;
  answeredMs: number;
}

export class CopySpeeds {
  readonly #estimates = new Map<string, Estimate>();
  readonly #failedMs = new Map<number, number>();
  readonly #clock: () => number;
  #saved = 1;

  constructor(clock: () => number = monotonicMs) {
    this.#clock = clock;
  }

  /** In the order in which they are to be asked; where nothing tells them apart, as given. */
  order(stores: readonly number[], size: ReadSize): number[] {
    const nowMs = this.#clock();
    this.#saved = Math.min(savedMax, this.#saved + secondShare);
    const ranked = stores.map((store) => ({ store, rank: this.#rank(store, size, nowMs) }));
    // Within the factor they keep their order, so it is the fastest that the others compare to.
    const fastest = Math.min(...ranked.map(({ rank }) => rank));
    for (const one of ranked) {
      if (Number.isFinite(one.rank) && one.rank <= fastest * equalFactor) one.rank = fastest;
    }
    ranked.sort((a, b) => (a.rank === b.rank ? 0 : a.rank - b.rank));
    const order = ranked.map(({ store }) => store);
    const first = order[0];
    const known = first === undefined ? undefined : this.#estimates.get(keyOf(first, size));
    if (known) known.askedMs = nowMs;
    else if (first !== undefined) this.#begin(first, size, nowMs);
    return order;
  }

  /** A store has answered after so many milliseconds. */
  answered(store: number, size: ReadSize, durationMs: number): void {
    const nowMs = this.#clock();
    this.#failedMs.delete(store);
    const known = this.#estimates.get(keyOf(store, size)) ?? this.#begin(store, size, nowMs);
    if (Number.isNaN(known.meanMs) || nowMs - known.answeredMs > freshMs) {
      known.meanMs = durationMs;
      known.deviationMs = durationMs / 2;
    } else {
      known.deviationMs += (Math.abs(durationMs - known.meanMs) - known.deviationMs) / 4;
      known.meanMs += (durationMs - known.meanMs) / 8;
    }
    known.answeredMs = nowMs;
  }

  failed(store: number): void {
    this.#failedMs.set(store, this.#clock());
  }

  /** How long to wait for a store before another is asked as well. Milliseconds. */
  patienceMs(store: number, size: ReadSize): number {
    const known = this.#estimates.get(keyOf(store, size));
    if (!known || Number.isNaN(known.meanMs)) return patienceMs.unknown;
    const waitMs = known.meanMs + 4 * known.deviationMs;
    return Math.min(patienceMs.max, Math.max(patienceMs.min, waitMs));
  }

  /** Whether a second request may be sent; it is counted then. */
  takeSecond(): boolean {
    if (this.#saved < 1) return false;
    this.#saved--;
    return true;
  }

  /** The lower, the sooner it is asked. */
  #rank(store: number, size: ReadSize, nowMs: number): number {
    const failedMsAgo = nowMs - (this.#failedMs.get(store) ?? Number.NEGATIVE_INFINITY);
    if (failedMsAgo < failedMs) return Number.POSITIVE_INFINITY;
    const known = this.#estimates.get(keyOf(store, size));
    if (!known) return 0;
    const isFresh = nowMs - known.answeredMs <= freshMs;
    // Somebody asks it already: the others wait for what that one learns, a while.
    const isAsked = nowMs - known.askedMs <= freshMs;
    if (isFresh || (isAsked && !Number.isNaN(known.meanMs))) return known.meanMs;
    return isAsked ? Number.MAX_VALUE : 0;
  }

  #begin(store: number, size: ReadSize, nowMs: number): Estimate {
    const estimate = {
      ...{ meanMs: Number.NaN, deviationMs: 0 },
      ...{ askedMs: nowMs, answeredMs: Number.NEGATIVE_INFINITY },
    };
    this.#estimates.set(keyOf(store, size), estimate);
    return estimate;
  }
}

function keyOf(store: number, size: ReadSize): string {
  return `${store}/${size}`;
}
