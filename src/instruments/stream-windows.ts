// How the streams from or to one store went: how much came through in which time, and how many
// transfers under way they settled at, by which the next one begins. Invariant: a transfer costs
// two additions; what was settled is the median of the latest streams, so that one odd one moves
// nothing.
import { bytesPerSecondBounds, Histogram } from './histogram.ts';

/** Streams that are remembered. */
const streamsMax = 15;
/** Transfers under way. */
const windowBounds = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16] as const;

export class StreamWindows {
  /** Windows that streams settled at. */
  readonly settled = new Histogram(windowBounds);
  /** Bytes a second, of rounds. */
  readonly rates = new Histogram(bytesPerSecondBounds);
  /** Median of the latest; null: no stream has settled. */
  current: number | null = null;
  readonly #clock: () => number;
  readonly #latest = new Uint8Array(streamsMax);
  #count = 0;

  constructor(clock: () => number) {
    this.#clock = clock;
  }

  open(): MeasuredStream {
    return new MeasuredStream(this, this.#clock);
  }

  settle(window: number): void {
    this.settled.record(window);
    this.#latest[this.#count++ % streamsMax] = window;
    const latest = this.#latest.slice(0, Math.min(this.#count, streamsMax)).sort();
    this.current = latest[latest.length >> 1] as number;
  }
}

/** The transfers of one stream, in rounds. */
export class MeasuredStream {
  /** What the streams before it settled at; null: none did. */
  readonly settledBefore: number | null;
  /** Of the round under way. */
  transfers = 0;
  #bytes = 0;
  #sinceMs: number;
  readonly #windows: StreamWindows;
  readonly #clock: () => number;

  constructor(windows: StreamWindows, clock: () => number) {
    this.#windows = windows;
    this.#clock = clock;
    this.settledBefore = windows.current;
    this.#sinceMs = clock();
  }

  passed(bytes: number): void {
    this.#bytes += bytes;
    this.transfers++;
  }

  /** Bytes a millisecond of the round that ends. */
  endRound(): number {
    const nowMs = this.#clock();
    const rate = this.#bytes / Math.max(nowMs - this.#sinceMs, 0.001);
    this.#windows.rates.record(rate * 1000);
    this.#bytes = 0;
    this.transfers = 0;
    this.#sinceMs = nowMs;
    return rate;
  }

  settle(window: number): void {
    this.#windows.settle(window);
  }
}
