// The circuit breaker of a store: after some failures in a row all requests are refused at once,
// and one trial request, repeated after growing pauses, finds out when the server is back. Where
// several threads ask the same server, they share its words: it is open for all of them or for
// none, and one of them makes the trials. Invariant: while it is not closed, at most one request is
// under way that began after it opened: the trial.
import { Refusal } from '../../core/errors.ts';
import type { AttemptFailure } from './attempt-failure.ts';

const states = ['closed', 'open', 'half-open'] as const;
export type BreakerState = (typeof states)[number];

/** What its words are: which of `states`, the failures in a row, and two that are 1 or 0. */
const stateAt = 0;
const failuresAt = 1;
/** Has anything succeeded since it was closed? */
const succeededAt = 2;
/** Did the server ask for fewer requests with the last failure? */
const slowDownAt = 3;
export const breakerWords = 4;

const [closed, open, halfOpen] = [0, 1, 2];

export interface BreakerOptions {
  /** The number of failures in a row that opens it. */
  failuresMax: number;
  /** The pause before the first trial; each failed one doubles it. */
  pauseMsMin: number;
  pauseMsMax: number;
  /** `breakerWords` that the threads share. Default: its own. */
  words?: Int32Array | undefined;
  /**
   * Asks the server for something small. Rejects when the server does not answer properly. Null:
   * another thread does so, and calls `follow` when `onChange` has said here that it is open.
   */
  trial: (() => Promise<void>) | null;
  onChange: (state: BreakerState, failure?: AttemptFailure) => void;
}

export class Breaker {
  readonly #options: BreakerOptions;
  readonly #words: Int32Array;
  #last: AttemptFailure | undefined;
  #pauseMs: number;
  #timer: NodeJS.Timeout | null = null;
  #hasEnded = false;

  constructor(options: BreakerOptions) {
    this.#options = options;
    this.#words = options.words ?? new Int32Array(breakerWords);
    this.#pauseMs = options.pauseMsMin;
    // An earlier one of the same store has left them as they were.
    if (options.trial) this.#words.fill(0);
  }

  get state(): BreakerState {
    if (this.#hasEnded) return 'open';
    return states[Atomics.load(this.#words, stateAt)] as BreakerState;
  }

  /** Throws Refusal ServiceUnavailable or SlowDown while the breaker is not closed. */
  admit(): void {
    if (this.state !== 'closed') throw this.refusal();
  }

  /** Returns the refusal that callers get, which depends on the last failure. */
  refusal(): Refusal {
    const isSlowDown = Atomics.load(this.#words, slowDownAt) === 1;
    return new Refusal(isSlowDown ? 'SlowDown' : 'ServiceUnavailable', { cause: this.#last });
  }

  /** To be called when a request was answered properly. */
  succeed(): void {
    const words = this.#words;
    // Nearly always there is nothing to write to what all threads read.
    if (Atomics.load(words, failuresAt) !== 0) Atomics.store(words, failuresAt, 0);
    if (Atomics.load(words, succeededAt) === 0 && this.state === 'closed') {
      Atomics.store(words, succeededAt, 1);
    }
  }

  /** To be called when a request failed by the server's fault. */
  fail(failure: AttemptFailure): void {
    this.#note(failure);
    const failures = Atomics.add(this.#words, failuresAt, 1) + 1;
    if (failures >= this.#options.failuresMax) this.open(failure);
  }

  /** Refuses everything until a trial succeeds. */
  open(failure: AttemptFailure | undefined): void {
    if (this.#hasEnded) return;
    if (Atomics.compareExchange(this.#words, stateAt, closed, open) !== closed) return;
    this.follow(failure);
  }

  /** It was opened: by `open`, of this thread or of another one. */
  follow(failure: AttemptFailure | undefined): void {
    const { trial, onChange, pauseMsMin } = this.#options;
    this.#note(failure);
    onChange('open', failure);
    if (!trial) return;
    if (Atomics.exchange(this.#words, succeededAt, 0) === 1) this.#pauseMs = pauseMsMin;
    this.#pause(trial);
  }

  /** Refuses everything from now on, in this thread. */
  close(): void {
    this.#hasEnded = true;
    clearTimeout(this.#timer ?? undefined);
  }

  #note(failure: AttemptFailure | undefined): void {
    this.#last = failure;
    Atomics.store(this.#words, slowDownAt, failure?.slowDown ? 1 : 0);
  }

  #pause(trial: () => Promise<void>): void {
    if (this.#hasEnded) return;
    this.#timer = setTimeout(() => void this.#try(trial), this.#pauseMs).unref();
    this.#pauseMs = Math.min(this.#pauseMs * 2, this.#options.pauseMsMax);
  }

  async #try(trial: () => Promise<void>): Promise<void> {
    this.#change(halfOpen);
    try {
      await trial();
    } catch (error) {
      this.#note(error as AttemptFailure);
      this.#change(open);
      this.#pause(trial);
      return;
    }
    Atomics.store(this.#words, failuresAt, 0);
    this.#change(closed);
  }

  #change(state: number): void {
    if (this.#hasEnded) return;
    Atomics.store(this.#words, stateAt, state);
    this.#options.onChange(states[state] as BreakerState, this.#last);
  }
}

/**
 * Returns the refusal that a client gets when the store cannot serve it. The store's own details
 * stay in the cause.
 */
export function refusalOf(failure: AttemptFailure | undefined): Refusal {
  return new Refusal(failure?.slowDown ? 'SlowDown' : 'ServiceUnavailable', { cause: failure });
}
