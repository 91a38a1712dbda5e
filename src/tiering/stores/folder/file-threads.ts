// The threads of a folder store: each does one call of the file system at a time, and one that a
// disk keeps is left to it. Invariants: a call in which nothing moves for so long has failed, for
// who waits for it, whatever becomes of it; what it gives afterwards is handed to `late`; and a
// thread gets another call only when it has answered the one before.
import { Worker } from 'node:worker_threads';
import { AttemptFailure } from '../attempt-failure.ts';
import {
  type CallReply,
  type CallResults,
  type FileCall,
  scratchBytes,
  words,
  wordsBytes,
} from './file-calls.ts';

export interface FileThreadsOptions {
  /** The most threads, and so calls under way. Each is begun when it is first wanted. */
  threadsMax: number;
  /** A call, or a wait for a thread, in which nothing moves for so many milliseconds has failed. */
  stallMs: number;
}

export interface CallOptions<R> {
  signal?: AbortSignal | undefined;
  /** Uses the scratch memory, while it is the call's. */
  use?: (scratch: Uint8Array, result: R) => void;
  /** Gets the result of a call that nobody waited for any more. */
  late?: (result: R) => void;
}

/** An error of the system, of a call. */
export class FileError extends Error {
  override readonly name = 'FileError';
  /** The system's, such as `ENOSPC`. */
  readonly code: string | undefined;

  constructor(message: string, code: string | undefined) {
    super(message);
    this.code = code;
  }
}

interface Job {
  call: FileCall;
  use: ((scratch: Uint8Array, result: never) => void) | undefined;
  late: ((result: never) => void) | undefined;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
  signal: AbortSignal | undefined;
  /** Whether nobody waits for it any more. */
  isAbandoned: boolean;
  thread: FileThread | null;
  /** Of `words.moved`, when it was last looked at. */
  moved: number;
  timer: NodeJS.Timeout | null;
  onAbort: () => void;
}

export class FileThreads {
  readonly #options: FileThreadsOptions;
  readonly #threads = new Set<FileThread>();
  readonly #idle: FileThread[] = [];
  readonly #waiting: Job[] = [];
  readonly #running = new Set<Job>();
  #hasEnded = false;

  constructor(options: FileThreadsOptions) {
    this.#options = options;
  }

