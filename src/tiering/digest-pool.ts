// The digest threads. MD5 for the ETag is the largest cost of a large PUT, so it runs beside the
// main thread. Invariant: a stream stays on one thread, so its chunks are hashed in order; and when
// a thread dies, everything that waits for it fails, and the next stream gets a new thread. A
// thread begins when it is first wanted.
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { IntegrityError } from '../core/errors.ts';
import type { BufferPool, ChunkBuffer } from './buffer-pool.ts';
import type { ChecksumAlgorithm } from './checksums.ts';
import type { ChunkPlace, ExtentKey, ExtentSeal } from './chunk-format.ts';
import type { DigestJob, DigestReply, Digests, KeyTerms } from './digest-jobs.ts';

export interface DigestPoolOptions {
  /** The pool whose slots the streams name. */
  buffers: BufferPool;
  /** Default: two, or one on a machine with a single core. */
  threads?: number;
}

/** How many of them each of so many pools has: together no more than cores, and one at least. */
export function digestThreadsOf(pools: number): number {
  return Math.max(Math.min(2, Math.floor(availableParallelism() / pools)), 1);
}

/** A chunk in its slot: the slot, and the file, are the digest thread's until it has answered. */
export interface ChunkToSeal extends ChunkPlace {
  extent: ExtentKey;
  buffer: ChunkBuffer;
  /** Bytes of data in the slot. */
  length: number;
  /** The extent's open file, to be written to as well. */
  descriptor: number | null;
}

/** The hashing of one object's bytes. */
export interface DigestStream {
  /**
   * Hashes the chunk, encrypts it if its extent is, and puts its tag behind it, in place; writes
   * both to the file, if any.
   */
  seal(chunk: ChunkToSeal): Promise<unknown>;
  /** The digests of all chunks, in the order of the calls of `seal`. */
  finish(): Promise<Digests>;
  /** Ends the stream, finished or not. Must be called once, and last. */
  close(): void;
}

/** The checking of one object's bytes. */
export interface DigestReader {
  /**
   * Verifies chunk `index` of an extent in the buffer, and decrypts it there; reads it first from
   * the open file, if there is one. The slot, and the file, are the thread's until then. Rejects
   * with IntegrityError when anything was changed.
   */
  verify(
    extent: ExtentSeal,
    index: number,
    buffer: ChunkBuffer,
    descriptor: number | null,
  ): Promise<unknown>;
  /** Must be called once, and last. */
  close(): void;
}

type AnsweredJob = Extract<DigestJob, { job: number }>;

interface Pending {
  resolve: (reply: DigestReply) => void;
  reject: (error: unknown) => void;
}

function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

class DigestThread {
  /** Open streams and readers. */
  users = 0;
  /** Why the thread is gone, once it is. */
  failure: unknown = null;
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  #outbox: DigestJob[] = [];
  #isFlushing = false;
  #jobs = 0;

