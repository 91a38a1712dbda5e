// Buckets that wait for their turns. Invariants: tenants have their turns one after the other,
// however many buckets each has, and so have the buckets of a tenant; and a bucket waits, or has
// its turn, once.
import { getOrMake } from '../core/maps.ts';

/** A bucket's turn: to go on where its walk has come to. */
export interface BucketTurn<C> {
  tenant: string;
  bucketId: number;
  cursor: C;
}

export class BucketTurns<C> {
  /** By tenant and bucket, in the order of their turns. */
  readonly #waiting = new Map<string, Map<number, C>>();
  /** Those that have their turns, by bucket. */
  readonly #underWay = new Map<number, BucketTurn<C>>();
  /** What they begin with after that, if they were put meanwhile. */
  readonly #putMeanwhile = new Map<number, C>();

  /** How many have their turns. */
  get underWay(): number {
    return this.#underWay.size;
  }

  /** Where it goes on is another then, if it waits already. */
  put({ tenant, bucketId, cursor }: BucketTurn<C>): void {
    if (this.#underWay.has(bucketId)) this.#putMeanwhile.set(bucketId, cursor);
    else getOrMake(this.#waiting, tenant, () => new Map<number, C>()).set(bucketId, cursor);
  }

  /** The same, unless its walk is under way already. */
  begin(turn: BucketTurn<C>): void {
    const { tenant, bucketId } = turn;
    if (this.#underWay.has(bucketId) || this.#waiting.get(tenant)?.has(bucketId)) return;
    this.put(turn);
  }

  /** The next, of a tenant that has fewer than so many; undefined: there is none. */
  take(perTenantMax: number): BucketTurn<C> | undefined {
    const counts = new Map<string, number>();
    for (const { tenant } of this.#underWay.values()) {
      counts.set(tenant, (counts.get(tenant) ?? 0) + 1);
    }
    for (const [tenant, buckets] of this.#waiting) {
      const [first] = buckets;
      if (!first || (counts.get(tenant) ?? 0) >= perTenantMax) continue;
      const [bucketId, cursor] = first;
      buckets.delete(bucketId);
      // The tenant is the last now.
      this.#waiting.delete(tenant);
      if (buckets.size > 0) this.#waiting.set(tenant, buckets);
      const turn = { tenant, bucketId, cursor };
      this.#underWay.set(bucketId, turn);
      return turn;
    }
    return undefined;
  }

  /** A turn has ended, and the walk has come to `cursor`; null: to its end. */
  end({ tenant, bucketId }: BucketTurn<C>, cursor: C | null): void {
    this.#underWay.delete(bucketId);
    const next = this.#putMeanwhile.get(bucketId) ?? cursor;
    this.#putMeanwhile.delete(bucketId);
    if (next !== null) this.put({ tenant, bucketId, cursor: next });
  }
}
