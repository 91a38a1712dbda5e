// All else that the records tell of, against what is stored: everything but versions and what is set
// of buckets, which deep-catalog.ts compares. Each part is told of every record, in order, and then
// compares the rows that there are. Invariant: a row that cannot be read at all is a difference too,
// and stops nothing.
import type { KeptRecord, RecordStore } from '../../audit/record-store.ts';
import type { Difference, RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import { IntegrityError } from '../../core/errors.ts';
import type { Comparison } from './compared-things.ts';
import { DeepBuckets } from './deep-buckets.ts';
import { DeepIdentities } from './deep-identities.ts';
import { DeepLimits } from './deep-limits.ts';
import { DeepLocks } from './deep-locks.ts';

export interface DeepStateOptions {
  /** One state of the database throughout. */
  read: Reader;
  store: Pick<RecordStore, 'readRecord'>;
  tell: (difference: Difference) => void;
}

/** Compares rows of one kind. */
interface Part {
  visit(index: number, fields: RecordFields): void | Promise<void>;
  finish?(read: Reader, comparison: Comparison): Promise<void>;
}

export class DeepState {
  readonly #options: DeepStateOptions;
  readonly #parts: Record<string, Part>;
  #lastErased = -1;
  /** Rows that records tell of which were erased or cannot be read. */
  unknown = 0;

  constructor(options: DeepStateOptions) {
    this.#options = options;
    const { tell } = options;
    const readRecord = (index: number) => this.#readRecord(index);
    this.#parts = {
      identities: new DeepIdentities(),
      limits: new DeepLimits(),
      buckets: new DeepBuckets(),
      locks: new DeepLocks({ readRecord, tell }),
    };
  }

  /** Compares what one record says; null: it was erased. */
  async visit(index: number, fields: RecordFields | null): Promise<void> {
    if (!fields) {
      this.#lastErased = index;
      return;
    }
    for (const part of Object.values(this.#parts)) await part.visit(index, fields);
  }

  /** Once all records were visited. */
  async finish(): Promise<void> {
    const comparison: Comparison = {
      tell: this.#options.tell,
      lastErased: this.#lastErased,
      onUnknown: () => {
        this.unknown++;
      },
    };
    for (const [name, part] of Object.entries(this.#parts)) {
      try {
        await part.finish?.(this.#options.read, comparison);
      } catch (error) {
        const what = `they could not be compared: ${(error as Error).message}`;
        this.#options.tell({ where: name, what });
      }
    }
  }

  async #readRecord(index: number): Promise<KeptRecord | undefined | 'damaged'> {
    try {
      return await this.#options.store.readRecord(index);
    } catch (error) {
      if (error instanceof IntegrityError) return 'damaged';
      throw error;
    }
  }
}
