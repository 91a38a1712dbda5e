// How many transfers one stream keeps under way (docs/decisions/0012-s3-driver.md says why the
// number adapts). It begins with the number at which the latest streams settled. One less is tried,
// and kept while that costs no throughput; then one more, kept where that brings some. Invariants:
// the number stays between its bounds, and only rounds count in which the window was what held the
// stream back, since those of a slow client say nothing.
import type { StreamMeter } from './stores/store-meter.ts';

/** One more must bring so much more throughput to be kept, and one less may not cost so much. */
const gainMin = 1.05;
/** How many rounds pass without a trial after one that brought nothing. */
const restRounds = 8;

export interface AdaptiveWindowOptions {
  min: number;
  max: number;
  /** What measures the stream: how many bytes came through, and in what time. */
  stream: StreamMeter;
}

export class AdaptiveWindow {
  readonly #max: number;
  readonly #stream: StreamMeter;
  #size: number;
  /** Fewer transfers reduce this stream's throughput, or are not allowed. */
  #floor: number;

  #wasLimit = false;
  #isJudged = false;
  /** Bytes per millisecond before the trial under way. */
  #before = 0;
  /** By how many transfers the trial differs; 0: no trial is under way. */
  #trial: -1 | 0 | 1 = 0;
  #rest = 0;

  constructor({ min, max, stream }: AdaptiveWindowOptions) {
    this.#size = Math.max(min, Math.min(max, stream.settledBefore ?? min));
    this.#floor = min;
    this.#max = max;
    this.#stream = stream;
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
    const stream = this.#stream;
    stream.passed(bytes);
    if (stream.transfers < 2 * this.#size) return;
    const rate = stream.endRound();
    if (this.#wasLimit) this.#judge(rate);
    this.#wasLimit = false;
  }

  /** The stream has ended: later streams begin with the number that it had. */
  close(): void {
    if (this.#isJudged) this.#stream.settle(this.#size - this.#trial);
  }

  #judge(rate: number): void {
    this.#isJudged = true;
    const trial = this.#trial;
    const isLost = trial > 0 ? rate < this.#before * gainMin : rate * gainMin < this.#before;
    if (trial !== 0 && isLost) {
      this.#size -= trial;
      this.#floor = this.#size;
      this.#trial = 0;
      this.#rest = restRounds;
    } else if (this.#rest > 0) {
      this.#rest--;
    } else {
      if (trial > 0) this.#floor = this.#size;
      this.#try(rate);
    }
  }

  #try(rate: number): void {
    // While the number goes down, several small losses must not add up.
    this.#before = this.#trial < 0 ? Math.max(this.#before, rate) : rate;
    if (this.#size > this.#floor) this.#trial = -1;
    else this.#trial = this.#size < this.#max ? 1 : 0;
    this.#size += this.#trial;
  }
}
