// Adds up usage by day behind the log, in small batches between which requests go first. Invariant:
// one call reads a bounded part of the log, however far the sums are behind it.
import { runMax } from '../quota/roll-up/recent-use.ts';
import type { Ledger } from './ledger.ts';

export interface UsageRollUpOptions {
  ledger: Pick<Ledger, 'maintain'>;
  /** Pause between two looks at the log, milliseconds. */
  intervalMs: number;
  onError: (error: unknown) => void;
}

/** What one call catches up with at most: half a million records. */
const batchesMax = 2500;
/** What is caught up with while somebody waits for it. */
const awaitedBatchesMax = 100;

export class UsageRollUp {
  readonly #options: UsageRollUpOptions;
  #timer: NodeJS.Timeout | null = null;
  #running: Promise<unknown> = Promise.resolve();
  #stopped = false;

  constructor(options: UsageRollUpOptions) {
    this.#options = options;
  }

  /** Adds up now and then again after each interval, until `close`. */
  start(): void {
    this.#running = this.#advance(batchesMax)
      .catch(this.#options.onError)
      .then(() => {
        if (this.#stopped) return;
        this.#timer = setTimeout(() => this.start(), this.#options.intervalMs);
        this.#timer.unref();
      });
  }

  /** Adds up what was recorded until now, or a large part of it. Rejects when the disk is full. */
  async catchUp(): Promise<void> {
    await this.#advance(awaitedBatchesMax);
  }

  /** Resolves when nothing is under way. */
  async close(): Promise<void> {
    this.#stopped = true;
    if (this.#timer) clearTimeout(this.#timer);
    await this.#running;
  }

  async #advance(max: number): Promise<void> {
    const { ledger } = this.#options;
    for (let i = 0; i < max && !this.#stopped; i++) {
      const added = await ledger.maintain({ kind: 'sumUsage', max: runMax });
      if (added < runMax) return;
    }
  }
}
