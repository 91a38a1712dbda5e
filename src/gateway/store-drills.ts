// Drills: a part of what a store holds is hidden in it, as if it were lost, and can be shown again.
// So an operator sees whether losses are found, repaired and told, before there are any.
// Invariants: what is hidden is copied within its store before it is removed, so a drill that ends
// anywhere has lost nothing; one thing is done in a store at a time; which extents are hidden
// follows from the seed alone; and what was repaired meanwhile is not shown again, nor is what no
// object has that the database knows: that stays hidden, since an older database may not know all.
import { createHash } from 'node:crypto';
import { isKnownExtent, isStoredIn, listStoredIn } from '../catalog/extent-copies.ts';
import { monotonicMs } from '../core/clock.ts';
import type { Reader } from '../core/database.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { storedBytesMax } from '../tiering/stored-extent.ts';
import type { RemoteStore } from '../tiering/stores/store.ts';

export interface DrillServices {
  read: Reader;
  ledger: Pick<Ledger, 'maintain'>;
  stores: { remote(number: number): RemoteStore };
  /** Rejects when the store's place is not ours. */
  confirmPlace(store: number): Promise<void>;
}

export interface DrillSlice {
  /** Where the next slice begins; null: that was all. */
  next: string | null;
  /** Extents that were looked at, and those of them that were hidden, or shown again. */
  extents: number;
  changed: number;
}

/** Where hidden extents are in their store. */
const folder = 'drill/';
const idForm = /^drill\/([0-9a-f]{32})$/;
const sliceMsMax = 2000;
const pageRows = 500;
/** How many rows are looked at again at once, a commit; what is beyond waits its time. */
const hastenedMax = 1000;
const hastenedSlicesMax = 20;

export class StoreDrills {
  readonly #read: Reader;
  readonly #stores: { remote(number: number): RemoteStore };

  readonly #confirmPlace: DrillServices['confirmPlace'];
  readonly #ledger: Pick<Ledger, 'maintain'>;
  /** By store whether something is hidden in it, as far as was seen. */
  readonly #hiding = new Map<number, boolean>();
  /** What is under way in each store. */
  readonly #turns = new Map<number, Promise<unknown>>();

  constructor({ read, ledger, stores, confirmPlace }: DrillServices) {
    this.#confirmPlace = confirmPlace;
    this.#read = read;
    this.#ledger = ledger;
    this.#stores = stores;
  }

  /** What may be back in a store is looked at again at once. */
  async hasten(number: number): Promise<void> {
    const work = { kind: 'hastenRepairs', store: number, max: hastenedMax } as const;
    for (let slices = 0; slices < hastenedSlicesMax; slices++) {
      if ((await this.#ledger.maintain(work)) < hastenedMax) return;
    }
  }

  /** Looks whether something is hidden in a store; null: it does not say. */
  async look(number: number): Promise<boolean | null> {
    try {
      for await (const { name } of this.#stores.remote(number).listObjects(folder)) {
        if (!idForm.test(name)) continue;
        this.#hiding.set(number, true);
        return true;
      }
      this.#hiding.set(number, false);
      return false;
    } catch {
      return null;
    }
  }

  /** Whether something is hidden in a store, as it was last seen; null: nobody has looked. */
  isHiding(number: number): boolean | null {
    return this.#hiding.get(number) ?? null;
  }

  /** Hides the share `lose` of the extents behind `after`, for some two seconds. */
  hide(number: number, asked: { lose: number; seed: number; after: string }): Promise<DrillSlice> {
    return this.#inTurn(number, () => this.#hide(number, asked));
  }

  /** Shows again what was hidden behind `after`, by whatever drill. */
  undo(number: number, asked: { after: string }): Promise<DrillSlice> {
    return this.#inTurn(number, () => this.#undo(number, asked));
  }

  #inTurn(number: number, work: () => Promise<DrillSlice>): Promise<DrillSlice> {
    const done = async () => {
      await this.#confirmPlace(number);
      const slice = await work();
      await this.look(number);
      return slice;
    };
    const turn = (this.#turns.get(number) ?? Promise.resolve()).then(done, done);
    this.#turns.set(number, turn);
    return turn;
  }

  async #hide(
    number: number,
    { lose, seed, after }: { lose: number; seed: number; after: string },
  ): Promise<DrillSlice> {
    const store = this.#stores.remote(number);
    const endMs = monotonicMs() + sliceMsMax;
    const slice: DrillSlice = { next: after, extents: 0, changed: 0 };
    for (let from: Uint8Array = Buffer.from(after, 'hex'); ; ) {
      const ids = await listStoredIn(this.#read, number, from, pageRows);
      for (const id of ids) {
        if (isChosen(id, seed, lose) && (await hideOne(store, id))) slice.changed++;
        slice.extents++;
        slice.next = id.toString('hex');
        if (monotonicMs() >= endMs) return slice;
      }
      if (ids.length < pageRows) return { ...slice, next: null };
      from = ids.at(-1) as Buffer;
    }
  }

  async #undo(number: number, { after }: { after: string }): Promise<DrillSlice> {
    const store = this.#stores.remote(number);
    const endMs = monotonicMs() + sliceMsMax;
    const slice: DrillSlice = { next: null, extents: 0, changed: 0 };
    const from = after === '' ? undefined : nameOf(Buffer.from(after, 'hex'));
    for await (const { name } of store.listObjects(folder, from)) {
      const hex = idForm.exec(name)?.[1];
      if (hex === undefined) continue;
      if (await this.#showOne(store, Buffer.from(hex, 'hex'))) slice.changed++;
      slice.extents++;
      slice.next = hex;
      if (monotonicMs() >= endMs) return slice;
    }
    return { ...slice, next: null };
  }

  async #showOne(store: RemoteStore, id: Buffer): Promise<boolean> {
    const name = nameOf(id);
    if (!(await isKnownExtent(this.#read, id))) return false;
    const isWanted =
      (await isStoredIn(this.#read, store.number, id)) && !(await store.readEnd(id, 1));
    const bytes = isWanted ? await store.getObject(name) : undefined;
    if (bytes) await store.put(id, [bytes]);
    await store.removeObject(name);
    return bytes !== undefined;
  }
}

async function hideOne(store: RemoteStore, id: Buffer): Promise<boolean> {
  const found = await store.readEnd(id, storedBytesMax);
  if (!found || found.bytes.length !== found.sizeBytes) return false;
  // What was hidden before is as it was written, whatever has become of the extent since.
  await store.putObject(nameOf(id), found.bytes, { ifAbsent: true });
  await store.remove(id);
  return true;
}

function nameOf(id: Buffer): string {
  return `${folder}${id.toString('hex')}`;
}

/** The same of each extent, in whatever order they come. */
function isChosen(id: Buffer, seed: number, lose: number): boolean {
  const digest = createHash('sha256').update(`${seed} `).update(id).digest();
  return digest.readUIntBE(0, 6) / 2 ** 48 < lose;
}
