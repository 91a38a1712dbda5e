// All else that the records tell of, against what is stored: everything but versions and what is
// set of buckets, which deep-catalog.ts compares. Each part is told of every record, in order, and
// then compares the rows that there are. Invariant: a row that cannot be read at all is a
// difference too, and stops nothing.
import type { KeptRecord, RecordStore } from '../../audit/record-store.ts';
import { guarded } from '../../audit/verify/guard.ts';
import type { Difference, RecordFields } from '../../audit/verify/record-fields.ts';
import type { Reader } from '../../core/database.ts';
import { IntegrityError } from '../../core/errors.ts';
import { digestSchema } from '../migrations/schema-state.ts';
import { schemaVersion } from '../migrations/steps.ts';
import type { Comparison } from './compared-things.ts';
import { DeepAlarms } from './deep-alarms.ts';
import { DeepBuckets, DeepLimits } from './deep-buckets.ts';
import { DeepIdentities } from './deep-identities.ts';
import { DeepLocks } from './deep-locks.ts';
import { DeepErasures, DeepLog } from './deep-log.ts';
import { DeepRenames } from './deep-renames.ts';
import { DeepSnapshots } from './deep-snapshots.ts';
import { DeepStored } from './deep-stored.ts';
import { DeepRetired, DeepStrays } from './deep-strays.ts';
import { DeepTokens } from './deep-tokens.ts';
import { DeepUploads } from './deep-uploads.ts';
import { DeepUsage, type Silent } from './deep-usage.ts';
import type { Staging } from './staging.ts';

export interface DeepStateOptions {
  read: Reader;
  store: Pick<RecordStore, 'readRecord'>;
  staging: Staging;
  tell: (difference: Difference) => void;
}

/** Compares rows of one kind. */
interface Part {
  visit(index: number, fields: RecordFields): void | Promise<void>;
  /** `size`: records that there are. */
  finish?(read: Reader, comparison: Comparison, size: number): Promise<void>;
}

export class DeepState {
  readonly #options: DeepStateOptions;
  readonly #parts: Readonly<Record<string, Part>>;
  readonly #usage: DeepUsage;
  readonly #erasures: DeepErasures;
  /** Rows that records tell of which were erased or cannot be read. */
  unknown = 0;

  constructor(options: DeepStateOptions) {
    this.#options = options;
    const { tell, staging } = options;
    const readRecord = (index: number) => this.#readRecord(index);
    const readText = (index: number) => this.#readText(index);
    this.#usage = new DeepUsage(staging, readText);
    this.#erasures = new DeepErasures(staging);
    this.#parts = {
      erasures: this.#erasures,
      identities: new DeepIdentities(staging),
      names: new DeepRetired(staging),
      tokens: new DeepTokens(staging),
      limits: new DeepLimits(staging),
      buckets: new DeepBuckets(staging),
      locks: new DeepLocks({ staging, readRecord, tell }),
      uploads: new DeepUploads(staging),
      renames: new DeepRenames(staging),
      usage: this.#usage,
      alarms: new DeepAlarms(staging, readText),
      log: new DeepLog(staging),
      snapshots: new DeepSnapshots(staging),
      stored: new DeepStored(staging),
      strays: new DeepStrays(staging),
      schema: new DeepSchema(),
    };
  }

  /** Compares what one record says. */
  async visit(index: number, fields: RecordFields): Promise<void> {
    for (const [name, part] of Object.entries(this.#parts)) {
      const where = `what record ${index} says of ${name}`;
      await guarded(this.#options.tell, where, () => part.visit(index, fields));
    }
  }

  /** One was erased, or cannot be read. */
  visitUnread(index: number, whose: Silent): Promise<void> {
    return this.#erasures.visitUnread(index, whose);
  }

  lastErasedOf(tenant: string | undefined): Promise<number> {
    return this.#erasures.lastOf(tenant);
  }

  /** One says nothing, or not what it said. */
  visitSilent(whose: Silent): Promise<void> {
    return this.#usage.visitSilent(whose);
  }

  /**
   * Once all records were visited, `size` of them. `lastErased`: the last one that says nothing.
   */
  async finish(size: number, lastErased: number): Promise<void> {
    const { tell, read } = this.#options;
    this.unknown = 0;
    const onUnknown = () => {
      this.unknown++;
    };
    const lastErasedOf = (tenant: string | undefined) => this.lastErasedOf(tenant);
    const comparison: Comparison = { tell, lastErased, lastErasedOf, onUnknown };
    for (const [name, part] of Object.entries(this.#parts)) {
      await guarded(tell, name, () => part.finish?.(read, comparison, size));
    }
  }

  /** undefined: it says nothing. */
  async #readText(index: number): Promise<string | undefined> {
    const record = await this.#readRecord(index);
    return record === 'damaged' ? undefined : record?.opened?.record;
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

/**
 * What the database consists of. Invariant: tables and indexes are those that its history says, and
 * there is nothing in it that acts or shows by itself: a gateway has its triggers in memory.
 */
class DeepSchema {
  visit(): void {}

  async finish(read: Reader, { tell }: Comparison): Promise<void> {
    const strange = await read.all<{ type: string; name: string }>(
      "SELECT type, name FROM sqlite_schema WHERE type NOT IN ('table', 'index')",
    );
    for (const { type, name } of strange)
      tell({ where: `${type} ${name}`, what: 'no gateway made it' });
    const last = await read.get<{ schema: unknown; digest: unknown }>(
      'SELECT schema, digest_after AS digest FROM schema_history ORDER BY schema DESC LIMIT 1',
    );
    const isSaid = last?.schema === schemaVersion && last.digest === (await digestSchema(read));
    if (isSaid) return;
    tell({ where: 'tables of the database', what: 'they are not those that its history says' });
  }
}
