// Locks of versions as the records set them, against the records that ended or unlocked these. A
// row that was put back from before it was locked is deleted by the API without a question: its end
// is recorded, as its lock was. Invariants: a version that a record locked was not ended, nor its
// lock made less, by a later one unless object lock allowed that at the time of that record; and
// what a record that was erased locked is not known.
import type { KeptRecord } from '../../audit/record-store.ts';
import {
  type Difference,
  isDone,
  type RecordFields,
  readFields,
} from '../../audit/verify/record-fields.ts';
import {
  type Lock,
  mayAmend,
  mayEnd,
  type ObjectLockConfig,
  type Retention,
  withDefaultRetention,
} from '../../catalog/object-lock.ts';
import { isObject, parseJson } from '../../core/json.ts';
import type { StagedMap, Staging } from './staging.ts';

export interface DeepLocksOptions {
  staging: Staging;
  readRecord: (index: number) => Promise<KeptRecord | undefined | 'damaged'>;
  tell: (difference: Difference) => void;
}

/** A lock, and the record that set it last. */
interface HeldLock {
  lock: Lock;
  byIndex: number;
  /** The default of its bucket is in it, or does not concern it. */
  isWhole: boolean;
}

/** From a record on, the default retention of a bucket; null: none that is known. */
interface Default {
  fromIndex: number;
  config: ObjectLockConfig | null;
}

export class DeepLocks {
  readonly #options: DeepLocksOptions;
  /** Of versions whose own records, or later ones, say what locks them. */
  readonly #locks: StagedMap<HeldLock>;
  /** What versions of unfinished uploads will be locked by, by id of the upload. */
  readonly #uploads: StagedMap<Lock>;
  /** By `tenant/name`, in order. */
  readonly #defaults: StagedMap<Default[]>;

  constructor(options: DeepLocksOptions) {
    this.#options = options;
    const { staging } = options;
    this.#locks = staging.map('lock');
    this.#uploads = staging.map('lock of upload');
    this.#defaults = staging.map('default lock');
  }

  async visit(index: number, fields: RecordFields): Promise<void> {
    if (!isDone(fields)) return;
    const { action, amends, supersedes, version, target = '' } = fields;
    if (supersedes !== undefined) await this.#visitEnd(index, supersedes, fields);
    if (amends) await this.#visitAmendment(index, amends.version, fields);
    else if (version !== undefined) await this.#visitVersion(index, fields);
    else if (action === 's3:PutObject' && target.startsWith('uploads/')) {
      const lock = lockOf(fields.change);
      if (lock) await this.#uploads.set(target, lock);
    } else if (action === 's3:CreateBucket' || action === 's3:DeleteBucket') {
      await this.#setDefault(index, fields, null);
    } else if (action === 's3:PutBucketObjectLockConfiguration') {
      await this.#setDefault(index, fields, configOf(fields.change?.objectLock));
    } else if (action === 's3:AbortMultipartUpload' || action === 's3:DeleteUpload') {
      await this.#uploads.delete(target);
    }
  }

  async #visitVersion(index: number, { change, target = '' }: RecordFields): Promise<void> {
    const isUpload = target.startsWith('uploads/');
    const lock = lockOf(change) ?? (isUpload ? await this.#uploads.get(target) : undefined);
    if (isUpload) await this.#uploads.delete(target);
    const isWhole = lock?.retention !== undefined;
    if (lock) await this.#locks.set(`${index}`, { lock, byIndex: index, isWhole });
  }