  get inFlight(): number {
    return this.#running.size;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /**
   * Does a call. Rejects with `FileError` for what the system says, with AttemptFailure `stall`
   * when nothing moves, with the signal's reason when that ends it.
   */
  run<C extends FileCall>(
    call: C,
    options: CallOptions<CallResults[C['do']]> = {},
  ): Promise<CallResults[C['do']]> {
    const { signal, use, late } = options;
    return new Promise((resolve, reject) => {
      const job: Job = {
        ...{ call, use, late, signal, reject },
        resolve: resolve as (result: unknown) => void,
        isAbandoned: false,
        thread: null,
        moved: 0,
        timer: null,
        onAbort: () => this.#abandon(job, signal?.reason),
      };
      if (this.#hasEnded) reject(new AttemptFailure('unreachable', 'the store was closed'));
      else if (signal?.aborted) reject(signal.reason);
      else this.#enter(job);
    });
  }

  /** Fails what is under way. A thread that a disk keeps ends with the process. */
  close(): void {
    this.#hasEnded = true;
    const failure = new AttemptFailure('unreachable', 'the store was closed');
    for (const job of [...this.#running, ...this.#waiting]) this.#abandon(job, failure);
    for (const thread of this.#threads) thread.end();
  }

  #enter(job: Job): void {
    job.signal?.addEventListener('abort', job.onAbort);
    job.timer = setTimeout(() => this.#look(job), this.#options.stallMs);
    const thread = this.#idle.pop() ?? this.#begin();
    if (thread) this.#give(thread, job);
    else this.#waiting.push(job);
  }

  #begin(): FileThread | null {
    if (this.#threads.size >= this.#options.threadsMax) return null;
    const thread = new FileThread({
      onReply: (reply) => this.#settle(thread, reply),
      onEnd: (error) => this.#lose(thread, error),
    });
    this.#threads.add(thread);
    return thread;
  }

  #give(thread: FileThread, job: Job): void {
    job.thread = thread;
    job.moved = thread.moved;
    this.#running.add(job);
    thread.begin(job);
  }

  /** Has anything moved since the last look? */
  #look(job: Job): void {
    const moved = job.thread?.moved ?? 0;
    if (job.thread && moved !== job.moved) {
      job.moved = moved;
      job.timer = setTimeout(() => this.#look(job), this.#options.stallMs);
      return;
    }
    const where = job.thread ? `${job.call.do} of a file` : 'no thread of the store was free';
    const message = `nothing moved for ${this.#options.stallMs} ms: ${where}`;
    this.#abandon(job, new AttemptFailure('stall', message));
  }

  #abandon(job: Job, error: unknown): void {
    if (job.isAbandoned) return;
    job.isAbandoned = true;
    this.#forget(job);
    job.thread?.abandon();
    const at = this.#waiting.indexOf(job);
    if (at >= 0) this.#waiting.splice(at, 1);
    job.reject(error);
  }

  #forget(job: Job): void {
    clearTimeout(job.timer ?? undefined);
    job.signal?.removeEventListener('abort', job.onAbort);
  }

  #settle(thread: FileThread, reply: CallReply): void {
    const job = thread.finish();
    this.#running.delete(job);
    if ('result' in reply) this.#deliver(thread, job, reply.result);
    else if (!job.isAbandoned) {
      this.#forget(job);
      job.reject(new FileError(reply.message, reply.code));
    }
    const next = this.#waiting.shift();
    if (next) this.#give(thread, next);
    else this.#idle.push(thread);
  }

  #deliver(thread: FileThread, job: Job, result: unknown): void {
    if (job.isAbandoned) {
      job.late?.(result as never);
      return;
    }
    this.#forget(job);
    job.use?.(thread.scratch, result as never);
    job.resolve(result);
  }

  /** A thread has died, which is a bug: what it did has failed. */
  #lose(thread: FileThread, error: unknown): void {
    this.#threads.delete(thread);
    const at = this.#idle.indexOf(thread);
    if (at >= 0) this.#idle.splice(at, 1);
    const job = thread.job;
    if (!job) return;
    this.#running.delete(job);
    this.#abandon(job, error);
  }
}

class FileThread {
  job: Job | null = null;
  readonly scratch: Uint8Array;
  readonly #words: Int32Array;
  readonly #worker: Worker;

  constructor(told: { onReply: (reply: CallReply) => void; onEnd: (error: unknown) => void }) {
    const memory = new SharedArrayBuffer(wordsBytes + scratchBytes);
    this.#words = new Int32Array(memory, 0, wordsBytes / Int32Array.BYTES_PER_ELEMENT);
    this.scratch = new Uint8Array(memory, wordsBytes);
    this.#worker = new Worker(new URL('./file-worker.js', import.meta.url), {
      name: 'folder',
      workerData: { memory },
      // Files that one thread has opened are read and closed by others.
      trackUnmanagedFds: false,
    });
    this.#worker.unref();
    this.#worker.on('message', told.onReply);
    this.#worker.on('error', told.onEnd);
    this.#worker.on('exit', () => told.onEnd(new Error('a thread of a folder store has ended')));
  }

  get moved(): number {
    return Atomics.load(this.#words, words.moved);
  }

  /** A process may end while its threads idle, but not while somebody waits for them. */
  begin(job: Job): void {
    this.job = job;
    Atomics.store(this.#words, words.abandoned, 0);
    this.#worker.ref();
    this.#worker.postMessage(job.call);
  }

  abandon(): void {
    Atomics.store(this.#words, words.abandoned, 1);
    this.#worker.unref();
  }

  finish(): Job {
    const job = this.job as Job;
    this.job = null;
    this.#worker.unref();
    return job;
  }

  end(): void {
    void this.#worker.terminate();
  }
}
