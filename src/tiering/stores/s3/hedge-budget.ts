// When a read is asked a second time: when it is slower than 95% of the store's reads of its size
// class lately, and seldom. Invariant: second requests are at most a fixed share of the reads.
// Source: "The Tail at Scale", Dean and Barroso, 2013.
import { LatencyWindow } from './latency-window.ts';

/** Larger reads are slow because they are large. */
const readBytesMax = 1024 * 1024;
const defaultHedgeShare = 0.05;
/** What may be saved up. */
const savedMax = 10;
/** Quicker than this a second request gains nothing. */
const delayMsMin = 5;

export class HedgeBudget {
  sent = 0;
  won = 0;
  lost = 0;
  readonly #share: number;
  readonly #latencies = new LatencyWindow();
  #saved = 0;

  /** `share` of the reads may be asked a second time; 0: none. */
  constructor(share = defaultHedgeShare) {
    this.#share = share;
  }

  /** How long to wait for a read until it is asked again; undefined: it is not. Counts the read. */
  delayMs(sizeBytes: number): number | undefined {
    if (sizeBytes > readBytesMax) return undefined;
    this.#saved = Math.min(savedMax, this.#saved + this.#share);
    const thresholdMs = this.#latencies.thresholdMs(sizeBytes);
    if (thresholdMs === Number.POSITIVE_INFINITY) return undefined;
    return Math.max(delayMsMin, Math.ceil(thresholdMs));
  }

  mayTake(): boolean {
    return this.#saved >= 1;
  }

  /** A second request is sent. */
  take(): void {
    this.#saved--;
    this.sent++;
  }

  /** What a read took, from its first request to its answer. */
  record(sizeBytes: number, latencyMs: number): void {
    if (sizeBytes <= readBytesMax) this.#latencies.add(sizeBytes, latencyMs);
  }
}
