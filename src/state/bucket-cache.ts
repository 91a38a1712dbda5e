// Buckets by name, kept in memory: every request needs one, and they change seldom. Invariants: a
// name that is not there is answered from memory as one that is, so that the time of a refusal does
// not tell them apart; and whoever asks for many names that are not there pushes none out that are.
import { type Bucket, findBucket } from '../catalog/buckets.ts';
import type { Reader } from '../core/database.ts';
import { type Followed, Loads } from '../core/loads.ts';
import type { LedgerEvent } from '../ledger/events.ts';

/** Far more than a gateway's working set; beyond it the cache begins again. */
const bucketsMax = 10_000;
/**
 * The length of their policies together. These are kept compiled as well, which takes up to a
 * hundred times as much.
 */
const policiesLengthMax = 2 * 1024 * 1024;
/**
 * Names that were looked up or refused last; beyond it the one that was asked for longest ago goes.
 */
const askedMax = 10_000;

export class BucketCache {
  readonly #read: Reader;
  readonly #buckets = new Map<string, Bucket>();
  /**
   * Whether the names that were read, or whose askers were refused, are there. Those that are stand
   * here too: a refusal for either is one read of the database, and from then on none, for as long
   * as the name is among the last that were asked for.
   */
  readonly #asked = new Map<string, boolean>();
  #policiesLength = 0;
  readonly #loads: Loads;
  hits = 0;
  misses = 0;

  constructor(read: Reader, followed: Followed) {
    this.#read = read;
    this.#loads = new Loads(followed);
  }

  get entries(): number {
    return this.#buckets.size;
  }

  /** The bucket of this name. A promise only where it is not in memory. */
  find(tenant: string, name: string): Bucket | undefined | Promise<Bucket | undefined> {
    const id = `${tenant}/${name}`;
    const kept = this.#buckets.get(id);
    if (kept || this.#asked.get(id) === false) {
      this.hits += 1;
      return kept;
    }
    return this.#load(tenant, name, id);
  }

  /**
   * To be called before a request for this bucket is refused, whether the bucket is there or not:
   * from then on a refusal takes equally long for both.
   */
  async levelRefusal(tenant: string, name: string): Promise<void> {
    const id = `${tenant}/${name}`;
    const isThere = this.#asked.get(id);
    if (isThere === undefined) await this.#load(tenant, name, id);
    else this.#note(id, isThere);
  }

  apply(event: LedgerEvent, index: number): void {
    if (event.kind !== 'bucket') return;
    this.#loads.outdate(index);
    const id = `${event.tenant}/${event.name}`;
    this.#drop(id);
    this.#asked.delete(id);
  }

  async #load(tenant: string, name: string, id: string): Promise<Bucket | undefined> {
    this.misses += 1;
    const { asOf } = this.#loads;
    const bucket = await findBucket(this.#read, tenant, name);
    // A row that was read before a change is not kept when the change has been made meanwhile.
    if (!this.#loads.isCurrent(asOf)) return bucket;
    this.#note(id, bucket !== undefined);
    // One that is kept has its policy compiled.
    if (bucket && !this.#buckets.has(id)) this.#keep(id, bucket);
    return bucket;
  }

  /** Makes the name the one that was asked for last. */
  #note(id: string, isThere: boolean): void {
    this.#asked.delete(id);
    if (this.#asked.size >= askedMax) this.#asked.delete(this.#asked.keys().next().value as string);
    this.#asked.set(id, isThere);
  }

  #keep(id: string, bucket: Bucket): void {
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
