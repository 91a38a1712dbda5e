// Has all that is sealed verified while the gateway serves: each time somebody else has written to
// the database, and every hour, since whoever writes past SQLite is not noticed. One at a time;
// what comes while one is under way has another follow it. One that fails is tried again every
// minute, and until one has come to its end, `failure` says why.
import { Worker } from 'node:worker_threads';
import type { Unsealed } from '../core/seals/row-seal.ts';
import type { SealCheck, SealCheckOptions } from './seal-check-worker.ts';

const eachMs = 3_600_000;
const retryMsDefault = 60_000;

export interface SealWatchOptions {
  /** Read each time: epochs may have been added. */
  check: () => SealCheckOptions;
  /** Told of all that is not authentic now. */
  onChecked: (unsealed: Unsealed[]) => void;
  onError: (error: unknown) => void;
  /** Before a verification that failed is tried again, milliseconds; a minute as a rule. */
  retryMs?: number;
}

export class SealWatch {
  readonly #options: SealWatchOptions;
  readonly #timer: NodeJS.Timeout;
  #worker: Worker | null = null;
  #isWanted = false;
  #isClosed = false;
  #retry: NodeJS.Timeout | undefined;
  /** Why the last verification has not come to its end; null: it has, or none was begun yet. */
  #failure: string | null = null;

  constructor(options: SealWatchOptions) {
    this.#options = options;
    this.#timer = setInterval(() => this.begin(), eachMs).unref();
  }

  get failure(): string | null {
    return this.#failure;
  }

  begin(): void {
    if (this.#isClosed) return;
    clearTimeout(this.#retry);
    this.#isWanted = true;
    if (this.#worker) return;
    this.#isWanted = false;
    const workerData = this.#options.check();
    const worker = new Worker(new URL('./seal-check-worker.js', import.meta.url), { workerData });
    this.#worker = worker;
    worker.unref();
    worker.once('message', ({ unsealed }: SealCheck) => {
      this.#failure = null;
      this.#options.onChecked(unsealed);
    });
    worker.once('error', (error) => this.#fail(error));
    worker.once('exit', () => {
      this.#worker = null;
      if (this.#isWanted) this.begin();
    });
  }

  #fail(error: unknown): void {
    // Said once for each reason: it may be so for days.
    const failure = String(error);
    if (failure !== this.#failure) this.#options.onError(error);
    this.#failure = failure;
    if (this.#isClosed) return;
    const retryMs = this.#options.retryMs ?? retryMsDefault;
    this.#retry = setTimeout(() => this.begin(), retryMs).unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    clearTimeout(this.#retry);
    await this.#worker?.terminate();
  }
}
