// The comparison of a database with its records, slice by slice: the log, then what the records
// tell of with the rows that there are. Invariants: within a slice one state of the database is
// read, and no longer, so that its own log can be shortened meanwhile; rows are compared in the
// state in which the last record was met; and whatever the database has in it, the comparison comes
// to its end.
import type { Checkpoint } from '../../audit/log/checkpoint.ts';
import type { RecordStore } from '../../audit/record-store.ts';
import {
  DeepRecords,
  type RecordsProgress,
  readPlausibleSize,
} from '../../audit/verify/deep-records.ts';
import { guarded, tellingReader } from '../../audit/verify/guard.ts';
import type { Difference, RecordFields } from '../../audit/verify/record-fields.ts';
import { monotonicMs } from '../../core/clock.ts';
import type { OpenDatabase, Reader } from '../../core/database.ts';
import { DeepCatalog } from '../deep-catalog.ts';
import { DeepState } from './deep-state.ts';
import type { Silent } from './deep-usage.ts';
import type { Staging } from './staging.ts';

export interface DeepComparisonOptions {
  /** A connection of its own. */
  database: Pick<OpenDatabase, 'tx' | 'exec' | 'rollback'>;
  /** The records that it reads by this reader. */
  openStore: (read: Reader) => RecordStore;
  staging: Staging;
  checkpoints: readonly (Checkpoint & { from: string })[];
  /** Called for each difference, those that an earlier run found among them. */
  onDifference: (difference: Difference) => void;
}

export interface Compared {
  records: number;
  /** Of these, erased: what they said cannot be compared. */
  erased: number;
  /**
   * And those in packs of the archive that are lost, damaged, or in stores that are not configured.
   */
  recordsUnread: number;
  versions: number;
  /** Of these and their ends, those that records tell of which were erased or not read. */
  versionsUnknown: number;
}

interface Progress<More> {
  records: RecordsProgress;
  lastErased: number;
  /** Once all is compared. */
  compared: Compared | null;
  differences: number;
  /** The first of them. */
  told: Difference[];
  /** What the caller does besides. */
  more: More | null;
}

/** More of them say no more. */
export const differencesShownMax = 1000;

export class DeepComparison<More = unknown> {
  readonly #options: DeepComparisonOptions;
  readonly #records: DeepRecords;
  readonly #catalog: DeepCatalog;
  readonly #state: DeepState;
  readonly #read: Reader;
  #lastErased = -1;
  #told: Difference[] = [];
  #isSizeTold = false;
  /** What is true of an earlier run's records that were signed is yet to be compared. */
  #isResumed = false;
  /** As far as the run before had come, and this one since. */
  more: More | null;
  differences = 0;
  compared: Compared | null = null;

  private constructor(
    options: DeepComparisonOptions,
    { catalog, read }: { catalog: DeepCatalog; read: Reader },
    progress: Progress<More> | undefined,
  ) {
    this.#options = options;
    this.#catalog = catalog;
    this.#read = read;
    const store = options.openStore(read);
    const { staging, checkpoints } = options;
    this.#state = new DeepState({ read, store, staging, tell: this.tell });
    const onRecord = (index: number, fields: RecordFields) => this.#visit(index, fields);
    const onUnread = async (index: number, whose: Silent) => {
      this.#lastErased = index;
      await this.#state.visitUnread(index, whose);
    };
    const onSilent = (whose: Silent) => this.#state.visitSilent(whose);
    const walk = { read, store, checkpoints, tell: this.tell, onRecord, onUnread, onSilent };
    this.#records = new DeepRecords(walk, progress?.records);
    this.more = progress?.more ?? null;
    if (!progress) return;
    this.#isResumed = true;
    this.#lastErased = progress.lastErased;
    this.compared = progress.compared;
    for (const difference of progress.told) this.tell(difference);
    this.differences = progress.differences;
  }

  /** Goes on where the staging says, or begins. */
  static async open<M>(options: DeepComparisonOptions): Promise<DeepComparison<M>> {
    const { database, staging, openStore } = options;
    let comparison: DeepComparison<M> | undefined;
    const tell = (difference: Difference) => comparison?.tell(difference);
    const read = tellingReader(database.tx, tell);
    const catalog = await DeepCatalog.open({ read, store: openStore(read), staging, tell });
    const progress = await staging.readProgress<Progress<M>>();
    comparison = new DeepComparison<M>(options, { catalog, read }, progress);
    return comparison;
  }

  /** Records that were compared. */
  get records(): number {
    return this.compared?.records ?? this.#records.next;
  }

  readonly tell = (difference: Difference): void => {
    this.differences++;
    if (this.#told.length >= differencesShownMax) return;
    this.#told.push(difference);
    this.#options.onDifference(difference);
  };

  /**
   * One slice, of about so many milliseconds; the last one takes what it takes. Gives how many
   * records there are; null: all is compared.
   */
  async advance(sliceMs: number): Promise<number | null> {
    if (this.compared) return null;
    const { database } = this.#options;
    const endMs = monotonicMs() + sliceMs;
    database.exec('BEGIN');
    try {
      this.#catalog.forgetRows();
      this.#records.forgetRows();
      const size = await this.#readSize();
      if (this.#isResumed) await this.#records.comparePassed();
      this.#isResumed = false;
      while (this.#records.next < size) {
        await this.#records.advance(size);
        if (monotonicMs() >= endMs) break;
      }
      if (this.#records.next >= size) await this.#finish(this.#records.next);
      await this.commit();
      return this.compared ? null : size;
    } finally {
      database.rollback();
    }
  }

  /** Keeps what was done until now, `more` with it. */
  async commit(): Promise<void> {
    await this.#catalog.save();
    const { compared, differences, more } = this;
    const progress: Progress<More> = {
      ...{ compared, differences, more },
      records: this.#records.save(),
      lastErased: this.#lastErased,
      told: this.#told,
    };
    await this.#options.staging.commit(progress);
  }

  async #visit(index: number, fields: RecordFields): Promise<void> {
    const where = `what record ${index} made`;
    await guarded(this.tell, where, () => this.#catalog.visit(index, fields));
    await this.#state.visit(index, fields);
  }

  async #finish(size: number): Promise<void> {
    await this.#records.finish(size);
    await this.#catalog.finish(size, (tenant) => this.#state.lastErasedOf(tenant));
    await this.#state.finish(size, this.#lastErased);
    const { erased, unread: recordsUnread } = this.#records;
    const { versions } = this.#catalog;
    const versionsUnknown = this.#catalog.unknown + this.#state.unknown;
    this.compared = { records: size, erased, recordsUnread, versions, versionsUnknown };
  }

  async #readSize(): Promise<number> {
    const tell = (difference: Difference): void => {
      if (!this.#isSizeTold) this.tell(difference);
      this.#isSizeTold = true;
    };
    return readPlausibleSize(this.#read, tell);
  }
}