  async #visitAmendment(index: number, seq: number, fields: RecordFields): Promise<void> {
    const { change = {}, time } = fields;
    const hasRetention = Object.hasOwn(change, 'retention');
    if (!hasRetention && typeof change.legalHold !== 'boolean') return;
    const { lock, byIndex } = await this.#lockOf(seq, fields);
    const set = (amended: Lock) =>
      this.#locks.set(`${seq}`, { lock: amended, byIndex: index, isWhole: true });
    if (!hasRetention) return set({ ...lock, legalHold: change.legalHold as boolean });
    const retention = retentionOf(change.retention) ?? null;
    const bypassGovernance = change.bypassGovernance === true;
    if (!mayAmend(lock, retention, { timeMs: Date.parse(time), bypassGovernance })) {
      const what = `record ${index} made less of its lock, which record ${byIndex} had set`;
      this.#tell(seq, fields, what);
    }
    const { retention: _, ...others } = lock;
    await set({ ...others, ...(retention && { retention }) });
  }

  async #visitEnd(index: number, seq: number, fields: RecordFields): Promise<void> {
    const { lock, byIndex } = await this.#lockOf(seq, fields);
    if (await this.#locks.get(`${seq}`)) await this.#locks.delete(`${seq}`);
    const bypassGovernance = fields.change?.bypassGovernance === true;
    if (mayEnd(lock, { timeMs: Date.parse(fields.time), bypassGovernance })) return;
    this.#tell(seq, fields, `record ${index} ended it, and record ${byIndex} had locked it`);
  }

  /**
   * By what a version is locked: itself, or the default of its bucket when it was made. `by`: the
   * record that ends or changes it, which names the bucket.
   */
  async #lockOf(seq: number, by: RecordFields): Promise<HeldLock> {
    const own = (await this.#locks.get(`${seq}`)) ?? { lock: {}, byIndex: seq, isWhole: false };
    if (own.isWhole || !(await this.#defaults.get(nameOf(by)))) return own;
    const record = await this.#options.readRecord(seq);
    if (!record || record === 'damaged' || !record.opened) return own;
    const fields = readFields(parseJson(record.opened.record));
    if (fields?.version !== seq || fields.marker) return own;
    const config = await this.#defaultAt(nameOf(fields), seq);
    if (!config) return own;
    const made = withDefaultRetention('{}', JSON.stringify(config), Date.parse(fields.time));
    return { ...own, lock: { ...(JSON.parse(made) as Lock), ...own.lock }, isWhole: true };
  }

  async #setDefault(
    fromIndex: number,
    fields: RecordFields,
    config: ObjectLockConfig | null,
  ): Promise<void> {
    const name = nameOf(fields);
    const defaults = await this.#defaults.get(name);
    if (defaults || config) {
      await this.#defaults.set(name, [...(defaults ?? []), { fromIndex, config }]);
    }
  }

  async #defaultAt(name: string, seq: number): Promise<ObjectLockConfig | null> {
    const defaults = (await this.#defaults.get(name)) ?? [];
    return defaults.findLast(({ fromIndex }) => fromIndex < seq)?.config ?? null;
  }

  #tell(seq: number, { key }: RecordFields, what: string): void {
    this.#options.tell({ where: `version ${seq} of ${key}`, what });
  }
}

function nameOf({ tenant, bucketTenant = tenant, bucket }: RecordFields): string {
  return `${bucketTenant}/${bucket}`;
}

/** undefined: the record tells of none. */
function lockOf(change: RecordFields['change']): Lock | undefined {
  const retention = retentionOf(change?.retention);
  const legalHold = change?.legalHold;
  if (!retention && typeof legalHold !== 'boolean') return undefined;
  return { ...(retention && { retention }), ...(typeof legalHold === 'boolean' && { legalHold }) };
}

function retentionOf(told: unknown): Retention | undefined {
  if (!isObject(told) || typeof told.until !== 'string') return undefined;
  const { mode } = told;
  const untilMs = Date.parse(told.until);
  if ((mode !== 'GOVERNANCE' && mode !== 'COMPLIANCE') || Number.isNaN(untilMs)) return undefined;
  return { mode, untilMs };
}

/** Of the elements of the document that set it. */
function configOf(told: unknown): ObjectLockConfig | null {
  const rule = isObject(told) && isObject(told.Rule) ? told.Rule.DefaultRetention : undefined;
  if (!isObject(rule)) return isObject(told) ? {} : null;
  const { Mode: mode, Days: days, Years: years } = rule;
  if (mode !== 'GOVERNANCE' && mode !== 'COMPLIANCE') return null;
  if (Number.isSafeInteger(days)) return { default: { mode, days: days as number } };
  return Number.isSafeInteger(years) ? { default: { mode, years: years as number } } : null;
}
