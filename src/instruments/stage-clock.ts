// How long a request spent in each stage of its way. Invariant: at any moment a request is in one
// stage, so the stages add up to its duration; a change of stage costs one reading of the monotonic
// clock, and allocates nothing.
import { noteTurn, type Turn } from '../core/thread-turns.ts';

/**
 * In the order of a request's way. `store`: waiting for one; `stream`: bodies on the client's side.
 */
export const stages = [
  'parse',
  'authenticate',
  'decide',
  'reserve',
  'store',
  'firstByte',
  'stream',
  'commit',
] as const;
export type Stage = (typeof stages)[number];

/** `.007`: numbers of three digits are faster read here than written each time. */
const fractions = Array.from({ length: 1000 }, (_, i) => `.${String(i).padStart(3, '0')}`);

/** Where each stage stands in `stages`. */
const placeOf = Object.fromEntries(stages.map((stage, place) => [stage, place])) as Readonly<
  Record<Stage, number>
>;

export class StageClock {
  /** Milliseconds in each stage up to the last change of stage, in the order of `stages`. */
  readonly times = new Float64Array(stages.length);
  readonly startedMs: number;
  #stage: Stage = 'parse';
  #sinceMs: number;

  /** The request that the clock belongs to; null where no principal is known. */
  turn: Turn | null = null;

  /** Of the first byte of the answer, from the start; 0: none was sent. */
  firstByteMs = 0;

  constructor() {
    this.startedMs = performance.now();
    this.#sinceMs = this.startedMs;
  }

  /** From now on the request is in this stage; gives the one it was in. */
  enter(stage: Stage): Stage {
    const before = this.#stage;
    if (before === stage) return before;
    const now = performance.now();
    const place = placeOf[before];
    this.times[place] = (this.times[place] as number) + now - this.#sinceMs;
    this.#sinceMs = now;
    this.#stage = stage;
    noteTurn(this.turn, now);
    return before;
  }

  /**
   * Counts what is waited for to this stage, then goes back to the one before; null: nothing is.
   * Such waiting may be nested in time, but must not overlap.
   */
  during<T>(stage: Stage, waiting: Promise<T>): Promise<T>;
  during<T>(stage: Stage, waiting: Promise<T> | null): Promise<T> | null;
  during<T>(stage: Stage, waiting: Promise<T> | null): Promise<T> | null {
    return waiting && this.#wait(this.enter(stage), waiting);
  }

  async #wait<T>(before: Stage, waiting: Promise<T>): Promise<T> {
    try {
      return await waiting;
    } finally {
      this.enter(before);
    }
  }

  /** The first byte of the answer leaves now. */
  answer(): void {
    if (this.firstByteMs === 0) this.firstByteMs = performance.now() - this.startedMs;
  }

  /** Milliseconds in all; the clock has stopped in its last stage. */
  end(): number {
    const place = placeOf[this.#stage];
    const now = performance.now();
    this.times[place] = (this.times[place] as number) + now - this.#sinceMs;
    this.#sinceMs = now;
    noteTurn(this.turn, now);
    return now - this.startedMs;
  }

  /** The stages that took time until the last change of stage, as `Server-Timing` has them. */
  describe(): string {
    let text = '';
    for (let place = 0; place < stages.length; place++) {
      const micros = Math.round((this.times[place] as number) * 1000);
      if (micros === 0) continue;
      const ms = `${Math.floor(micros / 1000)}${fractions[micros % 1000]}`;
      text += `${text && ', '}${stages[place]};dur=${ms}`;
    }
    return text;
  }

  /** Milliseconds in a stage, up to the last change of stage. */
  msIn(stage: Stage): number {
    return this.times[placeOf[stage]] as number;
  }
}
