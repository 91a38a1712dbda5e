// Finds objects of a bucket: what may fit comes out of the index, or is all that there is, and each
// is read from the catalog, found authentic and compared with the query. Invariants: what is given
// fits, by what the catalog says now; one page looks at a bounded number of objects, so that its
// time and its price are bounded, too; and neither where a page ends nor how many it looked at
// tells what objects say that who asks may not read, as long as the index does not lead to many
// times more objects that do not fit, or that they may not read, than a page gives.
import { type BucketName, verifyListed } from '../catalog/authentic.ts';
import type { ListedObject } from '../catalog/listing.ts';
import { listKeysEver, readListedAt } from '../catalog/snapshot-reads.ts';
import {
  type Catalog,
  type PackedVersion,
  packedColumns,
  unpackVersion,
} from '../catalog/versions.ts';
import { Pace } from '../core/pace.ts';
import { textSuccessor } from '../core/text-order.ts';
import { Facts, fits } from './facts.ts';
import type { ObjectSearch } from './object-search.ts';
import { isOneValue, type KeySpan, narrow, type Plan, spanOf } from './plan.ts';
import type { Query } from './query.ts';

/** Objects that one page looks at: as many as a listing shows. */
export const lookedMax = 1000;
/**
 * Those that the index led to and that a page passes over besides: as many that who asks may not
 * read, and as many that do not fit. They are counted apart, so that those tell nothing of these.
 */
const passedMax = 5 * lookedMax;
/**
 * Times that one page asks the index, which reads a bounded number of postings each time. As each
 * time gives hundreds of keys, a page ends by this only where far more are in one run than in all.
 */
const asksMax = 32;
/** What of the candidates is no hit is made up for, so that most small pages ask once. */
const spareCandidates = 8;
/**
 * Candidates that are asked for first. A page that needs more asks for up to twice as many while it
 * reads these: the index is read in another thread, and takes about half as long for each.
 */
const firstCandidates = 250;

export interface FindQuery {
  query: Query;
  /** What fits is among what fits this: others are not there. Absent: among all. */
  within?: Query | null;
  /** Keys begin with it. */
  prefix: string;
  /** Keys behind this one; null: all. */
  after: string | null;
  /** Keys from this one on; absent: all. */
  from?: string;
  /** Objects that are given at most. */
  max: number;
  /** As of which record; undefined: now. */
  at?: number | undefined;
  /** Absent: who asks may read all. */
  mayRead?: (row: ListedObject) => boolean | Promise<boolean>;
  /** How the index leads depends on nothing that the bucket has; absent: it may. */
  isBlind?: boolean;
}

export interface FoundPage<E> {
  entries: E[];
  /**
   * Objects that were read, and that who asks may read; where the index led to them, those that
   * fit, since by which runs it leads depends on all that the bucket has.
   */
  looked: number;
  /** Up to and with this key all was looked for; null: to the end. */
  through: string | null;
  /** How the index led to them; null: it did not, and all objects are looked at. */
  plan: Plan | null;
}

/** What finds objects. */
export interface FindServices extends Catalog {
  objects: Pick<ObjectSearch, 'find'>;
}

/**
 * What `take` makes of the objects that fit; null: it is passed over. Throws IntegrityError for one
 * that is not authentic.
 */
export async function findObjects<E>(
  services: FindServices,
  bucket: BucketName,
  asked: FindQuery,
  take: (row: ListedObject, facts: Facts) => E | null | Promise<E | null>,
): Promise<FoundPage<E>> {
  const { query, within, after, at, prefix, isBlind = false } = asked;
  const below = prefix === '' ? null : textSuccessor(prefix);
  const bounds = narrow({ from: prefix, below }, { from: asked.from ?? '', below: null });
  const both: Query = within ? { is: 'and', parts: [within, query] } : query;
  const span = narrow(spanOf(both), bounds);
  const page: FoundPage<E> = { entries: [], looked: 0, through: null, plan: null };
  const pace = new Pace();
  let hidden = 0;
  let unfit = 0;
  let start = startOf(span, after);
  let max = Math.min(asked.max + spareCandidates, firstCandidates);
  const askIndex = (most: number) =>
    services.objects.find({
      ...{ ...start, bucketId: bucket.id, query: within ?? query, max: most, isBlind },
    });
  // The index knows nothing of what was.
  let asking = at === undefined ? askIndex(max) : null;
  for (let asks = 1; ; asks++) {
    const found = asking && (await asking);
    asking = null;
    page.plan ??= found?.plan ?? null;
    const through = found?.through ?? null;
    if (through !== null) {
      start = startOf(span, through);
      // To sort takes as long for few as for many.
      const isSorted = found?.plan.any.every(isOneValue) === false;
      max = isSorted ? lookedMax : Math.min(2 * max, lookedMax);
      const lacking = asked.max - page.entries.length - (found?.keys.length ?? 0);
      // These are not enough, even if all of them fit.
      if (lacking > 0 && asks < asksMax) {
        asking = askIndex(Math.min(max, lacking + spareCandidates));
      }
    }
    // Large pages take turns from their beginning, however many of them begin at once.
    if (!found || found.keys.length > rowsAtOnce) await pace.wait();
    const reader = new PageReader(services, bucket, start, at);
    for await (const rows of found ? reader.named(found.keys) : reader.all()) {
      // Whatever is no promise is not awaited: a thousand times that is a third of a page's time.
      for (const row of rows) {
        if (!found && page.looked + hidden >= lookedMax) return page;
        page.through = row.key;
        if (pace.isDue) await pace.wait();
        const facts = isObject(row) ? new Facts(row) : null;
        if (!isObject(row) || !facts || !isThere(services, bucket, asked, row, facts)) {
          hidden += 1;
          continue;
        }
        const reading = asked.mayRead?.(row) ?? true;
        if (!(typeof reading === 'boolean' ? reading : await reading)) {
          hidden += 1;
          continue;
        }
        const isFit = fits(query, facts);
        if (isFit || !found) page.looked += 1;
        else unfit += 1;
        const taken = isFit ? take(row, facts) : null;
        const entry = taken instanceof Promise ? await taken : taken;
        if (entry !== null && page.entries.push(entry) === asked.max) return page;
        // Here, and not with the next one, which may be one that who asks may not read.
        if (found && (page.looked >= lookedMax || unfit >= passedMax)) return page;
      }
    }
    page.through = through;
    if (through === null || hidden >= passedMax || asks === asksMax) return page;
    asking ??= askIndex(max);
  }
}

