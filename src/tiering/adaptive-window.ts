// How many transfers one stream keeps under way: one more is tried, kept where throughput grows
// with it, taken back where it does not (DESIGN section 7, R20). Invariant: between its bounds; and
// only rounds in which the window was what held the stream back count, since a slow client's say
// nothing.
import { monotonicMs } from '../core/clock.ts';

/** One more must bring so much more throughput to be kept. */
const gainMin = 1.05;
/** Rounds without a trial after one that brought nothing. */
const restRounds = 8;

export interface AdaptiveWindowOptions {
  first: number;
  max: number;
  /** Milliseconds; tests bring their own. */
  clock?: () => number;
}

export class AdaptiveWindow {
  readonly #max: number;
  readonly #clock: () => number;
  #size: number;

  /** The round under way: what came through, and since when. */
  #bytes = 0;
  #transfers = 0;
  #sinceMs: number;
  #wasLimit = false;

  /** Bytes per millisecond before the trial under way. */
  #before = 0;
  #isTrial = false;
  #rest = 0;

  constructor({ first, max, clock = monotonicMs }: AdaptiveWindowOptions) {
    this.#size = first;
    this.#max = max;
    this.#clock = clock;
    this.#sinceMs = clock();
  }

  /** Transfers that may be under way. */
  get size(): number {
    return this.#size;
  }

  /** The stream could have gone on with another transfer, or waits for one under way. */
  limit(): void {
    this.#wasLimit = true;
  }

  /** A transfer has come through. A round is as many of them as the window has, twice. */
  passed(bytes: number): void {
    this.#bytes += bytes;
    if (++this.#transfers < 2 * this.#size) return;
    const nowMs = this.#clock();
    if (this.#wasLimit) this.#judge(this.#bytes / Math.max(nowMs - this.#sinceMs, 0.001));
    this.#bytes = 0;
    this.#transfers = 0;
    this.#sinceMs = nowMs;
    this.#wasLimit = false;
  }

  #judge(rate: number): void {
    if (this.#isTrial && rate < this.#before * gainMin) {
      this.#size--;
      this.#isTrial = false;
      this.#rest = restRounds;
    } else if (this.#rest > 0) {
      this.#rest--;
    } else {
      this.#isTrial = this.#size < this.#max;
      if (this.#isTrial) this.#size++;
      this.#before = rate;
    }
  }
}
