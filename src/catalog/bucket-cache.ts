// Buckets by name, kept in memory: every request needs one, and they change seldom. The gateway
// forgets a bucket whenever a commit of its own has changed it, before it answers that request.
import type { Reader } from '../core/database.ts';
import { type Bucket, findBucket } from './buckets.ts';

/** Far more than a gateway's working set; beyond it the cache begins again. */
const bucketsMax = 10_000;
/** Of their policies together, which are kept compiled too, up to a hundred times as large. */
const policiesLengthMax = 2 * 1024 * 1024;

export class BucketCache {
  readonly #read: Reader;
  readonly #buckets = new Map<string, Bucket>();
  #policiesLength = 0;
  #changes = 0;
  hits = 0;
  misses = 0;

  constructor(read: Reader) {
    this.#read = read;
  }

  get entries(): number {
    return this.#buckets.size;
  }

  /** The bucket of this name; names that are not there are not kept. */
  async find(tenant: string, name: string): Promise<Bucket | undefined> {
    const id = `${tenant}/${name}`;
    const kept = this.#buckets.get(id);
    if (kept) {
      this.hits += 1;
      return kept;
    }
    this.misses += 1;
    const changes = this.#changes;
    const bucket = await findBucket(this.#read, tenant, name);
    if (!bucket) return undefined;
    // What was read before a change that has been made meanwhile is not kept.
    if (changes !== this.#changes) return bucket;
    this.#keep(id, bucket);
    return bucket;
  }

  forget(tenant: string, name: string): void {
    this.#changes += 1;
    this.#drop(`${tenant}/${name}`);
  }

  #keep(id: string, bucket: Bucket): void {
    this.#drop(id);
    const length = lengthOf(bucket);
    if (this.#buckets.size >= bucketsMax || this.#policiesLength + length > policiesLengthMax) {
      this.#buckets.clear();
      this.#policiesLength = 0;
    }
    this.#buckets.set(id, bucket);
    this.#policiesLength += length;
  }

  #drop(id: string): void {
    const bucket = this.#buckets.get(id);
    if (bucket && this.#buckets.delete(id)) this.#policiesLength -= lengthOf(bucket);
  }
}

function lengthOf({ policy }: Bucket): number {
  return policy?.length ?? 0;
}
