// Where in the log a bucket begins: behind the end of the one that had its name before. Invariant:
// who may read a bucket is told nothing of what another was, whose name it has.
import type { RecordSearch } from '../../audit/search/record-search.ts';
import type { Bucket } from '../../catalog/buckets.ts';

/** What ends a bucket; of the second also objects are ended. */
const endings = ['s3:DeleteBucket', 'bursar:RestoreEnd'];
const pageRecords = 1000;
const bucketsMax = 10_000;

export class BucketBeginnings {
  readonly #search: Pick<RecordSearch, 'find'>;
  /** By number of bucket, which is never given again. */
  readonly #known = new Map<number, Promise<number>>();

  constructor(search: Pick<RecordSearch, 'find'>) {
    this.#search = search;
  }

  /** The index of the last record before it; -1: there is none. Throws as `RecordSearch.find`. */
  find(bucket: Pick<Bucket, 'id' | 'tenant' | 'name'>): Promise<number> {
    const known = this.#known.get(bucket.id);
    if (known) return known;
    if (this.#known.size === bucketsMax) this.#known.clear();
    const found = this.#look(bucket);
    this.#known.set(bucket.id, found);
    found.catch(() => this.#known.delete(bucket.id));
    return found;
  }

  async #look({ tenant, name }: Pick<Bucket, 'tenant' | 'name'>): Promise<number> {
    let newest = -1;
    for (const action of endings) {
      let pastIndex: number | undefined;
      do {
        const query = { tenant, bucket: name, action, pastIndex, isNewestFirst: true };
        const { records, nextIndex } = await this.#search.find({ ...query, limit: pageRecords });
        const end = records.find(({ text }) => text !== null && isEnd(text, tenant));
        if (end) {
          newest = Math.max(newest, end.index);
          break;
        }
        pastIndex = nextIndex ?? undefined;
      } while (pastIndex !== undefined);
    }
    return newest;
  }
}

function isEnd(text: string, of: string): boolean {
  const { key, error, tenant, bucketTenant } = JSON.parse(text) as Record<string, unknown>;
  return key === undefined && error === undefined && (bucketTenant ?? tenant) === of;
}
