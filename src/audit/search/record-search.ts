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
import { type Bits, blockWidth, placesOf } from './positions.ts';
import type { SearchIndexReader } from './search-index.ts';
import { prefixWanted, type RecordQuery, Wanted } from './terms.ts';

/**
 * Records behind the index that one call looks at, fitting or not; and false hits that it takes.
 */
const examinedMax = blockWidth;
/** Records behind the index that are read at once: about a millisecond's work. */
const readAtOnce = 256;
/** Blocks of the index that one call passes: 16 million records. */
const blocksMax = 4096;
/** Blocks that are looked up together by a search that goes back: 256 KiB of places. */
const blocksAtOnce = 512;
const altered = Symbol('altered');
const nobodys: IsWanted = () => false;

export interface Found {
  /** In the order of the log, or from the newest back. */
  records: Hit[];
  /**
   * The index past which to go on when there may be more. A page can be empty and not be the last.
   */
  nextIndex: number | null;
}

export interface Hit {
  index: number;
  /** Canonical; null: it is not what was recorded, so that nobody can tell whether it fits. */
  text: string | null;
}

/** One call's look for one page. */
class Look {
  readonly query: RecordQuery;
  readonly records: Hit[];
  readonly wanted: Wanted;
  readonly pace = new Pace();
  /** To how many records the index has led that do not fit. */
  readonly passed = { count: 0 };

  constructor(query: RecordQuery, records: Hit[]) {
    this.query = query;
    this.records = records;
    this.wanted = new Wanted(query);
  }
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
    const span = await this.#spanOf(query);
    const indexed = Math.min((await this.#index?.end()) ?? 0, span.to);
    return query.isNewestFirst
      ? this.#findNewest(query, span, indexed)
      : this.#findOldest(query, span, indexed);
  }

  async #findOldest(query: RecordQuery, { from, to }: Span, indexed: number): Promise<Found> {
    const records: Hit[] = [];
    let at = from;
    if (at < indexed) at = await this.#findIndexed(query, { from, to: indexed }, records);
    // What the index lacks is looked at only by a search that has come to the end of the index.
    if (at >= indexed && at < to && records.length < query.limit) {
      at = await this.#findBehind(query, { from: at, to }, records);
    }
    const left = at < to ? at - 1 : null;
    return this.#markKnown(query, { from, to: at }, { records, left });
  }

