// The chunk buffers of the whole process: one shared arena, cut into slots of a chunk and its tag,
// so that memory for object data is bounded and worker threads see a slot by its number, without a
// copy. Invariant: a slot has one owner at a time, and who waited longest gets the next free one. A
// stream that waits must hold none, or only slots that come free without its help (being hashed or
// written): then the pool cannot lock up. Read-ahead uses `tryAcquire` and never waits. A slot
// whose owner waits for its client is on loan: when others have waited for a while, the oldest
// loans are called back, so that clients which crawl or stall cannot keep the rest out.

import { monotonicMs } from '../core/clock.ts';
import { Refusal } from '../core/errors.ts';
import { chunkBytes, tagBytes } from '../core/limits.ts';

/** Slots begin on cache lines, so that two threads never write to one line. */
const slotBytes = Math.ceil((chunkBytes + tagBytes) / 64) * 64;

export interface ChunkBuffer {
  /** The slot's number, which names it to worker threads. */
  readonly slot: number;
  /** Room for a chunk and its tag; still holds what its last owner left. */
  readonly bytes: Buffer;
}

interface Waiter {
  sinceMs: number;
  grant(buffer: ChunkBuffer): void;
}

interface Loan {
  sinceMs: number;
  recall: () => void;
}

/** A loan is safe for so long: time for a chunk even at 50 KiB/s. */
const loanMsMin = 5000;
/** How long a stream waits before loans are called back for it. */
const patienceMs = 2000;
const patrolMs = 500;

export interface BufferPoolOptions {
  /** Default 128 MiB. Memory is taken from the system when a slot is first used. */
  bytesMax?: number;
  /** How long a stream waits for a slot before it is told to slow down. Default 30,000. */
  waitMsMax?: number;
  /** How long a loan is safe. Default 5,000. */
  loanMsMin?: number;
}

/** The view of one slot in an arena: the same bytes in every thread. */
export function viewSlot(arena: SharedArrayBuffer, slot: number): Buffer {
  return Buffer.from(arena, slot * slotBytes, chunkBytes + tagBytes);
}

export class BufferPool {
  readonly arena: SharedArrayBuffer;
  readonly slots: number;
  readonly #waitMsMax: number;
  /** Last released is first reused: it is warm in the cache, and cold slots cost no memory. */
  readonly #free: ChunkBuffer[] = [];
  readonly #taken: Uint8Array;
  readonly #waiters = new Set<Waiter>();
  /** By slot, oldest first. */
  readonly #loans = new Map<number, Loan>();
  /** Slots that were called back and have not yet come. */
  readonly #recalled = new Set<number>();
  readonly #loanMsMin: number;
  #patrol: NodeJS.Timeout | null = null;
  #touched = 0;

  constructor(options: BufferPoolOptions = {}) {
    this.slots = Math.floor((options.bytesMax ?? 128 * 1024 * 1024) / slotBytes);
    if (this.slots < 1) throw new Error('a buffer pool needs room for one chunk');
    this.#waitMsMax = options.waitMsMax ?? 30_000;
    this.#loanMsMin = options.loanMsMin ?? loanMsMin;
    this.arena = new SharedArrayBuffer(this.slots * slotBytes);
    this.#taken = new Uint8Array(this.slots);
  }

  /** Slots that have an owner now. */
  get inUse(): number {
    return this.#touched - this.#free.length;
  }

  /** Streams that wait for a slot now. */
  get waiting(): number {
    return this.#waiters.size;
  }

  /**
   * A free slot, or null. Never waits, and never overtakes: while others wait no slot is free,
   * since `release` hands it straight on.
   */
  tryAcquire(): ChunkBuffer | null {
    const buffer = this.#free.pop() ?? this.#touch();
    if (buffer) this.#taken[buffer.slot] = 1;
    return buffer;
  }

  /** The next free slot, first come, first served. Throws Refusal SlowDown after `waitMsMax`. */
  acquire(): Promise<ChunkBuffer> {
    const buffer = this.tryAcquire();
    if (buffer) return Promise.resolve(buffer);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiters.delete(waiter);
        reject(new Refusal('SlowDown'));
      }, this.#waitMsMax);
      const waiter: Waiter = {
        sinceMs: monotonicMs(),
        grant: (granted) => {
          clearTimeout(timer);
          resolve(granted);
        },
      };
      this.#waiters.add(waiter);
      this.#patrol ??= setInterval(() => this.#callBack(), patrolMs).unref();
    });
  }

  /**
   * The slot's owner waits for its client from now until it releases the slot or calls `keep`. The
   * owner must release it soon after `recall`, which is called at most once.
   */
  lend(buffer: ChunkBuffer, recall: () => void): void {
    this.#loans.set(buffer.slot, { sinceMs: monotonicMs(), recall });
  }

  /** Ends the slot's loan, if it has one: the client has done its part. */
  keep(buffer: ChunkBuffer): void {
    this.#loans.delete(buffer.slot);
  }

  /** Gives a slot back. Throws when it had been given back before. */
  release(buffer: ChunkBuffer): void {
    if (this.#taken[buffer.slot] !== 1) throw new Error(`slot ${buffer.slot} released twice`);
    this.#loans.delete(buffer.slot);
    this.#recalled.delete(buffer.slot);
    for (const waiter of this.#waiters) {
      this.#waiters.delete(waiter);
      waiter.grant(buffer);
      return;
    }
    this.#taken[buffer.slot] = 0;
    this.#free.push(buffer);
  }

  /** One slot for each stream that has been patient, from the oldest loans that are old enough. */
  #callBack(): void {
    if (this.#waiters.size === 0) {
      clearInterval(this.#patrol ?? undefined);
      this.#patrol = null;
      return;
    }
    const nowMs = monotonicMs();
    let wanted = -this.#recalled.size;
    for (const { sinceMs } of this.#waiters) {
      if (nowMs - sinceMs < patienceMs) break;
      wanted++;
    }
    for (const [slot, loan] of this.#loans) {
      if (wanted-- <= 0 || nowMs - loan.sinceMs < this.#loanMsMin) return;
      this.#loans.delete(slot);
      this.#recalled.add(slot);
      loan.recall();
    }
  }

  #touch(): ChunkBuffer | null {
    if (this.#touched === this.slots) return null;
    const slot = this.#touched++;
    return { slot, bytes: viewSlot(this.arena, slot) };
  }
}
