// The ledger's thread, from the side of the thread that begins and ends it: what it is begun with,
// what it tells of itself, and new ends for threads that serve requests.
import { MessageChannel, Worker } from 'node:worker_threads';
import { makeVersionMarks } from '../catalog/version-marks.ts';
import type { RootKey } from '../core/keyring.ts';
import type { Unsealed } from '../core/seals/row-seal.ts';
import type { Alarm } from '../quota/limits/alarms.ts';
import type { PriceBook } from '../quota/prices/price-book.ts';
import type { LedgerEnd } from './ends.ts';
import type { FromWorker, ToWorker, WorkerOptions } from './worker.ts';

export interface LedgerThreadOptions {
  /** The database file. */
  path: string;
  /** Of all epochs; `addRootKey` changes add others. */
  rootKeys: readonly RootKey[];
  /** All by which anything may be charged. */
  priceBooks: readonly PriceBook[];
  /** Called once when the ledger cannot go on: the process must stop. */
  onFatal: (reason: string) => void;
  /**
   * Called with alarms that have just become durable: at once, and not for those that an earlier
   * run was not done with (`listUntoldAlarms`).
   */
  onAlarms?: (alarms: Alarm[]) => void;
  /**
   * Called with the log's newest checkpoint, a signed note, soon after each batch (`signLog`), and
   * how long after the first batch that it covers began, milliseconds.
   */
  onCheckpoint?: (note: string, sinceAppendMs: number) => void;
  /** Called with records that turned out not to be what was recorded. */
  onAltered?: (indexes: number[]) => void;
  /**
   * Reads what requests will be decided by, while the database stays as it is and is verified;
   * absent: nothing is read.
   */
  load?: () => Promise<void>;
  /**
   * Called for each row that is not authentic: with those of the start before `open` resolves, then
   * with each that a request came upon.
   */
  onUnsealed?: (unsealed: Unsealed) => void;
  /** Called when somebody else has written to the database. */
  onTouched?: () => void;
  /** Called for each request that failed by a bug. */
  onFailure: (reason: string) => void;
}

export class LedgerThread {
  readonly #worker: Worker;
  readonly #options: LedgerThreadOptions;
  readonly #told = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  readonly #marks: SharedArrayBuffer;
  #closing = false;

  private constructor(worker: Worker, marks: SharedArrayBuffer, options: LedgerThreadOptions) {
    this.#worker = worker;
    this.#marks = marks;
    this.#options = options;
  }

  /** Opens or creates the database. Rejects when it cannot be, or was written under other keys. */
  static async open(options: LedgerThreadOptions): Promise<LedgerThread> {
    const { path, rootKeys, priceBooks } = options;
    const marks = makeVersionMarks();
    const workerData: WorkerOptions = { path, rootKeys, priceBooks, marks };
    const worker = new Worker(new URL('./worker.js', import.meta.url), {
      name: 'ledger',
      workerData,
    });
    await nextOf(worker);
    const ready = nextOf(worker);
    // Whoever awaits it first says what went wrong.
    ready.catch(() => {});
    try {
      await options.load?.();
    } catch (error) {
      await worker.terminate();
      throw error;
    }
    const thread = new LedgerThread(worker, marks, options);
    worker.postMessage({ loaded: true, told: thread.#told } satisfies ToWorker);
    const message = await ready;
    worker.removeAllListeners('error');
    thread.#listen();
    if ('ready' in message) for (const one of message.unsealed) options.onUnsealed?.(one);
    return thread;
  }

  /** What it has worked since it began, milliseconds. */
  get busyMs(): number {
    return this.#worker.performance.eventLoopUtilization().active;
  }

  /** Another end of it. Its port is to be transferred where another thread uses it. */
  addEnd(): LedgerEnd {
    const { port1, port2 } = new MessageChannel();
    this.#worker.postMessage({ end: port2 } satisfies ToWorker, [port2]);
    return { port: port1, told: this.#told, marks: this.#marks };
  }

  /** Closes the database. Nothing may be under way at any end. */
  async close(): Promise<void> {
    this.#closing = true;
    const exited = new Promise((resolve) => this.#worker.once('exit', resolve));
    this.#worker.postMessage({ close: true } satisfies ToWorker);
    await exited;
  }

  #listen(): void {
    const { onFatal, onCheckpoint, onAlarms, onAltered, onFailure, onTouched, onUnsealed } =
      this.#options;
    this.#worker.on('message', (message: FromWorker) => {
      if ('fatal' in message) onFatal(message.fatal);
      else if ('checkpoint' in message) onCheckpoint?.(message.checkpoint, message.sinceAppendMs);
      else if ('alarms' in message) onAlarms?.(message.alarms);
      else if ('altered' in message) onAltered?.(message.altered);
      else if ('failed' in message) onFailure(message.failed);
      else if ('touched' in message) onTouched?.();
      else if ('unsealed' in message && !('ready' in message)) onUnsealed?.(message.unsealed);
    });
    this.#worker.on('error', (error) => onFatal(error.stack ?? String(error)));
    this.#worker.on('exit', () => {
      if (!this.#closing) onFatal('the ledger stopped');
    });
  }
}

/** The next message, or why there will be none. */
function nextOf(worker: Worker): Promise<FromWorker> {
  return new Promise((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
}
