// Decides when a second request is sent for a read: when the read is slower than 95% of the store's
// recent reads of its size class, as the store's meter says, and only seldom. Invariant: second
// requests are at most a fixed share of the reads. Source: "The Tail at Scale", Dean and Barroso,
// 2013.
import type { HedgeCause, StoreMeter } from '../store-meter.ts';

/** Reads that are larger are slow because of their size, and are not sent again. */
const readBytesMax = 1024 * 1024;
const defaultHedgeShare = 0.05;
/** The most second requests that may be saved up. */
const savedMax = 10;
/** A read that is faster than this gains nothing from a second request. */
const delayMsMin = 5;

export class HedgeBudget {
  readonly #meter: StoreMeter;
  readonly #share: number;
  #saved = 0;

  /** `share`: of how many reads a second request may be sent; 0: of none. */
  constructor(meter: StoreMeter, share = defaultHedgeShare) {
    this.#meter = meter;
    this.#share = share;
  }

  /**
   * Returns how long to wait for a read before a second request is sent; undefined: none is. Counts
   * the read.
   */
  delayMs(sizeBytes: number): number | undefined {
    if (sizeBytes > readBytesMax) return undefined;
    this.#saved = Math.min(savedMax, this.#saved + this.#share);
    const thresholdMs = this.#meter.slowMs(sizeBytes);
    if (thresholdMs === Number.POSITIVE_INFINITY) return undefined;
    return Math.max(delayMsMin, Math.ceil(thresholdMs));
  }

  /** Returns whether a second request may be sent. When it may not, that is counted. */
  mayTake(): boolean {
    if (this.#saved >= 1) return true;
    this.#meter.hedgeRefused('share');
    return false;
  }

  /** To be called when a second request is sent. `cause`: what the first one still waits for. */
  take(cause: HedgeCause): void {
    this.#saved--;
    this.#meter.hedged(cause);
  }
}
