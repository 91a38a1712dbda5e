// Has reads that were folded recorded when their minute is over. Those of a minute in which the
// gateway stopped are recorded at its next start.
import type { Ledger } from './ledger.ts';

export interface FoldTimerOptions {
  ledger: Pick<Ledger, 'maintain'>;
  intervalMs: number;
  onError: (error: unknown) => void;
}

/** One transaction's worth, so that requests never wait long for it. */
const foldsMax = 200;

export class FoldTimer {
  readonly #options: FoldTimerOptions;
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<void> = Promise.resolve();
  #stopped = false;

  constructor(options: FoldTimerOptions) {
    this.#options = options;
  }

  /** Records what is due now, and then again and again, until `close`. */
  start(): void {
    this.#running = this.#record()
      .catch(this.#options.onError)
      .then(() => {
        if (this.#stopped) return;
        this.#timer = setTimeout(() => this.start(), this.#options.intervalMs).unref();
      });
  }

  /** Resolves when nothing is under way and nothing will begin. */
  async close(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#running;
  }

  async #record(): Promise<void> {
    for (let closed = foldsMax; closed === foldsMax && !this.#stopped; ) {
      closed = await this.#options.ledger.maintain({ kind: 'closeFolds', max: foldsMax });
    }
  }
}
