// Buckets by name, kept in memory: every request needs one, and they change seldom. The gateway
// forgets a bucket whenever a commit of its own has changed it, before it answers that request.
import type { Reader } from '../core/database.ts';
import { type Bucket, findBucket } from './buckets.ts';

/** Far more than a gateway's working set; beyond it the cache begins again. */
const bucketsMax = 10_000;

export class BucketCache {
  readonly #read: Reader;
  readonly #buckets = new Map<string, Bucket>();
  #changes = 0;

  constructor(read: Reader) {
    this.#read = read;
  }

  /** The bucket of this name; names that are not there are not kept. */
  async find(tenant: string, name: string): Promise<Bucket | undefined> {
    const id = `${tenant}/${name}`;
    const kept = this.#buckets.get(id);
    if (kept) return kept;
    const changes = this.#changes;
    const bucket = await findBucket(this.#read, tenant, name);
    if (!bucket) return undefined;
    // What was read before a change that has been made meanwhile is not kept.
    if (changes !== this.#changes) return bucket;
    if (this.#buckets.size >= bucketsMax) this.#buckets.clear();
    this.#buckets.set(id, bucket);
    return bucket;
  }

  forget(tenant: string, name: string): void {
    this.#changes += 1;
    this.#buckets.delete(`${tenant}/${name}`);
  }
}
