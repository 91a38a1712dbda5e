// What was asked of the stores over a network, counted where it is sent: for an operation, or for
// the gateway itself where it belongs to none. Invariant: a request is counted once, when it ends,
// in the tally that it was sent with; what was taken out of a tally is in it no more.

import type { BackendUse } from '../../core/backend-use.ts';
import type { StoreTrace } from '../../core/store-trace.ts';

/** The use of one store, by its number. */
export interface TakenUse extends BackendUse {
  store: number;
}

export class StoreTally {
  readonly store: number;
  /** What the requests that are counted here are traced in; null: nothing. */
  readonly trace: StoreTrace | null;
  #use: BackendUse = emptyUse();
  #isEmpty = true;

  constructor(store: number, trace: StoreTrace | null = null) {
    this.store = store;
    this.trace = trace;
  }

  /** A request that was sent, with the bytes of its body and its answer's as far as they moved. */
  count(as: 'put' | 'get' | 'free', moved: { sentBytes: number; receivedBytes: number }): void {
    this.#use[`${as}s`]++;
    this.#use.sentBytes += moved.sentBytes;
    this.#use.receivedBytes += moved.receivedBytes;
    this.#isEmpty = false;
  }

  /** What was taken, here or from another tally, and could not be told. */
  add({ puts, gets, frees, sentBytes, receivedBytes }: BackendUse): void {
    const use = this.#use;
    use.puts += puts;
    use.gets += gets;
    use.frees += frees;
    use.sentBytes += sentBytes;
    use.receivedBytes += receivedBytes;
    this.#isEmpty = false;
  }

  /** All of it, since the last time; null: nothing. */
  take(): TakenUse | null {
    if (this.#isEmpty) return null;
    const taken = { store: this.store, ...this.#use };
    this.#use = emptyUse();
    this.#isEmpty = true;
    return taken;
  }
}

/** Where the tally of a store is found: that of an operation, or the gateway's own. */
export interface TallySource {
  tallyOf(store: number): StoreTally;
}

/** One for each store that is asked for anything. */
export class StoreTallies implements TallySource {
  // An operation asks one store, or two: a copy.
  readonly #tallies: StoreTally[] = [];
  readonly #trace: StoreTrace | null;

  constructor(trace: StoreTrace | null = null) {
    this.#trace = trace;
  }

  tallyOf(store: number): StoreTally {
    for (const tally of this.#tallies) if (tally.store === store) return tally;
    const tally = new StoreTally(store, this.#trace);
    this.#tallies.push(tally);
    return tally;
  }

  /** All of it, since the last time. */
  take(): TakenUse[] {
    const taken: TakenUse[] = [];
    for (const tally of this.#tallies) {
      const use = tally.take();
      if (use) taken.push(use);
    }
    return taken;
  }

  /** What was taken, here or from other tallies, and could not be told. */
  add(uses: readonly TakenUse[]): void {
    for (const use of uses) this.tallyOf(use.store).add(use);
  }
}

function emptyUse(): BackendUse {
  return { puts: 0, gets: 0, frees: 0, sentBytes: 0, receivedBytes: 0 };
}
