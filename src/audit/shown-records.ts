// Records as they are shown. Invariant: each is compared with its commitment, and with the row by
// which it was decided who may see it, before anybody is shown it; of one that is something else
// nothing is shown but that, and its finder is told.
import {
  AlteredRecord,
  fits,
  type IsWanted,
  type KeptRecord,
  type RecordStore,
} from './record-store.ts';

export interface ShownRecord extends KeptRecord {
  /** It is not what was recorded; `opened` is null. */
  isAltered: boolean;
}

const anybodys: IsWanted = () => true;
const nobodys: IsWanted = () => false;

export class ShownRecords {
  readonly #store: RecordStore;
  readonly #onAltered: (index: number) => void;

  constructor(store: RecordStore, onAltered: (index: number) => void) {
    this.#store = store;
    this.#onAltered = onAltered;
  }

  /** undefined: there is none yet. Throws as `RecordStore.readRecord`, but for what was altered. */
  async readRecord(index: number, isWanted = anybodys): Promise<ShownRecord | undefined> {
    try {
      const kept = await this.#store.readRecord(index, isWanted);
      return kept && (await this.#show(kept, isWanted));
    } catch (cause) {
      if (!(cause instanceof AlteredRecord)) throw cause;
      const leaf = await this.#store.readRecord(index, nobodys);
      return leaf && this.#mark(leaf);
    }
  }

  /** Reads as `RecordStore.readRun` does. */
  async readRun(from: number, max: number, isWanted = anybodys): Promise<ShownRecord[]> {
    const run: ShownRecord[] = [];
    try {
      for (const kept of await this.#store.readRun(from, max, isWanted)) {
        run.push(await this.#show(kept, isWanted));
      }
      return run;
    } catch (cause) {
      if (!(cause instanceof AlteredRecord)) throw cause;
    }
    for (let index = from + run.length; index < from + max; index++) {
      const record = await this.readRecord(index, isWanted);
      if (!record) break;
      run.push(record);
    }
    return run;
  }

  async #show(kept: KeptRecord, isWanted: IsWanted): Promise<ShownRecord> {
    const { index, opened } = kept;
    const isTrue = opened ? fits(kept) : !isWanted(kept) || (await this.#store.wasErased(index));
    return isTrue ? { ...kept, isAltered: false } : this.#mark(kept);
  }

  #mark(kept: KeptRecord): ShownRecord {
    this.#onAltered(kept.index);
    return { ...kept, opened: null, isAltered: true };
  }
}
