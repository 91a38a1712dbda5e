// How long a request spent in each stage of its way. Invariant: at any moment a request is in one stage,
// so the stages add up to its duration; a change of stage costs one reading of the monotonic clock,
// and allocates nothing.
import { monotonicMs } from '../core/clock.ts';

/** In the order of a request's way. `store`: waiting for one; `stream`: bodies on the client's side. */
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

type Times = Record<Stage, number>;

export class StageClock {
  /** Milliseconds, with fractions. */
  readonly #times: Times = {
    parse: 0,
    authenticate: 0,
    decide: 0,
    reserve: 0,
    store: 0,
    firstByte: 0,
    stream: 0,
    commit: 0,
  };
  readonly startedMs: number;
  #stage: Stage = 'parse';
  #sinceMs: number;

  /** Of the first byte of the answer, from the start; 0: none was sent. */
  firstByteMs = 0;

  constructor() {
    this.startedMs = monotonicMs();
    this.#sinceMs = this.startedMs;
  }

  /** From now on the request is in this stage; gives the one it was in. */
  enter(stage: Stage): Stage {
    const before = this.#stage;
    if (before === stage) return before;
    const now = monotonicMs();
    this.#times[before] += now - this.#sinceMs;
    this.#sinceMs = now;
    this.#stage = stage;
    return before;
  }

  /** The first byte of the answer leaves now. */
  answer(): void {
    if (this.firstByteMs === 0) this.firstByteMs = monotonicMs() - this.startedMs;
  }

  /** Milliseconds in all; the clock has stopped in its last stage. */
  end(): number {
    const now = monotonicMs();
    this.#times[this.#stage] += now - this.#sinceMs;
    this.#sinceMs = now;
    return now - this.startedMs;
  }

  /** Milliseconds in a stage, up to the last change of stage. */
  msIn(stage: Stage): number {
    return this.#times[stage];
  }
}
