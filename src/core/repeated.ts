// Work that is done beside the requests, now and then again after a pause, until it is stopped.
// Invariant: one run at a time, and none is under way or begins once `stop` has resolved.

export interface RepeatedOptions {
  /** It should end early once the signal is aborted. */
  work: (stopping: AbortSignal) => Promise<unknown>;
  /** How long after the end of a run the next one begins, milliseconds. */
  pauseMs: () => number;
  /** What a run failed with. The next one begins as if it had not. */
  onError: (error: unknown) => void;
}

export class Repeated {
  readonly #options: RepeatedOptions;
  readonly #stopping = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();

  constructor(options: RepeatedOptions) {
    this.#options = options;
  }

  start(): void {
    const { work, pauseMs, onError } = this.#options;
    const { signal } = this.#stopping;
    this.#running = work(signal)
      .catch(onError)
      .then(() => {
        if (!signal.aborted) this.#timer = setTimeout(() => this.start(), pauseMs()).unref();
      });
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    clearTimeout(this.#timer);
    await this.#running;
  }
}

/** Calls `work`, which says how much it did, until that is less than `full`. */
export async function untilLess(
  full: number,
  work: () => Promise<number>,
  stopping?: AbortSignal,
): Promise<void> {
  while (!stopping?.aborted && (await work()) >= full);
}
