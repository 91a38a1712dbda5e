// The main thread's end of the search index: starts the thread that makes it, reads for it what
// only this thread can read, and gives what searches it.
import { Worker } from 'node:worker_threads';
import { PackFailure } from '../archive/pack-failure.ts';
import type { ReadPart } from '../record-store.ts';
import type { FromIndexWorker, IndexWorkerOptions, ToIndexWorker } from './index-worker.ts';
import { SearchIndexReader } from './search-index.ts';

export interface IndexerOptions extends IndexWorkerOptions {
  /** Reads a part of a pack of the archive. */
  readPart: ReadPart;
  /** Called with what went wrong; it is tried again, later and later. */
  onError: (reason: string) => void;
  /** Called with a block that did not lead to its records as it should, and was made anew. */
  onMended: (block: number) => void;
  /** Called with each record that turned out not to be what was recorded, each time. */
  onAltered?: (index: number) => void;
}

export class Indexer {
  readonly index: SearchIndexReader;
  readonly #worker: Worker;

  private constructor(worker: Worker, index: SearchIndexReader) {
    this.#worker = worker;
    this.index = index;
  }

  /** Opens or makes the index; what it lacks of the log is added from now on. */
  static async open(options: IndexerOptions): Promise<Indexer> {
    const { readPart, onError, onMended, onAltered, ...workerData } = options;
    const worker = new Worker(new URL('./index-worker.js', import.meta.url), {
      name: 'search',
      workerData,
    });
    // A search must not hold up the end of a gateway.
    worker.unref();
    const answer = (message: ToIndexWorker): void => worker.postMessage(message);
    await new Promise<void>((resolve, reject) => {
      worker.once('error', reject);
      worker.on('message', (message: FromIndexWorker) => {
        if ('ready' in message) resolve();
        else if ('failed' in message) onError(message.failed);
        else if ('mended' in message) onMended(message.mended);
        else if ('altered' in message) onAltered?.(message.altered);
        else {
          const { id, wanted } = message;
          // A buffer comes out of another thread as plain bytes.
          const [nonce, manifest] = [Buffer.from(wanted.nonce), Buffer.from(wanted.manifest)];
          readPart({ ...wanted, nonce, manifest }).then(
            (bytes) => answer({ id, bytes }),
            (cause: unknown) => {
              answer({ id, failed: String(cause), isLost: cause instanceof PackFailure });
            },
          );
        }
      });
    });
    worker.removeAllListeners('error');
    worker.on('error', (cause) => onError(cause.stack ?? String(cause)));
    return new Indexer(worker, new SearchIndexReader(workerData.indexPath));
  }

  /** A block that led to a record which it should not lead to: it will be made anew. */
  doubt(block: number): void {
    this.#worker.postMessage({ doubted: block } satisfies ToIndexWorker);
  }

  /**
   * Resolves when the thread has ended; what it was at is not begun again before the next start.
   */
  async close(): Promise<void> {
    // The last connection to close a database folds its log into it, which only a writer can do.
    this.index.close();
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#worker.postMessage({ close: true } satisfies ToIndexWorker);
    await exited;
  }
}
