// Searches the records: by the index as far as that goes, and behind it in the records themselves.
// Invariants: what is found has been read, and fits what was asked; and one call does a bounded amount
// of work on the thread that serves everybody, however long the log is and however little fits.
import type { Reader } from '../../core/database.ts';
import { readLogSize } from '../log/stored-tiles.ts';
import type { RecordStore } from '../record-store.ts';
import { firstSince } from '../record-times.ts';
import { blockWidth, placesOf } from './positions.ts';
import type { SearchIndexReader } from './search-index.ts';
import { fits, type RecordQuery, termsWanted } from './terms.ts';

/** Records behind the index that one call looks at, fitting or not. */
const examinedMax = blockWidth;
/** Blocks of the index that one call passes: 16 million records. */
const blocksMax = 4096;

export interface Found {
  /** Canonical texts, in the order of the log. */
  records: string[];
  /** Where to go on when there may be more: a page can be empty and not the last. */
  nextIndex: number | null;
}

/** Log indexes: `from` inclusive, `to` exclusive. */
interface Span {
  from: number;
  to: number;
}

export interface RecordSearchOptions {
  read: Reader;
  store: Pick<RecordStore, 'readRecord' | 'readRun' | 'readTexts'>;
  /** null: there is none, and everything is behind it. */
  index: SearchIndexReader | null;
}

export class RecordSearch {
  readonly #read: Reader;
  readonly #store: RecordSearchOptions['store'];
  #index: SearchIndexReader | null;

  constructor({ read, store, index }: RecordSearchOptions) {
    this.#read = read;
    this.#store = store;
    this.#index = index;
  }

  /** From now on it searches by this index. */
  use(index: SearchIndexReader): void {
    this.#index = index;
  }

  /** Records of the log that are not indexed yet: whole blocks are, so some always are not. */
  async countBehind(): Promise<number> {
    const size = await readLogSize(this.#read);
    return Math.max(size - ((await this.#index?.end()) ?? 0), 0);
  }

  /** Throws as `RecordStore.readRecord` does. */
  async find(query: RecordQuery): Promise<Found> {
    const { from, to } = await this.#spanOf(query);
    const records: string[] = [];
    const indexed = Math.min((await this.#index?.end()) ?? 0, to);
    let at = from;
    if (at < indexed) at = await this.#findIndexed(query, { from, to: indexed }, records);
    // What is behind the index is looked at only by who has come to its end.
    if (at >= indexed && at < to && records.length < query.limit) {
      at = await this.#findBehind(query, { from: at, to }, records);
    }
    return { records, nextIndex: at < to ? at - 1 : null };
  }

  async #spanOf({ afterIndex, fromMs, toMs }: RecordQuery): Promise<Span> {
    let from = (afterIndex ?? -1) + 1;
    let to = await readLogSize(this.#read);
    if (toMs !== undefined) to = await firstSince(this.#read, this.#store, toMs);
    if (fromMs !== undefined && from < to) {
      from = Math.max(from, await firstSince(this.#read, this.#store, fromMs));
    }
    return { from, to };
  }

  /** Gives the index behind the last record that was looked at. */
  async #findIndexed(query: RecordQuery, { from, to }: Span, records: string[]): Promise<number> {
    const first = Math.floor(from / blockWidth);
    const last = Math.min(Math.ceil(to / blockWidth), first + blocksMax);
    const terms = termsWanted(query);
    const blocks = this.#index?.blocksWith(terms, query.prefix, { from: first, to: last }) ?? [];
    for await (const { block, bits } of blocks) {
      const begin = block * blockWidth;
      for (const place of placesOf(bits, Math.max(from - begin, 0), to - begin)) {
        const record = await this.#readText(begin + place);
        if (record !== undefined) records.push(record);
        if (records.length === query.limit) return begin + place + 1;
      }
    }
    return Math.min(last * blockWidth, to);
  }

  /** The same among those that are not indexed yet. */
  async #findBehind(query: RecordQuery, { from, to }: Span, records: string[]): Promise<number> {
    const end = Math.min(from + examinedMax, to);
    const terms = termsWanted(query);
    for (const { index, opened } of await this.#store.readTexts(from, end - from)) {
      if (!opened || !fits(opened.record, terms, query.prefix)) continue;
      records.push(opened.record);
      if (records.length === query.limit) return index + 1;
    }
    return end;
  }

  /** undefined: it was erased. Nearly always it is new, and its text is all that it takes. */
  async #readText(index: number): Promise<string | undefined> {
    const sql = 'SELECT record FROM records WHERE idx = ?';
    const row = await this.#read.get<{ record: string }>(sql, index);
    if (row) return row.record || undefined;
    return (await this.#store.readRecord(index))?.opened?.record;
  }
}
