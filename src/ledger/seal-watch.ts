// Has all that is sealed verified while the gateway serves: each time somebody else has written to the
// database, and every hour, since whoever writes past SQLite is not noticed. One at a time; what comes
// while one is under way has another follow it.
import { Worker } from 'node:worker_threads';
import type { Unsealed } from '../core/seals/row-seal.ts';
import type { SealCheck, SealCheckOptions } from './seal-check-worker.ts';

const eachMs = 3_600_000;

export interface SealWatchOptions {
  /** Read each time: epochs may have been added. */
  check: () => SealCheckOptions;
  /** Told of all that is not authentic now. */
  onChecked: (unsealed: Unsealed[]) => void;
  onError: (error: unknown) => void;
}

export class SealWatch {
  readonly #options: SealWatchOptions;
  readonly #timer: NodeJS.Timeout;
  #worker: Worker | null = null;
  #isWanted = false;
  #isClosed = false;

  constructor(options: SealWatchOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.begin(), eachMs).unref();
  }

  begin(): void {
    if (this.#isClosed) return;
    this.#isWanted = true;
    if (this.#worker) return;
    this.#isWanted = false;
    const workerData = this.#options.check();
    const worker = new Worker(new URL('./seal-check-worker.js', import.meta.url), { workerData });
    this.#worker = worker;
    worker.unref();
    worker.once('message', ({ unsealed }: SealCheck) => this.#options.onChecked(unsealed));
    worker.once('error', this.#options.onError);
    worker.once('exit', () => {
      this.#worker = null;
      if (this.#isWanted) this.begin();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    await this.#worker?.terminate();
  }
}
