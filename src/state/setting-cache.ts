// One setting of buckets, read and parsed once. Answers to requests depend on it, so it is kept in
// memory, also that a bucket has none.
import { readSetting } from '../catalog/buckets.ts';
import type { Reader } from '../core/database.ts';
import { type Followed, Loads } from '../core/loads.ts';
import { Pace } from '../core/pace.ts';
import type { KeptSetting, LedgerEvent } from '../ledger/events.ts';

/** Far more than a gateway's working set; beyond it the cache begins again. */
const bucketsMax = 10_000;
/** The length of the documents together. Parsed, they take several times as much. */
const documentsLengthMax = 8 * 1024 * 1024;

interface Kept<T> {
  /** null: the bucket has none. */
  parsed: T | null;
  /** The bytes of its document. */
  length: number;
}

export class SettingCache<T> {
  readonly #read: Reader;
  readonly #name: KeptSetting;
  readonly #parse: (document: string) => T;
  readonly #kept = new Map<number, Kept<T>>();
  #documentsLength = 0;
  readonly #loads: Loads;
  hits = 0;
  misses = 0;

  constructor(
    name: KeptSetting,
    parse: (document: string) => T,
    { read, followed }: { read: Reader; followed: Followed },
  ) {
    this.#read = read;
    this.#loads = new Loads(followed);
    this.#name = name;
    this.#parse = parse;
  }

  get entries(): number {
    return this.#kept.size;
  }

  /** null: the bucket has none. A promise only where it is not in memory. */
  find(bucketId: number): T | null | Promise<T | null> {
    const kept = this.#kept.get(bucketId);
    if (!kept) return this.#load(bucketId);
    this.hits += 1;
    return kept.parsed;
  }

  apply(event: LedgerEvent, index: number): void {
    if (event.kind !== 'setting' || event.name !== this.#name) return;
    this.#loads.outdate(index);
    this.#drop(event.bucketId);
  }

  async #load(bucketId: number): Promise<T | null> {
    this.misses += 1;
    const { asOf } = this.#loads;
    const pace = new Pace();
    const document = await readSetting(this.#read, bucketId, this.#name);
    // The longest document is a megabyte.
    await pace.rest();
    const parsed = document === null ? null : this.#parse(document);
    // A document that was read before a change is not kept when the change has been made meanwhile.
    if (this.#loads.isCurrent(asOf)) this.#keep(bucketId, parsed, document?.length ?? 0);
    return parsed;
  }

  #drop(bucketId: number): void {
    this.#documentsLength -= this.#kept.get(bucketId)?.length ?? 0;
    this.#kept.delete(bucketId);
  }

  #keep(bucketId: number, parsed: T | null, length: number): void {
    this.#drop(bucketId);
    const isFull =
      this.#kept.size >= bucketsMax || this.#documentsLength + length > documentsLengthMax;
    if (isFull) {
      this.#kept.clear();
      this.#documentsLength = 0;
    }
    this.#kept.set(bucketId, { parsed, length });
    this.#documentsLength += length;
  }
}
