// Limits the bytes per second of one account: what is more than that waits. Other threads have
// pipes of the same account, which take of the same rate. Invariants: waiting streams of a thread
// have equal shares, whatever the sizes of their pieces; a stream that leaves gives up its place;
// and however many wait, there is one timer, which fires at most every `restMsMin`.
import { timerMsMax } from '../core/clock.ts';
import type { RateBucket } from './rate-table.ts';

/** A stream's place in a pipe. It waits for one piece at a time. */
export interface Turn {
  /** The part of its piece that is not granted yet. */
  bytes: number;
  /** Called once all of it is. */
  go: () => void;
}

const restMsMin = 10;
const pieceBytesMin = 1024;
const pieceBytesMax = 256 * 1024;
/** At full rate so many pieces pass in a second, as far as the bounds allow. */
const piecesPerSecond = 16;

/** What is granted to a stream before it is the next one's turn. */
export function pieceBytesOf(bytesPerSecond: number): number {
  const bytes = bytesPerSecond / piecesPerSecond;
  return Math.floor(Math.min(Math.max(bytes, pieceBytesMin), pieceBytesMax));
}

export class BytePipe {
  #bucket: RateBucket | null;
  /** The streams in the order of their turns. */
  readonly #waiting = new Set<Turn>();
  #timer: NodeJS.Timeout | null = null;
  /** Streams that go through it. */
  streams = 0;

  constructor(bucket: RateBucket) {
    this.#bucket = bucket;
  }

  /** Sets the rate of all streams from now on. Null means as fast as they can. */
  setRate(bucket: RateBucket | null): void {
    this.#bucket = bucket;
    this.#serve();
  }

  get bytesPerSecond(): number {
    return this.#bucket?.perSecond ?? Number.POSITIVE_INFINITY;
  }

  get isAtRest(): boolean {
    return this.streams === 0 && (this.#bucket?.isFull() ?? true);
  }

  /** True: the turn's bytes may move now. False: it waits, and `go` will be called. */
  pass(turn: Turn): boolean {
    if (!this.#bucket) return true;
    if (this.#waiting.size === 0 && this.#bucket.takeAhead(turn.bytes)) return true;
    this.#waiting.add(turn);
    this.#sleep();
    return false;
  }

  /** Gives up a place; `go` is not called any more. */
  leave(turn: Turn): void {
    if (this.#waiting.delete(turn)) this.#sleep();
  }

  #serve(): void {
    const bucket = this.#bucket;
    for (const turn of this.#waiting) {
      const bytes = bucket ? Math.min(turn.bytes, pieceBytesOf(bucket.perSecond)) : turn.bytes;
      if (bucket && !bucket.takeAhead(bytes)) break;
      this.#waiting.delete(turn);
      turn.bytes -= bytes;
      // A turn that is added at the end is met again by this loop.
      if (turn.bytes > 0) this.#waiting.add(turn);
      else turn.go();
    }
    this.#sleep();
  }

  #sleep(): void {
    if (this.#timer && (this.#waiting.size === 0 || !this.#bucket)) {
      clearTimeout(this.#timer);
      this.#timer = null;
    }
    if (this.#timer || this.#waiting.size === 0 || !this.#bucket) return;
    const ms = Math.min(Math.max(Math.ceil(this.#bucket.waitMs(1)), restMsMin), timerMsMax);
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#serve();
    }, ms);
  }
}