  async #findNewest(query: RecordQuery, { from, to }: Span, indexed: number): Promise<Found> {
    const records: Hit[] = [];
    let at = to;
    if (at > Math.max(indexed, from)) {
      at = await this.#findBehindBack(query, { from: Math.max(indexed, from), to }, records);
    }
    // The index is looked at only by a search that has come to its end.
    if (at <= indexed && at > from && records.length < query.limit) {
      at = await this.#findIndexedBack(query, { from, to: at }, records);
    }
    return this.#markKnown(query, { from: at, to }, { records, left: at > from ? at : null });
  }

  /**
   * Adds those that were found altered before, to which nothing else may lead any more. `left`:
   * past which record there may be more.
   */
  async #markKnown(
    { tenant, limit, isNewestFirst }: RecordQuery,
    { from, to }: Span,
    { records, left }: { records: Hit[]; left: number | null },
  ): Promise<Found> {
    const seen = new Set(records.map(({ index }) => index));
    for (const index of await listAltered(this.#read, { from, to, tenant, max: limit })) {
      if (!seen.has(index) && (await this.#isAltered(index))) records.push({ index, text: null });
    }
    records.sort((a, b) => (isNewestFirst ? b.index - a.index : a.index - b.index));
    const last = records.length > limit ? records[limit - 1]?.index : undefined;
    if (last !== undefined) return { records: records.slice(0, limit), nextIndex: last };
    return { records, nextIndex: left };
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

  async #spanOf(query: RecordQuery): Promise<Span> {
    const { pastIndex, beforeIndex = Infinity, isNewestFirst, fromMs, toMs } = query;
    let from = isNewestFirst ? 0 : (pastIndex ?? -1) + 1;
    let to = await readLogSize(this.#read);
    if (toMs !== undefined) to = await firstSince(this.#read, this.#store, toMs);
    to = Math.min(to, beforeIndex);
    if (isNewestFirst && pastIndex !== undefined) to = Math.min(to, pastIndex);
    if (fromMs !== undefined && from < to) {
      from = Math.max(from, await firstSince(this.#read, this.#store, fromMs));
    }
    return { from, to };
  }

  /** Gives the index behind the last record that was looked at. */
  async #findIndexed(query: RecordQuery, { from, to }: Span, records: Hit[]): Promise<number> {
    const first = Math.floor(from / blockWidth);
    const last = Math.min(Math.ceil(to / blockWidth), first + blocksMax);
    const look = new Look(query, records);
    for await (const { block, bits } of this.#blocksWith(look.wanted, query, { first, last })) {
      const begin = block * blockWidth;
      const places = placesOf(bits, Math.max(from - begin, 0), to - begin);
      const end = await this.#lookAt(look, block, places);
      if (end) return end.isRead ? end.index + 1 : end.index;
    }
    return Math.min(last * blockWidth, to);
  }

  /** The same from the last block back. Gives the index of the oldest that was looked at. */
  async #findIndexedBack(query: RecordQuery, { from, to }: Span, records: Hit[]): Promise<number> {
    const oldest = Math.floor(from / blockWidth);
    const end = Math.ceil(to / blockWidth);
    const first = Math.max(oldest, end - blocksMax);
    const look = new Look(query, records);
    for (let last = end; last > first; last -= blocksAtOnce) {
      const run = { first: Math.max(first, last - blocksAtOnce), last };
      const blocks: { block: number; bits: Bits }[] = [];
      for await (const found of this.#blocksWith(look.wanted, query, run)) blocks.push(found);
      for (const { block, bits } of blocks.reverse()) {
        const begin = block * blockWidth;
        const places = [...placesOf(bits, Math.max(from - begin, 0), to - begin)].reverse();
        const ended = await this.#lookAt(look, block, places);
        if (ended) return ended.isRead ? ended.index : ended.index + 1;
      }
    }
    return Math.max(first * blockWidth, from);
  }

  #blocksWith(
    wanted: Wanted,
    query: RecordQuery,
    { first, last }: { first: number; last: number },
  ) {
    const prefix = prefixWanted(query);
    return this.#index?.blocksWith(wanted.terms, prefix, { from: first, to: last }) ?? [];
  }

  /**
   * Reads what the index leads to in a block. Gives where the page ends, and whether that record
   * was read; null: it goes on.
   */
  async #lookAt(
    { query, records, wanted, pace, passed }: Look,
    block: number,
    places: Iterable<number>,
  ): Promise<{ index: number; isRead: boolean } | null> {
    let isFalse = false;
    for (const place of places) {
      const index = block * blockWidth + place;
      const text = await this.#readFound(index, records);
      if (text === null) return { index, isRead: false };
      const compared = typeof text === 'string' ? wanted.compare(text) : undefined;
      if (text === altered) await this.#mark(index, query, records);
      else if (typeof text === 'string' && compared === 'fits') records.push({ index, text });
      else if (compared !== undefined) {
        if (compared === 'no' && !isFalse) this.#onFalse(block);
        isFalse ||= compared === 'no';
        passed.count += 1;
      }
      const isEnd = records.length === query.limit || passed.count === examinedMax;
      if (isEnd) return { index, isRead: true };
      if (pace.isDue) await pace.wait();
    }
    return null;
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
    const look = new Look(query, records);
    for (let at = from; at < end; at += readAtOnce) {
      const wantedEnd = Math.min(at + readAtOnce, end);
      const { texts, to: readEnd } = await this.#readBehind(at, wantedEnd, from);
      const ended = await this.#compare(look, texts);
      if (ended) return ended.isRead ? ended.index + 1 : ended.index;
      if (readEnd < wantedEnd) return readEnd;
      await look.pace.rest();
    }
    return end;
  }

  /** The same from the newest back. Gives the index of the oldest that was looked at. */
  async #findBehindBack(query: RecordQuery, { from, to }: Span, records: Hit[]): Promise<number> {
    const begin = Math.max(from, to - examinedMax);
    const look = new Look(query, records);
    for (let end = to; end > begin; end -= readAtOnce) {
      const at = Math.max(begin, end - readAtOnce);
      const texts = await this.#readBack(at, end, records);
      if (!texts) return end;
      const ended = await this.#compare(look, texts.reverse());
      if (ended) return ended.isRead ? ended.index : ended.index + 1;
      await look.pace.rest();
    }
    return begin;
  }

  /** null: its pack is not there, and the page ends behind it, so that what was found is told. */
  async #readBack(
    from: number,
    to: number,
    records: readonly Hit[],
  ): Promise<{ index: number; text: string | null }[] | null> {
    try {
      return await this.#store.readRawTexts(from, to - from);
    } catch (error) {
      if (error instanceof PackFailure && records.length > 0) return null;
      throw error;
    }
  }

  /** Gives where the page ends, and whether that record was read; null: it goes on. */
  async #compare(
    { query, records, wanted, pace }: Look,
    texts: readonly { index: number; text: string | null }[],
  ): Promise<{ index: number; isRead: boolean } | null> {
    for (const { index, text: raw } of texts) {
      if (raw !== null && !mayFit(raw, wanted)) continue;
      const text = await this.#readFound(index, records);
      if (text === null) return { index, isRead: false };
      if (text === altered) await this.#mark(index, query, records);
      else if (text !== undefined && wanted.compare(text) === 'fits') records.push({ index, text });
      if (records.length === query.limit) return { index, isRead: true };
      if (pace.isDue) await pace.wait();
    }
    return null;
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
function mayFit(raw: string, wanted: Wanted): boolean {
  try {
    return wanted.compare(raw) === 'fits';
  } catch {
    return true;
  }
}
