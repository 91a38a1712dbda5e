// The main thread's end of the thread that keeps the index of objects.
import { Worker } from 'node:worker_threads';
import type {
  FromIndexWorker,
  IndexProgress,
  IndexWorkerOptions,
  ToIndexWorker,
} from './index-worker.ts';

export interface ObjectIndexerOptions extends IndexWorkerOptions {
  /** Told what went wrong; it is tried again, later and later. */
  onError: (reason: string) => void;
  /** Told why the index is made anew. */
  onBegun: (reason: string) => void;
  /** Told how many objects were not in the index as the catalog has them, and are now. */
  onMended: (objects: number) => void;
}

export class ObjectIndexer {
  readonly #worker: Worker;
  /** Before the thread has told it, nothing is said to be late. */
  progress: IndexProgress = { through: Number.MAX_SAFE_INTEGER, isComplete: false };

  constructor({ onError, onBegun, onMended, ...workerData }: ObjectIndexerOptions) {
    const url = new URL('./index-worker.js', import.meta.url);
    const worker = new Worker(url, { name: 'objects', workerData });
    worker.unref();
    worker.on('message', (message: FromIndexWorker) => {
      if ('progress' in message) this.progress = message.progress;
      else if ('mended' in message) onMended(message.mended);
      else if ('begun' in message) onBegun(message.begun);
      else onError(message.failed);
    });
    worker.on('error', (cause) => onError(cause.stack ?? String(cause)));
    this.#worker = worker;
  }

  /** Resolves when the thread has ended. */
  async close(): Promise<void> {
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#worker.postMessage({ close: true } satisfies ToIndexWorker);
    await exited;
  }
}
