// How a thread that serves requests finds objects: asks the thread that reads the index, which is
// begun with the first query. Where that knows nothing the catalog is read key by key.
import { Worker } from 'node:worker_threads';
import type { Candidates, Wanted } from './candidates.ts';
import type { FromQueryWorker, QueryWorkerOptions, ToQueryWorker } from './query-worker.ts';

export class ObjectSearch {
  /** null: there is no index. */
  readonly #options: QueryWorkerOptions | null;
  #worker: Worker | null = null;
  readonly #waiting = new Map<number, (found: Candidates | null) => void>();
  #nextId = 1;
  #isClosed = false;

  constructor(options: QueryWorkerOptions | null) {
    this.#options = options;
  }

  /**
   * Keys of objects that may fit, in their order; null: nothing is known of them, and all objects
   * are to be looked at. Never rejects.
   */
  find(wanted: Wanted): Promise<Candidates | null> {
    const worker = this.#begin();
    if (!worker) return Promise.resolve(null);
    const id = this.#nextId++;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      worker.postMessage({ id, wanted } satisfies ToQueryWorker);
    });
  }

  /** Resolves when the thread has ended. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const worker = this.#worker;
    if (!worker) return;
    const exited = new Promise((resolve) => worker.once('exit', resolve));
    worker.postMessage({ close: true } satisfies ToQueryWorker);
    await exited;
  }

  #begin(): Worker | null {
    if (!this.#options || this.#isClosed) return null;
    if (this.#worker) return this.#worker;
    const url = new URL('./query-worker.js', import.meta.url);
    const worker = new Worker(url, { name: 'find', workerData: this.#options });
    // A query must not hold up the end of a gateway.
    worker.unref();
    worker.on('message', ({ id, found }: FromQueryWorker) => {
      this.#waiting.get(id)?.(found);
      this.#waiting.delete(id);
    });
    // Another one is begun with the next query.
    worker.on('error', () => {});
    worker.once('exit', () => {
      this.#worker = null;
      for (const resolve of this.#waiting.values()) resolve(null);
      this.#waiting.clear();
    });
    this.#worker = worker;
    return worker;
  }
}
