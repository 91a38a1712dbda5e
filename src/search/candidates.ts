// The keys of objects that may fit a query, out of the index, in their order. Invariants: none that
// fits is passed over between where it begins and where it ends; and how many postings are read at
// once is bounded, whatever is asked for.
import { type OpenDatabase, openDatabase, type Reader } from '../core/database.ts';
import { compareText } from '../core/text-order.ts';
import { readField, readState } from './object-index.ts';
import {
  isOneValue,
  type KeySpan,
  type Plan,
  planOf,
  type Run,
  runsOf,
  sortedMax,
} from './plan.ts';
import { type IndexedMetadata, isIndexed as isIndexedIn } from './postings.ts';
import type { FieldName, Query } from './query.ts';

export interface Wanted extends KeySpan {
  bucketId: number;
  query: Query;
  /** Not `from` itself, but what is behind it. */
  exclusive: boolean;
  max: number;
  /** The plan depends on the query alone, and on nothing that the bucket has. */
  isBlind: boolean;
}

export interface Candidates {
  keys: string[];
  /** Up to and with this key all was looked for; null: to the end. */
  through: string | null;
  plan: Plan;
}

/**
 * Postings that are read at once, besides those that are sorted and those that each run begins
 * with. Were these counted, a query of many runs would be given one key at a time.
 */
const readMax = 20_000;
const aheadMin = 16;
const aheadMax = 512;

const readerCacheKib = 32 * 1024;

export class CandidateReader {
  readonly #db: OpenDatabase;
  readonly #metadata: IndexedMetadata;
  /** Of runs that were counted lately. */
  readonly #counts = new Map<string, { count: number; atMs: number }>();

  constructor(path: string, metadata: IndexedMetadata) {
    this.#db = openDatabase(path, { readonly: true, cacheKib: readerCacheKib });
    this.#metadata = metadata;
  }

  /**
   * Up to `max` keys; null: the index does not lead to them, as it is not complete, or all objects
   * are as well looked at.
   */
  async find(wanted: Wanted): Promise<Candidates | null> {
    const { tx } = this.#db;
    if ((await readState(tx)).scan) return null;
    const plan = await this.#plan(wanted);
    if (!plan) return null;
    const meter = { left: readMax };
    const of = (run: Run) => streamOf(tx, wanted, run, meter);
    const streams = await Promise.all(plan.any.map(of));
    const filters = await Promise.all(plan.all.map(of));
    const keys: string[] = [];
    let at = { key: wanted.from, isPast: wanted.exclusive };
    while (keys.length < wanted.max) {
      const next = await leastOf(streams, at);
      if (next === null || isBeyond(next, wanted)) return { keys, through: null, plan };
      const found = await seekAll(filters, next);
      if (found === null || isBeyond(found, wanted)) return { keys, through: null, plan };
      // What lies before the key of a filter is not in all of them. When enough was read it is
      // looked at in any case, so that there is a key up to which all was looked for.
      const isEnough = meter.left <= 0;
      if (found === next || isEnough) keys.push(found);
      if (isEnough) break;
      at = { key: found, isPast: found === next };
    }
    return { keys, through: keys.at(-1) ?? null, plan };
  }

  close(): void {
    this.#db.close();
  }

