// What the gateway asks of its stores for no operation: journals, sweeps, probes, verification, and
// what comes after an operation was recorded. It is gathered here and told with a record of its
// own, each minute while there is any and at a clean stop. Invariant: what was told is gathered no
// more; so a crash loses the count of the last minute, and nothing twice.
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { defaultTenant, rootPrincipal } from '../core/principal.ts';
import type { BilledUse } from '../quota/backend-cost.ts';
import type { PriceBook } from '../quota/prices/price-book.ts';
import { StoreTallies, type StoreTally, type TakenUse } from '../tiering/stores/store-tally.ts';
import type { Commit } from './commit.ts';
import type { Ledger } from './ledger.ts';

/** Stores as bills name and price them. */
export interface StoreTerms {
  stores: { nameOf(store: number): string };
  /** The prices in force. */
  bookOf(store: number): Pick<PriceBook, 'name'>;
}

const intervalMs = 60_000;

export class BackendUpkeep {
  readonly #ledger: Pick<Ledger, 'commit'>;
  readonly #tallies = new StoreTallies();
  /** Null: it has not begun. */
  #terms: StoreTerms | null = null;
  #timer: NodeJS.Timeout | null = null;
  #telling: Promise<void> = Promise.resolve();

  constructor(ledger: Pick<Ledger, 'commit'>) {
    this.#ledger = ledger;
  }

  tallyOf(store: number): StoreTally {
    return this.#tallies.tallyOf(store);
  }

  /** What an operation asked after it was recorded. */
  add(uses: readonly TakenUse[]): void {
    this.#tallies.add(uses);
  }

  /** Tells from now on what is gathered, and was before. */
  start(terms: StoreTerms): void {
    this.#terms = terms;
    this.#timer = setInterval(() => void this.tell(), intervalMs).unref();
  }

  /** Records what has been gathered. What cannot be recorded now is kept for the next time. */
  tell(): Promise<void> {
    this.#telling = this.#telling.then(() => this.#tell());
    return this.#telling;
  }

  /** Tells the rest. To be called when no store is asked for anything any more. */
  async close(): Promise<void> {
    clearInterval(this.#timer ?? undefined);
    await this.tell();
  }

  async #tell(): Promise<void> {
    const terms = this.#terms;
    const taken = terms ? this.#tallies.take() : [];
    if (!terms || taken.length === 0) return;
    const result = await this.#ledger.commit(commitOf(nameUses(taken, terms), 'bursar serve'));
    if (!result.ok) this.#tallies.add(taken);
  }
}

/** What the gateway asked for itself, in the name of its own principal. */
export function commitOf(uses: readonly BilledUse[], source: string): Commit {
  return {
    change: { kind: 'none' },
    charge: null,
    backend: { tenant: null, uses },
    record: draftRecord(unasked(defaultTenant, rootPrincipal), ownOrigin(source), {
      action: 'bursar:BackendCost',
      status: 200,
    }),
  };
}

/** Uses as they are billed: by the store's name and the prices in force. */
export function nameUses(uses: readonly TakenUse[], terms: StoreTerms): BilledUse[] {
  return uses.map((use) => ({
    ...use,
    store: terms.stores.nameOf(use.store),
    book: terms.bookOf(use.store).name,
  }));
}
