// A map from hashes, as many small ones: a map grows by being copied, and a copy of a million
// entries would be a pause that every request notices.

/** A power of two. */
const shardCount = 256;

export class ShardedMap<T> {
  readonly #shards = Array.from({ length: shardCount }, () => new Map<number, T>());

  get(hash: number): T | undefined {
    return this.#shardOf(hash).get(hash);
  }

  /** undefined removes. */
  set(hash: number, value: T | undefined): void {
    if (value === undefined) this.#shardOf(hash).delete(hash);
    else this.#shardOf(hash).set(hash, value);
  }

  #shardOf(hash: number): Map<number, T> {
    return this.#shards[hash & (shardCount - 1)] as Map<number, T>;
  }
}