type Row = ListedObject | { key: string; isMarker: 1 };

/** Is there such an object, as the bucket is named? */
function isThere(
  { keyring }: Catalog,
  bucket: BucketName,
  { within }: FindQuery,
  row: ListedObject,
  facts: Facts,
): boolean {
  verifyListed(keyring, bucket, row);
  return !within || fits(within, facts);
}

function isObject(row: Row): row is ListedObject {
  return 'attributes' in row && !row.isMarker;
}

interface Start extends KeySpan {
  exclusive: boolean;
}

function startOf({ from, below }: KeySpan, after: FindQuery['after']): Start {
  if (after === null) return { from, below, exclusive: false };
  const later = narrow({ from, below }, { from: after, below: null }).from;
  return { from: later, below, exclusive: later === after };
}

const rowsAtOnce = 128;

/** Reads the rows of one page, in the order of keys. */
class PageReader {
  readonly #catalog: Catalog;
  readonly #bucketId: number;
  readonly #start: Start;
  readonly #at: number | undefined;

  constructor(catalog: Catalog, { id }: BucketName, start: Start, at: number | undefined) {
    this.#catalog = catalog;
    this.#bucketId = id;
    this.#start = start;
    this.#at = at;
  }

  async *named(keys: readonly string[]): AsyncGenerator<Row[]> {
    for (let at = 0; at < keys.length; at += rowsAtOnce) {
      const some = keys.slice(at, at + rowsAtOnce);
      const rows = new Map<string, ListedObject>();
      for (const row of await this.#readNamed(some)) rows.set(row.key, unpackVersion(row));
      yield some.map((key): Row => rows.get(key) ?? { key, isMarker: 1 });
    }
  }

  #readNamed(keys: readonly string[]): Promise<PackedVersion[]> {
    // As one text they take less than as a value each, and one statement is prepared for all.
    return this.#catalog.read.all<PackedVersion>(
      `SELECT ${packedColumns} FROM versions AS v
         WHERE bucket_id = ? AND key IN (SELECT value FROM json_each(?))`,
      ...[this.#bucketId, JSON.stringify(keys)],
    );
  }

  async *all(): AsyncGenerator<Row[]> {
    let { from, exclusive } = this.#start;
    for (;;) {
      const rows = await (this.#at === undefined
        ? this.#readNow(from, exclusive)
        : this.#readThen(from, exclusive, this.#at));
      yield rows;
      const last = rows.at(-1);
      if (!last || rows.length < rowsAtOnce) return;
      [from, exclusive] = [last.key, true];
    }
  }

  async #readNow(from: string, exclusive: boolean): Promise<ListedObject[]> {
    const { below } = this.#start;
    const rows = await this.#catalog.read.all<PackedVersion>(
      `SELECT ${packedColumns} FROM versions AS v
         WHERE bucket_id = ? AND key ${exclusive ? '>' : '>='} ?
         ${below === null ? 'AND ? IS NULL' : 'AND key < ?'} ORDER BY key LIMIT ?`,
      ...[this.#bucketId, from, below, rowsAtOnce],
    );
    return rows.map(unpackVersion);
  }

  async #readThen(from: string, exclusive: boolean, at: number): Promise<Row[]> {
    const { read } = this.#catalog;
    const { below } = this.#start;
    const bucketId = this.#bucketId;
    const wanted = { bucketId, from, exclusive, below, max: rowsAtOnce };
    const rows: Row[] = [];
    for (const key of await listKeysEver(read, wanted)) {
      rows.push((await readListedAt(read, { bucketId, key, at })) ?? { key, isMarker: 1 });
    }
    return rows;
  }
}