  async #plan({ bucketId, query, isBlind }: Wanted): Promise<Plan | null> {
    const isIndexed = (field: FieldName) => isIndexedIn(field, this.#metadata);
    if (isBlind) {
      // How long a range takes, and whether it leads, depends on how many have such values.
      const count = (run: Run) => (isOneValue(run) ? 1 : Number.POSITIVE_INFINITY);
      return planOf(query, { isIndexed, count });
    }
    const counts = new Map<string, number>();
    for (const run of runsOf(query)) {
      const name = nameOf(bucketId, run);
      counts.set(name, await this.#count(name, bucketId, run));
    }
    return planOf(query, {
      isIndexed,
      count: (run) => counts.get(nameOf(bucketId, run)) ?? Number.POSITIVE_INFINITY,
    });
  }

  /** A plan is as good by what there was a moment ago. */
  async #count(name: string, bucketId: number, run: Run): Promise<number> {
    const nowMs = performance.now();
    const known = this.#counts.get(name);
    if (known && nowMs - known.atMs < countedMs) return known.count;
    const { tx } = this.#db;
    const field = await readField(tx, bucketId, run.field, run.kind);
    let count = 0;
    if (field !== undefined) {
      const { where, values } = boundsOf(run);
      const sql = `SELECT count(*) AS count FROM (
        SELECT 1 FROM postings WHERE field = ?${where} LIMIT ?)`;
      count = (await tx.get<{ count: number }>(sql, field, ...values, sortedMax + 1))?.count ?? 0;
    }
    if (this.#counts.size >= countsMax) this.#counts.clear();
    this.#counts.set(name, { count, atMs: nowMs });
    return count;
  }
}

const countedMs = 5000;
const countsMax = 1000;

interface Start {
  key: string;
  /** Behind the key, and not at it. */
  isPast: boolean;
}

/** Keys in their order. */
interface KeyStream {
  /** The first key from `at` on, which never goes back; null: there is none. */
  seek(at: Start): Promise<string | null>;
}

/** Bounds how many postings are read. */
interface Meter {
  left: number;
}

async function streamOf(
  read: Reader,
  { bucketId, from, below }: Wanted,
  run: Run,
  meter: Meter,
): Promise<KeyStream> {
  const field = await readField(read, bucketId, run.field, run.kind);
  if (field === undefined) return noKeys;
  return new RunStream(read, { field, run, span: { from, below } }, meter);
}

const noKeys: KeyStream = { seek: async () => null };

/** The keys of one run. Those of one value are read in their order, others are sorted. */
class RunStream implements KeyStream {
  readonly #read: Reader;
  readonly #of: { field: number; run: Run; span: KeySpan };
  readonly #meter: Meter;
  /** By key already. */
  readonly #isSorted: boolean;
  #rows: { key: string }[] = [];
  #next = 0;
  #ahead = aheadMin;
  #isBegun = false;

  constructor(read: Reader, of: { field: number; run: Run; span: KeySpan }, meter: Meter) {
    this.#read = read;
    this.#of = of;
    this.#meter = meter;
    this.#isSorted = isOneValue(of.run);
    // To sort takes as long for one as for many.
    if (!this.#isSorted) this.#ahead = sortedAhead;
  }

  async seek({ key, isPast }: Start): Promise<string | null> {
    const isBefore = (row: string) => {
      const order = compareText(row, key);
      return order < 0 || (order === 0 && isPast);
    };
    for (let passed = 0; this.#next < this.#rows.length; this.#next++, passed++) {
      const row = this.#rows[this.#next] as { key: string };
      if (!isBefore(row.key)) return row.key;
      // To look it up is less than to pass many.
      if (passed === passedMax && this.#isSorted) break;
    }
    if (this.#next < this.#rows.length) this.#ahead = aheadMin;
    await this.#fill(key, isPast);
    return this.#rows[0]?.key ?? null;
  }

  async #fill(key: string, isPast: boolean): Promise<void> {
    const { field, run, span } = this.#of;
    const { where, values } = boundsOf(run);
    const sql = `SELECT key FROM postings WHERE field = ?${where}
      AND key ${isPast ? '>' : '>='} ?${span.below === null ? '' : ' AND key < ?'}
      ORDER BY key LIMIT ?`;
    const below = span.below === null ? [] : [span.below];
    const bounds = [field, ...values, key, ...below, this.#ahead];
    this.#rows = await this.#read.all<{ key: string }>(sql, ...bounds);
    this.#next = 0;
    if (this.#isBegun) this.#meter.left -= this.#rows.length + 1;
    this.#isBegun = true;
    if (this.#isSorted) this.#ahead = Math.min(this.#ahead * 2, aheadMax);
  }
}

const passedMax = 64;
const sortedAhead = 1024;

function boundsOf(run: Run): { where: string; values: (string | number)[] } {
  const { low, high } = run;
  if (isOneValue(run)) return { where: ' AND value = ?', values: [low as string | number] };
  const where = `${low === null ? '' : ' AND value >= ?'}${high === null ? '' : ' AND value <= ?'}`;
  return { where, values: [low, high].filter((value) => value !== null) };
}

async function leastOf(streams: readonly KeyStream[], at: Start): Promise<string | null> {
  let least: string | null = null;
  for (const stream of streams) {
    const key = await stream.seek(at);
    if (key !== null && (least === null || compareText(key, least) < 0)) least = key;
  }
  return least;
}

/** The key itself where all have it, else the first that a filter has behind it; null: none. */
async function seekAll(filters: readonly KeyStream[], key: string): Promise<string | null> {
  for (const filter of filters) {
    const found = await filter.seek({ key, isPast: false });
    if (found !== key) return found;
  }
  return key;
}

function isBeyond(key: string, { below }: KeySpan): boolean {
  return below !== null && compareText(key, below) >= 0;
}

function nameOf(bucketId: number, run: Run): string {
  return JSON.stringify([bucketId, run]);
}
