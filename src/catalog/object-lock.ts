// Object lock: what retention and legal holds forbid. Pure. Invariants: a version under compliance
// retention does not end before its time, nor is that time brought forward, whoever asks; one under
// governance retention only for who may bypass it; one under a legal hold not at all. It is asked
// in the transaction of the change, with the ledger's clock, so no way to a version goes round it.
// Specification: "Locking objects with Object Lock" of the Amazon S3 user guide.

export type RetentionMode = 'GOVERNANCE' | 'COMPLIANCE';

export interface Retention {
  mode: RetentionMode;
  untilMs: number;
}

/** Those of a version's attributes that lock it. */
export interface Lock {
  retention?: Retention;
  /** false: there was one, or it was said that there is none. */
  legalHold?: boolean;
}

/** The lock of a bucket: versions that are made in it without a retention get its default. */
export interface ObjectLockConfig {
  default?: DefaultRetention;
}

export type DefaultRetention = { mode: RetentionMode } & ({ days: number } | { years: number });

export interface LockMoment {
  timeMs: number;
  bypassGovernance: boolean;
}

/**
 * Returns whether a version with these attributes may end, by being deleted for good or by being
 * replaced in its place.
 */
export function mayEnd({ retention, legalHold }: Lock, moment: LockMoment): boolean {
  if (legalHold === true) return false;
  if (!isHeld(retention, moment)) return true;
  return retention.mode === 'GOVERNANCE' && moment.bypassGovernance;
}

/**
 * Returns whether the version's retention may be changed or removed. Lengthening it needs no right
 * to bypass it.
 */
export function mayAmend(
  { retention }: Lock,
  amended: Retention | null,
  moment: LockMoment,
): boolean {
  if (!isHeld(retention, moment)) return true;
  if (retention.mode === 'GOVERNANCE' && moment.bypassGovernance) return true;
  return amended?.mode === retention.mode && amended.untilMs >= retention.untilMs;
}

function isHeld(retention: Retention | undefined, { timeMs }: LockMoment): retention is Retention {
  return retention !== undefined && retention.untilMs > timeMs;
}

/**
 * The attributes that a version is made with in a bucket with this lock (`buckets.object_lock`): a
 * retention of its own is kept, else it has the default, from the moment at which it is made.
 */
export function withDefaultRetention(
  attributes: string,
  objectLock: string | null,
  timeMs: number,
): string {
  if (objectLock === null) return attributes;
  const retention = defaultRetention(JSON.parse(objectLock) as ObjectLockConfig, timeMs);
  if (!retention) return attributes;
  const own = JSON.parse(attributes) as Lock;
  return own.retention ? attributes : JSON.stringify({ ...own, retention });
}

function defaultRetention(config: ObjectLockConfig, timeMs: number): Retention | null {
  const { default: set } = config;
  if (!set) return null;
  const until = new Date(timeMs);
  if ('days' in set) until.setUTCDate(until.getUTCDate() + set.days);
  else until.setUTCFullYear(until.getUTCFullYear() + set.years);
  return { mode: set.mode, untilMs: until.getTime() };
}
