// Snapshots and moments that mounts show, kept in memory by the names of their buckets: each
// request to a mount needs one. That there is none of a name is kept, too, and of buckets that are
// not there as of those that are, so that the time of an answer does not tell them apart.
import { findSnapshot, findSnapshotAt, type Snapshot } from '../catalog/snapshots.ts';
import { readMoment } from '../catalog/undelete-window.ts';
import type { Reader } from '../core/database.ts';
import { type Followed, Loads } from '../core/loads.ts';
import { getOrMake } from '../core/maps.ts';
import type { LedgerEvent } from '../ledger/events.ts';
import type { KeptMoments } from './kept-moments.ts';

/** What a mount shows of a snapshot; null: there is none. */
export type KeptSnapshot = Pick<Snapshot, 'seq' | 'prefix'> | null;

/** Far more than a gateway's working set; beyond it the cache begins again. */
const snapshotsMax = 10_000;
/** No bucket has it. */
const noBucket = -1;

export class SnapshotCache {
  readonly #read: Reader;
  readonly #moments: Pick<KeptMoments, 'find' | 'keeps'>;
  /**
   * By tenant and name of the bucket; of each by its id, in case another of the name was looked at
   * just before, and by the snapshot's name.
   */
  readonly #kept = new Map<string, Map<string, KeptSnapshot>>();
  #size = 0;
  readonly #loads: Loads;
  hits = 0;
  misses = 0;

  constructor(read: Reader, followed: Followed, moments: Pick<KeptMoments, 'find' | 'keeps'>) {
    this.#read = read;
    this.#moments = moments;
    this.#loads = new Loads(followed);
  }

  get entries(): number {
    return this.#size;
  }

  /**
   * The living snapshot of this name, or what shows the bucket as of this moment. `id`: of the
   * bucket; undefined: there is no such bucket. A promise only where it is not in memory.
   */
  find(
    { tenant, bucket, id }: { tenant: string; bucket: string; id: number | undefined },
    name: string,
  ): KeptSnapshot | Promise<KeptSnapshot> {
    const timeMs = readMoment(name);
    if (timeMs !== null) return this.#findMoment(id ?? noBucket, timeMs);
    const of = `${tenant}/${bucket}`;
    const place = { of, id, name };
    const kept = this.#kept.get(of)?.get(keyOf(place));
    if (kept === undefined) return this.#load(place);
    this.hits += 1;
    return kept;
  }

  /** What shows the bucket as of a record: a snapshot, or its window; null: nothing does. */
  async findAt(bucketId: number, index: number): Promise<KeptSnapshot> {
    if (await this.#moments.keeps(bucketId, index)) return { seq: index, prefix: '' };
    return (await findSnapshotAt(this.#read, bucketId, index)) ?? null;
  }

  async #findMoment(id: number, timeMs: number): Promise<KeptSnapshot> {
    const seq = await this.#moments.find(id, timeMs);
    return seq === null ? null : { seq, prefix: '' };
  }

  apply(event: LedgerEvent, index: number): void {
    if (event.kind !== 'bucket') return;
    this.#loads.outdate(index);
    const of = `${event.tenant}/${event.name}`;
    this.#size -= this.#kept.get(of)?.size ?? 0;
    this.#kept.delete(of);
  }

  async #load(place: Place): Promise<KeptSnapshot> {
    this.misses += 1;
    const { asOf } = this.#loads;
    const found = (await findSnapshot(this.#read, place.id ?? noBucket, place.name)) ?? null;
    // What was read before a change is not kept when the change has been made meanwhile.
    if (this.#loads.isCurrent(asOf)) this.#keep(place, found);
    return found;
  }

  #keep(place: Place, found: KeptSnapshot): void {
    if (this.#size >= snapshotsMax) {
      this.#kept.clear();
      this.#size = 0;
    }
    const ofBucket = getOrMake(this.#kept, place.of, () => new Map<string, KeptSnapshot>());
    if (!ofBucket.has(keyOf(place))) this.#size += 1;
    ofBucket.set(keyOf(place), found);
  }
}

interface Place {
  /** The bucket, as `TENANT/NAME`, and its id; undefined: there is no such bucket. */
  of: string;
  id: number | undefined;
  name: string;
}

function keyOf({ id, name }: Place): string {
  return `${id ?? ''}/${name}`;
}
