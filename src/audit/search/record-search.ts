// Searches the records: by the index as far as that goes, and behind it in the records themselves.
// Invariants: what is found was compared with its leaf's commitment, is of the tenant that may see it
// and fits what was asked, whatever the index says; and one call does a bounded amount of work on the
// thread that serves everybody, however long the log is and however little fits.
import type { Reader } from '../../core/database.ts';
import { IntegrityError } from '../../core/errors.ts';
import { Pace } from '../../core/pace.ts';
import { PackFailure } from '../archive/pack-failure.ts';
import { readLogSize } from '../log/stored-tiles.ts';
import type { KeptText, RecordStore } from '../record-store.ts';
import { firstSince } from '../record-times.ts';
import { blockWidth, placesOf } from './positions.ts';
import type { SearchIndexReader } from './search-index.ts';
import { fitting, type RecordQuery, termsWanted } from './terms.ts';

/** Records behind the index that one call looks at, fitting or not; and false hits that it takes. */
const examinedMax = blockWidth;
/** Records behind the index that are read at once: about a millisecond's work. */
const readAtOnce = 256;
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
  store: Pick<RecordStore, 'readRecord' | 'readRun' | 'readText' | 'readTexts'>;
  /** null: there is none, and everything is behind it. */
  index: SearchIndexReader | null;
}

export interface UsedIndex {
  index: SearchIndexReader;
  /** Called with a block of which the index says what its records do not. */
  onFalse: (block: number) => void;
}

export class RecordSearch {
  readonly #read: Reader;
  readonly #store: RecordSearchOptions['store'];
  #index: SearchIndexReader | null;
  #onFalse: UsedIndex['onFalse'] = () => {};

  constructor({ read, store, index }: RecordSearchOptions) {
    this.#read = read;
    this.#store = store;
    this.#index = index;
  }

  /** From now on it searches by this index. */
  use({ index, onFalse }: UsedIndex): void {
    this.#index = index;
    this.#onFalse = onFalse;
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
    let falseHits = 0;
    const pace = new Pace();
    for await (const { block, bits } of blocks) {
      const begin = block * blockWidth;
      let isFalse = false;
      for (const place of placesOf(bits, Math.max(from - begin, 0), to - begin)) {
        const text = await this.#readFound(begin + place, records);
        if (text === null) return begin + place;
        if (text !== undefined && this.#fits(text, begin + place, { terms, query })) {
          records.push(text);
        } else if (text !== undefined) {
          if (!isFalse) this.#onFalse(block);
          isFalse = true;
          falseHits += 1;
        }
        if (records.length === query.limit || falseHits === examinedMax) return begin + place + 1;
        if (pace.isDue) await pace.wait();
      }
    }
    return Math.min(last * blockWidth, to);
  }

  /** null: its pack is not there, and the page ends before it, so that what was found is told. */
  async #readFound(index: number, records: readonly string[]): Promise<string | undefined | null> {
    try {
      return await this.#store.readText(index);
    } catch (error) {
      if (error instanceof PackFailure && records.length > 0) return null;
      throw error;
    }
  }

  /** The same among those that are not indexed yet. */
  async #findBehind(query: RecordQuery, { from, to }: Span, records: string[]): Promise<number> {
    const end = Math.min(from + examinedMax, to);
    const terms = termsWanted(query);
    const pace = new Pace();
    for (let at = from; at < end; at += readAtOnce) {
      const wanted = Math.min(at + readAtOnce, end);
      const { texts, to: readEnd } = await this.#readBehind(at, wanted, from);
      for (const { index, opened } of texts) {
        if (!opened || !this.#fits(opened.record, index, { terms, query })) continue;
        const text = await this.#store.readText(index);
        if (text === opened.record) records.push(text);
        if (records.length === query.limit) return index + 1;
        if (pace.isDue) await pace.wait();
      }
      if (readEnd < wanted) return readEnd;
      await pace.rest();
    }
    return end;
  }

  /** Up to a pack that is not there; throws where that is the first of what is looked at. */
  async #readBehind(
    from: number,
    to: number,
    begun: number,
  ): Promise<{ texts: KeptText[]; to: number }> {
    try {
      return { texts: await this.#store.readTexts(from, to - from), to };
    } catch (error) {
      const end = error instanceof PackFailure ? Math.max(error.from, from) : begun;
      if (end === begun) throw error;
      return { texts: await this.#store.readTexts(from, end - from), to: end };
    }
  }

  /** Throws IntegrityError for a record that says that it is another. */
  #fits(
    text: string,
    index: number,
    { terms, query }: { terms: readonly string[]; query: RecordQuery },
  ): boolean {
    const record = fitting(text, terms, query.prefix);
    if (!record || record.index === index) return record !== undefined;
    throw new IntegrityError(`record ${index} says that it is record ${record.index}`);
  }
}
