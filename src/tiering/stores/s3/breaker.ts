// The circuit breaker of a store: after some failures in a row all requests are refused at once,
// and one trial request, repeated after growing pauses, finds out when the server is back.
// Invariant: while it is not closed, at most one request is under way that began after it opened:
// the trial.
import { Refusal } from '../../../core/errors.ts';
import type { AttemptFailure } from './failure.ts';

export type BreakerState = 'closed' | 'open' | 'half-open';

export interface BreakerOptions {
  /** The number of failures in a row that opens it. */
  failuresMax: number;
  /** The pause before the first trial; each failed one doubles it. */
  pauseMsMin: number;
  pauseMsMax: number;
  /** Asks the server for something small. Rejects when the server does not answer properly. */
  trial: () => Promise<void>;
  onChange: (state: BreakerState, failure?: AttemptFailure) => void;
}

export class Breaker {
  readonly #options: BreakerOptions;
  #state: BreakerState = 'closed';
  #failures = 0;
  #last: AttemptFailure | undefined;
  #pauseMs: number;
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(options: BreakerOptions) {
    this.#options = options;
    this.#pauseMs = options.pauseMsMin;
  }

  get state(): BreakerState {
    return this.#state;
  }

  /** Throws Refusal ServiceUnavailable or SlowDown while the breaker is not closed. */
  admit(): void {
    if (this.#state !== 'closed') throw this.refusal();
  }

  /** Returns the refusal that callers get, which depends on the last failure. */
  refusal(): Refusal {
    return refusalOf(this.#last);
  }

  /** To be called when a request was answered properly. */
  succeed(): void {
    this.#failures = 0;
    if (this.#state === 'closed') this.#pauseMs = this.#options.pauseMsMin;
  }

  /** To be called when a request failed by the server's fault. */
  fail(failure: AttemptFailure): void {
    this.#last = failure;
    this.#failures++;
    if (this.#state === 'closed' && this.#failures >= this.#options.failuresMax) this.open(failure);
  }

  /** Refuses everything until a trial succeeds. */
  open(failure: AttemptFailure | undefined): void {
    if (this.#closed || this.#state === 'open') return;
    this.#last = failure;
    this.#change('open');
    this.#timer = setTimeout(() => void this.#try(), this.#pauseMs).unref();
    this.#pauseMs = Math.min(this.#pauseMs * 2, this.#options.pauseMsMax);
  }

  /** Refuses everything from now on. */
  close(): void {
    this.#closed = true;
    this.#state = 'open';
    clearTimeout(this.#timer ?? undefined);
  }

  async #try(): Promise<void> {
    this.#change('half-open');
    try {
      await this.#options.trial();
    } catch (error) {
      this.open(error as AttemptFailure);
      return;
    }
    this.#failures = 0;
    if (!this.#closed) this.#change('closed');
  }

  #change(state: BreakerState): void {
    this.#state = state;
    this.#options.onChange(state, this.#last);
  }
}

/**
 * Returns the refusal that a client gets when the store cannot serve it. The store's own details
 * stay in the cause.
 */
export function refusalOf(failure: AttemptFailure | undefined): Refusal {
  return new Refusal(failure?.slowDown ? 'SlowDown' : 'ServiceUnavailable', { cause: failure });
}