  constructor(arena: SharedArrayBuffer) {
    this.#worker = new Worker(new URL('./digest-worker.js', import.meta.url), {
      name: 'digest',
      workerData: { arena },
    });
    this.#worker.unref();
    this.#worker.on('message', (replies: DigestReply[]) => {
      for (const reply of replies) this.#settle(reply);
    });
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('exit', () => this.#fail(new Error('a digest thread has ended')));
  }

  /** A process may end while its digest threads idle, but not while they work. */
  enter(): void {
    if (this.users++ === 0) this.#worker.ref();
  }

  leave(): void {
    if (--this.users === 0) this.#worker.unref();
  }

  /** Jobs that were sent and not answered yet. */
  get pending(): number {
    return this.#pending.size;
  }

  /**
   * Sends the job together with all of the same turn or, if it `canWait`, of the same round of I/O.
   */
  send(job: DigestJob, canWait = false): void {
    const isFirst = this.#outbox.push(job) === 1;
    if (canWait) {
      if (isFirst) setImmediate(this.#flush);
    } else if (!this.#isFlushing) {
      this.#isFlushing = true;
      queueMicrotask(this.#flush);
    }
  }

  /** Sends a job that is answered, with a number of its own. */
  ask(asked: AnsweredJob, canWait = false): Promise<DigestReply> {
    if (this.failure) return Promise.reject(this.failure);
    asked.job = this.#jobs++;
    this.send(asked, canWait);
    return new Promise((resolve, reject) => this.#pending.set(asked.job, { resolve, reject }));
  }

  async terminate(): Promise<void> {
    await this.#worker.terminate();
  }

  readonly #flush = (): void => {
    this.#isFlushing = false;
    if (this.#outbox.length === 0) return;
    const jobs = this.#outbox;
    this.#outbox = [];
    this.#worker.postMessage(jobs);
  };

  #settle(reply: DigestReply): void {
    const pending = this.#pending.get(reply.job);
    this.#pending.delete(reply.job);
    if (reply.error === undefined) pending?.resolve(reply);
    else pending?.reject(errorOf(reply));
  }

  #fail(error: unknown): void {
    this.failure ??= error;
    for (const pending of this.#pending.values()) pending.reject(error);
    this.#pending.clear();
  }
}

export class DigestPool {
  readonly #arena: SharedArrayBuffer;
  /** One place for each thread that there may be. Undefined means that the thread was not begun. */
  readonly #threads: (DigestThread | undefined)[];
  #streams = 0;
  #closed = false;

  constructor(options: DigestPoolOptions) {
    this.#arena = options.buffers.arena;
    const threads = options.threads ?? digestThreadsOf(1);
    this.#threads = Array.from({ length: threads }, () => undefined);
  }

  /** Jobs that the threads have and have not answered: chunks, above all. */
  get pending(): number {
    return this.#threads.reduce((sum, thread) => sum + (thread?.pending ?? 0), 0);
  }

  /** A stream on the thread that has the fewest. */
  open(checksums: readonly ChecksumAlgorithm[]): DigestStream {
    const thread = this.#enterThread();
    const stream = this.#streams++;
    thread.send({ kind: 'open', stream, checksums });
    return {
      seal: ({ extent: key, buffer: { slot }, length, index, last, descriptor }) => {
        const place = { index, last };
        const extent = termsOf(key);
        const kind = 'chunk';
        return thread.ask({ kind, stream, job: 0, slot, length, place, extent, descriptor });
      },
      finish: async () => {
        const { digests } = await thread.ask({ kind: 'finish', stream, job: 0 });
        if (!digests) throw new Error('a digest thread gave no digests');
        const { md5, sha256, checksums: asked } = digests;
        return {
          md5: toBuffer(md5),
          sha256: toBuffer(sha256),
          checksums: asked.map(toBuffer),
        };
      },
      close: () => {
        thread.send({ kind: 'drop', stream });
        thread.leave();
      },
    };
  }

  /** A reader on the thread that has the fewest streams and readers. */
  openReader(): DigestReader {
    const thread = this.#enterThread();
    return {
      verify: (seal, index, { slot }, descriptor) => {
        const extent = { ...termsOf(seal), extentBytes: seal.extentBytes };
        // Chunks from the network come one by one, and each message wakes a thread, so these may
        // wait for others.
        const canWait = descriptor === null;
        return thread.ask({ kind: 'verify', job: 0, slot, index, descriptor, extent }, canWait);
      },
      close: () => thread.leave(),
    };
  }

  /** Ends the threads. Streams still open fail. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#threads.map((thread) => thread?.terminate()));
  }

  /**
   * The least used thread: an idle one rather than a new one. A thread that is gone is replaced.
   */
  #enterThread(): DigestThread {
    if (this.#closed) throw new Error('the digest pool is closed');
    let chosen = 0;
    for (let i = 1; i < this.#threads.length; i++) {
      if (loadOf(this.#threads[i]) < loadOf(this.#threads[chosen])) chosen = i;
    }
    let thread = this.#threads[chosen];
    if (!thread || thread.failure) thread = new DigestThread(this.#arena);
    this.#threads[chosen] = thread;
    thread.enter();
    return thread;
  }
}

/** Beginning a thread costs less than sharing one, and more than using one that is idle. */
function loadOf(thread: DigestThread | undefined): number {
  return thread && !thread.failure ? thread.users : 0.5;
}

/** Made once for all chunks of an extent: what chunks of one message share is sent once, too. */
const keptTerms = new WeakMap<ExtentKey, KeyTerms>();

/** Copies, because sending a view would send all of the memory that it is a view of. */
function termsOf(extent: ExtentKey): KeyTerms {
  let terms = keptTerms.get(extent);
  if (!terms) {
    const { id, key, algorithm, cipher } = extent;
    terms = {
      ...{ id: Uint8Array.from(id), key: Uint8Array.from(key), algorithm },
      cipher: cipher && Uint8Array.from(cipher.export()),
    };
    keptTerms.set(extent, terms);
  }
  return terms;
}

/** The error as the thread threw it. */
function errorOf({ error, code, isIntegrity }: DigestReply): unknown {
  if (isIntegrity) return new IntegrityError((error as Error).message, { kind: 'chunk' });
  return code === undefined ? error : Object.assign(error as Error, { code });
}
