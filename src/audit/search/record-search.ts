// Searches the records: by the index as far as that goes, and behind it in the records themselves.
// Invariants: what is found was compared with its leaf's commitment, is of the tenant that may see
// it and fits what was asked, whatever the index says; of what is not what was recorded that is
// said, and nothing else; and one call does a bounded amount of work on the thread that serves
// everybody, however long the log is and however little fits.
import type { Reader } from '../../core/database.ts';
import { Pace } from '../../core/pace.ts';
import { listAltered } from '../altered-records.ts';
import { PackFailure } from '../archive/pack-failure.ts';
import { readLogSize } from '../log/stored-tiles.ts';
import { AlteredRecord, type IsWanted, type RecordStore } from '../record-store.ts';
import { firstSince } from '../record-times.ts';
import { blockWidth, placesOf } from './positions.ts';
import type { SearchIndexReader } from './search-index.ts';
import { fitting, type RecordQuery, termsWanted } from './terms.ts';

/**
 * Records behind the index that one call looks at, fitting or not; and false hits that it takes.
 */
const examinedMax = blockWidth;
/** Records behind the index that are read at once: about a millisecond's work. */
const readAtOnce = 256;
/** Blocks of the index that one call passes: 16 million records. */
const blocksMax = 4096;
const altered = Symbol('altered');
const nobodys: IsWanted = () => false;

export interface Found {
  /** In the order of the log. */
  records: Hit[];
  /**
   * The index from which to go on when there may be more. A page can be empty and not be the last.
   */
  nextIndex: number | null;
}

export interface Hit {
  index: number;
  /** Canonical; null: it is not what was recorded, so that nobody can tell whether it fits. */
  text: string | null;
}

/** Log indexes: `from` inclusive, `to` exclusive. */
interface Span {
  from: number;
  to: number;
}

export interface RecordSearchOptions {
  read: Reader;
  store: Pick<RecordStore, 'readRecord' | 'readRun' | 'readText' | 'readRawTexts' | 'wasErased'>;
  /** null: there is none, and everything is behind it. */
  index: SearchIndexReader | null;
  /** Told of each record that turns out not to be what was recorded. */
  onAltered?: (index: number) => void;
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

  readonly #onAltered: (index: number) => void;

  constructor({ read, store, index, onAltered = () => {} }: RecordSearchOptions) {
    this.#onAltered = onAltered;
    this.#read = read;
    this.#store = store;
    this.#index = index;
  }

  /** Makes searches use this index from now on. */
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
    const records: Hit[] = [];
    const indexed = Math.min((await this.#index?.end()) ?? 0, to);
    let at = from;
    if (at < indexed) at = await this.#findIndexed(query, { from, to: indexed }, records);
    // What the index lacks is looked at only by a search that has come to the end of the index.
    if (at >= indexed && at < to && records.length < query.limit) {
      at = await this.#findBehind(query, { from: at, to }, records);
    }
    return this.#markKnown(query, { from, to: at }, { records, end: to });
  }

  /** Adds those that were found altered before, to which nothing else may lead any more. */
  async #markKnown(
    { tenant, limit }: RecordQuery,
    { from, to }: Span,
    found: { records: Hit[]; end: number },
  ): Promise<Found> {
    const { records } = found;
    const seen = new Set(records.map(({ index }) => index));
    for (const index of await listAltered(this.#read, { from, to, tenant, max: limit })) {
      if (!seen.has(index) && (await this.#isAltered(index))) records.push({ index, text: null });
    }
    records.sort((a, b) => a.index - b.index);
    const last = records.length > limit ? records[limit - 1]?.index : undefined;
    if (last !== undefined) return { records: records.slice(0, limit), nextIndex: last };
    return { records, nextIndex: to < found.end ? to - 1 : null };
  }

  /** It may have been put right since. */
  async #isAltered(index: number): Promise<boolean> {
    try {
      return (
        (await this.#store.readText(index)) === undefined && !(await this.#store.wasErased(index))
      );
    } catch (error) {
      return error instanceof AlteredRecord;
    }
  }

  /** Marks an altered record that the caller may see by its row. */
  async #mark(index: number, { tenant }: RecordQuery, records: Hit[]): Promise<void> {
    this.#onAltered(index);
    const kept = await this.#store.readRecord(index, nobodys);
    const isVisible = tenant === null || kept?.tenant === tenant || kept?.bucketTenant === tenant;
    if (isVisible) records.push({ index, text: null });
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
  async #findIndexed(query: RecordQuery, { from, to }: Span, records: Hit[]): Promise<number> {
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
        const index = begin + place;
        const text = await this.#readFound(index, records);
        if (text === null) return index;
        if (text === altered) await this.#mark(index, query, records);
        else if (text !== undefined && fitting(text, terms, query.prefix)) {
          records.push({ index, text });
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
  async #readFound(
    index: number,
    records: readonly Hit[],
  ): Promise<string | typeof altered | undefined | null> {
    try {
      return await this.#store.readText(index);
    } catch (error) {
      if (error instanceof AlteredRecord) return altered;
      if (error instanceof PackFailure && records.length > 0) return null;
      throw error;
    }
  }

  /** The same for records that are not indexed yet. */
  async #findBehind(query: RecordQuery, { from, to }: Span, records: Hit[]): Promise<number> {
    const end = Math.min(from + examinedMax, to);
    const terms = termsWanted(query);
    const pace = new Pace();
    for (let at = from; at < end; at += readAtOnce) {
      const wanted = Math.min(at + readAtOnce, end);
      const { texts, to: readEnd } = await this.#readBehind(at, wanted, from);
      for (const { index, text: raw } of texts) {
        if (raw !== null && !mayFit(raw, terms, query.prefix)) continue;
        const text = await this.#readFound(index, records);
        if (text === null) return index;
        if (text === altered) await this.#mark(index, query, records);
        else if (text !== undefined && fitting(text, terms, query.prefix)) {
          records.push({ index, text });
        }
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
  ): Promise<{ texts: { index: number; text: string | null }[]; to: number }> {
    try {
      return { texts: await this.#store.readRawTexts(from, to - from), to };
    } catch (error) {
      const end = error instanceof PackFailure ? Math.max(error.from, from) : begun;
      if (end === begun) throw error;
      return { texts: await this.#store.readRawTexts(from, end - from), to: end };
    }
  }
}

/** Whether a text that is no record would fit cannot be known. */
function mayFit(raw: string, terms: readonly string[], prefix: string | undefined): boolean {
  try {
    return fitting(raw, terms, prefix) !== undefined;
  } catch {
    return true;
  }
}
