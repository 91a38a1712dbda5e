// When a read is asked a second time: when it is slower than 95% of the store's reads of its size
// class lately, which the store's meter knows, and seldom. Invariant: second requests are at most a
// fixed share of the reads.
// Source: "The Tail at Scale", Dean and Barroso, 2013.
import type { HedgeCause, StoreMeter } from '../store-meter.ts';

/** Larger reads are slow because they are large. */
const readBytesMax = 1024 * 1024;
const defaultHedgeShare = 0.05;
/** The most second requests that may be saved up. */
const savedMax = 10;
/** Quicker than this a second request gains nothing. */
const delayMsMin = 5;

export class HedgeBudget {
  readonly #meter: StoreMeter;
  readonly #share: number;
  #saved = 0;

  /** `share` of the reads may be asked a second time; 0: none. */
  constructor(meter: StoreMeter, share = defaultHedgeShare) {
    this.#meter = meter;
    this.#share = share;
  }

  /** How long to wait for a read until it is asked again; undefined: it is not. Counts the read. */
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

  /** A second request is sent, while the first one waits for this. */
  take(cause: HedgeCause): void {
    this.#saved--;
    this.#meter.hedged(cause);
  }
}
