// What buckets keep and what was charged for it, as the ledger's transactions change it: kept in
// memory, written once a batch. It runs in the ledger's thread, the only writer, so what it has
// read stays true. Invariant: after a rollback comes `discard`, before a commit `flush`.
import type { Tx } from '../../core/database.ts';
import type { AccountMacs } from '../leases/account-macs.ts';
import { goOnUnder } from './several-books.ts';
import {
  type Accrued,
  accrue,
  type BookOrder,
  beginDue,
  bookOf,
  changeLevel,
  openLevel,
  takeDue,
} from './storage-level.ts';
import {
  type KeptLevel,
  listClasses,
  listUncharged,
  type Place,
  readLevel,
  readTotal,
  type Total,
  type UnchargedPlace,
  writeLevel,
  writeTotal,
} from './storage-tables.ts';

/** Levels and totals kept, at less than 1 KiB each. */
const keptMax = 10_000;

interface Entry<Of, State> {
  readonly of: Of;
  state: State;
}

export class StorageBook {
  readonly #tx: Tx;
  readonly #order: BookOrder & { marketOf(book: string): string | undefined };
  readonly #macs: AccountMacs | null;
  readonly #levels = new Map<string, Entry<Place, KeptLevel>>();
  readonly #totals = new Map<string, Entry<Total, bigint>>();
  readonly #changedLevels = new Set<Entry<Place, KeptLevel>>();
  readonly #changedTotals = new Set<Entry<Total, bigint>>();
  /** The places that are passed over in the present listing. */
  #listed = { beforeMs: 0, passed: new Set<string>() };

  /** `macs`: null: rows are written without a MAC, and trusted as they are read. */
  constructor(
    tx: Tx,
    order: BookOrder & { marketOf(book: string): string | undefined },
    macs: AccountMacs | null,
  ) {
    this.#tx = tx;
    this.#order = order;
    this.#macs = macs;
  }

  /**
   * Adds bytes to what is kept, or removes some. `book` is the one that the operation was charged
   * by: what is kept goes on under it where its market is another than before, unless it
   * `keepsMarket`.
   */
  async add(
    place: Place,
    { bytes, book, keepsMarket }: { bytes: number; book: string; keepsMarket: boolean },
    timeMs: number,
  ): Promise<void> {
    const entry = await this.#open(place, book, timeMs);
    const { state } = entry;
    accrue(state, timeMs, this.#order);
    const market = this.#order.marketOf(book);
    const isMoved = market !== undefined && market !== this.#order.marketOf(bookOf(state));
    if (isMoved && !keepsMarket) {
      beginDue(state, book, this.#order);
    }
    changeLevel(state, bytes);
    this.#changedLevels.add(entry);
  }

  /** The book under which a place is charged; `book`: if nothing was in it before. */
  async bookOf(place: Place, book: string, timeMs: number): Promise<string> {
    const entry = await this.#open(place, book, timeMs);
    accrue(entry.state, timeMs, this.#order);
    this.#changedLevels.add(entry);
    return bookOf(entry.state);
  }

  /** Takes what is due until now, to be charged; what is kept goes on under `now` (`goOnUnder`). */
  async take(
    place: Place,
    books: readonly (string | undefined)[],
    timeMs: number,
  ): Promise<{ due: Accrued[]; now: string }> {
    const entry = await this.#open(place, goOnUnder('', books), timeMs);
    const { state } = entry;
    accrue(state, timeMs, this.#order);
    state.chargedMs = timeMs;
    this.#changedLevels.add(entry);
    const now = goOnUnder(bookOf(state), books);
    return { due: takeDue(state, now, this.#order), now };
  }

  /** Takes what is due of a bucket that is gone: nothing is kept, whatever damaged rows said. */
  async end(place: Place, book: string, timeMs: number): Promise<Accrued[]> {
    const { due } = await this.take(place, [book], timeMs);
    (await this.#open(place, book, timeMs)).state.billedBytes = 0n;
    return due;
  }

  /** Adds to what was charged in a month; gives what there was before. */
  async addTotal(total: Total, byteMs: bigint): Promise<bigint> {
    const name = `${total.market} ${total.class} ${total.monthMs}`;
    let entry = this.#totals.get(name);
    if (!entry) {
      entry = { of: total, state: await readTotal(this.#tx, total) };
      this.#totals.set(name, entry);
    }
    const before = entry.state;
    entry.state += byteMs;
    this.#changedTotals.add(entry);
    return before;
  }

  /** Up to `max` places that were last charged before `beforeMs`. */
  async listUncharged(beforeMs: number, max: number): Promise<UnchargedPlace[]> {
    await this.flush();
    if (this.#listed.beforeMs !== beforeMs) this.#listed = { beforeMs, passed: new Set() };
    const rows = await listUncharged(this.#tx, { beforeMs, max: max + this.#listed.passed.size });
    return rows.filter((place) => !this.#listed.passed.has(nameOf(place))).slice(0, max);
  }

  /** The place is not listed any more until another time is asked for. */
  passOver(place: Place): void {
    this.#listed.passed.add(nameOf(place));
  }

  async listClasses(tenant: string, bucket: string): Promise<string[]> {
    await this.flush();
    return listClasses(this.#tx, tenant, bucket);
  }

  /** Writes what changed, into the transaction under way. */
  async flush(): Promise<void> {
    for (const { of, state } of this.#changedLevels)
      await writeLevel(this.#tx, of, state, this.#macs);
    for (const { of, state } of this.#changedTotals) await writeTotal(this.#tx, of, state);
    this.#changedLevels.clear();
    this.#changedTotals.clear();
    forgetOldest(this.#levels);
    forgetOldest(this.#totals);
  }

  /** Forgets what was not committed. */
  discard(): void {
    this.#changedLevels.clear();
    this.#changedTotals.clear();
    this.#levels.clear();
    this.#totals.clear();
  }

  async #open(place: Place, book: string, timeMs: number): Promise<Entry<Place, KeptLevel>> {
    const name = nameOf(place);
    let entry = this.#levels.get(name);
    if (entry) return entry;
    const { tenant, bucket, class: storageClass } = place;
    const state = (await readLevel(this.#tx, place, { order: this.#order, macs: this.#macs })) ?? {
      ...openLevel(book, timeMs, this.#order),
      chargedMs: timeMs,
      writtenMs: null,
    };
    entry = { of: { tenant, bucket, class: storageClass }, state };
    this.#levels.set(name, entry);
    return entry;
  }
}

/** The separator is unambiguous, since no name has a space. */
function nameOf({ tenant, bucket, class: of }: Place): string {
  return `${tenant} ${bucket} ${of}`;
}

function forgetOldest(kept: Map<string, unknown>): void {
  for (const name of kept.keys()) {
    if (kept.size <= keptMax) break;
    kept.delete(name);
  }
}
