// Extent ids whose intents are durable already, so that an upload waits for no commit before it
// writes. Invariant: an id is given once, after the ledger has it as an intent of this run; what is
// never written is condemned with this run's other intents. Ids are declared in batches, and so few
// that what is left unused costs the sweeper next to nothing.
import { monotonicMs } from '../core/clock.ts';
import { newExtentId } from '../core/ids.ts';
import type { Ledger } from './ledger.ts';

const batchIdsMin = 32;
const batchIdsMax = 512;
/** An intent is condemned a day after it was declared; an upload needs most of that day. */
const keptMs = 3600 * 1000;

interface Waiter {
  resolve: (id: Buffer) => void;
  reject: (error: unknown) => void;
}

export class IntentPool {
  readonly #ledger: Pick<Ledger, 'maintain'>;
  /** By the numbers of their stores. */
  readonly #stores = new Map<string, StoreIntents>();

  constructor(ledger: Pick<Ledger, 'maintain'>) {
    this.#ledger = ledger;
  }

  /** Ids that are declared and not given yet. */
  get ready(): number {
    return this.#sum((intents) => intents.ready);
  }

  /** Uploads that wait for an id. */
  get waiting(): number {
    return this.#sum((intents) => intents.waiting);
  }

  #sum(count: (intents: StoreIntents) => number): number {
    let sum = 0;
    for (const intents of this.#stores.values()) sum += count(intents);
    return sum;
  }

  /**
   * An id for an extent in a store, or for copies in several (`others`). Rejects with Refusal when
   * the ledger cannot declare any.
   */
  take(store: number, others?: readonly number[]): Buffer | Promise<Buffer> {
    const name = others ? `${store},${others}` : `${store}`;
    let intents = this.#stores.get(name);
    if (!intents) {
      const stores = others && { stores: [store, ...others] };
      intents = new StoreIntents(async (ids) => {
        await this.#ledger.maintain({ kind: 'declareExtents', store, ...stores, ids });
      });
      this.#stores.set(name, intents);
    }
    return intents.take();
  }
}

class StoreIntents {
  readonly #declare: (ids: Buffer[]) => Promise<void>;
  /** Oldest first, which is also the order in which they are given. */
  #ids: Buffer[] = [];
  #declaredMs = 0;
  #waiters: Waiter[] = [];
  #isDeclaring = false;
  #batchIds = batchIdsMin;

  constructor(declare: (ids: Buffer[]) => Promise<void>) {
    this.#declare = declare;
  }

  get ready(): number {
    return this.#ids.length;
  }

  get waiting(): number {
    return this.#waiters.length;
  }

  take(): Buffer | Promise<Buffer> {
    if (monotonicMs() - this.#declaredMs > keptMs) this.#ids = [];
    const id = this.#ids.shift();
    if (id) {
      if (this.#ids.length < this.#batchIds / 2) void this.#topUp();
      return id;
    }
    return new Promise((resolve, reject) => {
      this.#waiters.push({ resolve, reject });
      void this.#topUp();
    });
  }

  async #topUp(): Promise<void> {
    if (this.#isDeclaring) return;
    this.#isDeclaring = true;
    // Somebody waits: more at a time would have done.
    if (this.#waiters.length > 0) this.#batchIds = Math.min(2 * this.#batchIds, batchIdsMax);
    const ids = Array.from({ length: this.#batchIds }, newExtentId);
    try {
      await this.#declare(ids);
      this.#declaredMs = monotonicMs();
      this.#ids.push(...ids);
    } catch (error) {
      // Where nobody waits nobody needs to know: who finds no id tries again.
      for (const { reject } of this.#waiters.splice(0)) reject(error);
    }
    this.#isDeclaring = false;
    const served = this.#waiters.splice(0, this.#ids.length);
    for (const { resolve } of served) resolve(this.#ids.shift() as Buffer);
    if (this.#waiters.length > 0) void this.#topUp();
  }
}
