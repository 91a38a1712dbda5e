// Limits the bytes per second of one account: what is more than that waits. Invariants: waiting
// streams have equal shares, whatever the sizes of their pieces; a stream that leaves gives up its
// place; and however many wait, there is one timer, which fires at most every `restMsMin`.
import { timerMsMax } from '../core/clock.ts';
import { TokenBucket } from './token-bucket.ts';

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
  #bucket: TokenBucket | null;
  /** The streams in the order of their turns. */
  readonly #waiting = new Set<Turn>();
  #timer: NodeJS.Timeout | null = null;
  /** Streams that go through it. */
  streams = 0;

  constructor(bytesPerSecond: number) {
    this.#bucket = new TokenBucket(bytesPerSecond);
  }

  /** Sets the rate of all streams from now on. Null means as fast as they can. */
  setRate(bytesPerSecond: number | null): void {
    this.#bucket = bytesPerSecond === null ? null : new TokenBucket(bytesPerSecond);
    this.#serve();
  }

  get bytesPerSecond(): number {
    return this.#bucket?.perSecond ?? Number.POSITIVE_INFINITY;
  }

  get isAtRest(): boolean {
    return this.streams === 0 && (this.#bucket?.isFull ?? true);
  }

  /** True: the turn's bytes may move now. False: it waits, and `go` will be called. */
  pass(turn: Turn): boolean {
    if (!this.#bucket) return true;
    if (this.#waiting.size === 0 && this.#bucket.level > 0) {
      this.#bucket.take(turn.bytes);
      return true;
    }
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
      if (bucket && bucket.level <= 0) break;
      this.#waiting.delete(turn);
      const bytes = bucket ? Math.min(turn.bytes, pieceBytesOf(bucket.perSecond)) : turn.bytes;
      bucket?.take(bytes);
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
