// Object lock in requests and answers: what a write's headers ask for, what reads tell, and who
// bypasses governance retention. What a lock forbids is decided in the ledger's transaction
// (catalog/object-lock.ts), and never here. Specification: "Locking objects with Object Lock" of
// the Amazon S3 user guide.
import { recordedChange } from '../../../audit/recorded-change.ts';
import type { Lock, Retention, RetentionMode } from '../../../catalog/object-lock.ts';
import { isoTime } from '../../../core/clock.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import type { CommitResult } from '../../../ledger/commit.ts';
import { demandDigest } from '../demanded-digest.ts';
import type { S3Request } from '../request.ts';
import type { Reserved } from '../stages.ts';

const modeHeader = 'x-amz-object-lock-mode';
const untilHeader = 'x-amz-object-lock-retain-until-date';
const holdHeader = 'x-amz-object-lock-legal-hold';
const bypassHeader = 'x-amz-bypass-governance-retention';

const noLock: Lock = {};

/**
 * What the headers of a write say of its lock. Without any, the ledger gives it the bucket's
 * default. Throws `Refusal` InvalidRequest, InvalidArgument, or AccessDenied for who may write
 * without a lock only.
 */
export async function readLock(context: Reserved<'object'>): Promise<Lock> {
  const { request, bucket } = context;
  if (!hasLockHeaders(request)) return noLock;
  const lock = parseLock(request);
  if (!bucket.objectLock) throw lockless();
  if (lock.retention) await context.asked.authorizeKey('s3:PutObjectRetention');
  if (lock.legalHold !== undefined) await context.asked.authorizeKey('s3:PutObjectLegalHold');
  const change = { ...context.detail.change, ...recordedChange(shownLock(lock)) };
  context.detail = { ...context.detail, change };
  return lock;
}

/**
 * The same for a write that brings its bytes: those that will be locked have to have a digest.
 * null: they will not be.
 */
export function readLockOfBody(context: Reserved<'object'>): Promise<Lock> | null {
  const isLocked = context.bucket.objectLock?.default || hasLockHeaders(context.request);
  return isLocked ? readLockWithDigest(context) : null;
}

async function readLockWithDigest(context: Reserved<'object'>): Promise<Lock> {
  const lock = await readLock(context);
  demandDigest(
    context,
    'Content-MD5 OR x-amz-checksum- HTTP header is required for Put Object requests with ' +
      'Object Lock parameters',
  );
  return lock;
}

/** What rules can depend on. Of headers that will be refused, nothing. */
export function requestedLock(request: Pick<S3Request, 'headers'>): Lock | undefined {
  if (!hasLockHeaders(request)) return noLock;
  try {
    return parseLock(request);
  } catch (error) {
    if (error instanceof Refusal) return undefined;
    throw error;
  }
}

function hasLockHeaders({ headers }: Pick<S3Request, 'headers'>): boolean {
  return (
    headers[modeHeader] !== undefined ||
    headers[untilHeader] !== undefined ||
    headers[holdHeader] !== undefined
  );
}

/** Throws `Refusal` InvalidArgument. */
function parseLock(request: Pick<S3Request, 'headers'>): Lock {
  const mode = request.headers[modeHeader];
  const until = request.headers[untilHeader];
  const hold = request.headers[holdHeader];
  const retention =
    mode === undefined && until === undefined ? undefined : readRetention(mode, until);
  const legalHold = hold === undefined ? undefined : readHold(hold);
  if (!retention && legalHold === undefined) return noLock;
  return { ...(retention && { retention }), ...(legalHold !== undefined && { legalHold }) };
}

function readRetention(mode: string | undefined, until: string | undefined): Retention {
  if (mode === undefined || until === undefined) {
    const message = `${untilHeader} and ${modeHeader} must both be supplied`;
    const missing = mode === undefined ? modeHeader : untilHeader;
    throw new Refusal('InvalidArgument', { message, fields: { ArgumentName: missing } });
  }
  if (!isMode(mode)) throw invalidArgument(modeHeader, mode, 'Unknown wormMode directive.');
  const untilMs = parseTime(until);
  if (untilMs === null) {
    const message = 'The retain until date must be provided in ISO 8601 format';
    throw invalidArgument(untilHeader, until, message);
  }
  checkFuture(untilMs, untilHeader, until);
  return { mode, untilMs };
}

function readHold(text: string): boolean {
  if (text === 'ON' || text === 'OFF') return text === 'ON';
  throw invalidArgument(holdHeader, text, "Legal Hold must be either of 'ON' or 'OFF'");
}

export function isMode(text: string): text is RetentionMode {
  return text === 'GOVERNANCE' || text === 'COMPLIANCE';
}

/** Throws `Refusal` InvalidArgument for a retention that would be over. */
export function checkFuture(untilMs: number, name: string, text: string): void {
  if (untilMs > Date.now()) return;
  throw invalidArgument(name, text, 'The retain until date must be in the future!');
}

const timeForm = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/;

/** ISO 8601 with a time zone, in milliseconds since 1970; null: it is no time. */
export function parseTime(text: string): number | null {
  const timeMs = timeForm.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(timeMs) ? null : timeMs;
}

/** Is there anything to tell of the version's lock? */
export function hasLock({ retention, legalHold }: Lock): boolean {
  return retention !== undefined || legalHold !== undefined;
}

/** Only who may is told of a version's lock. */
export async function lockHeaders(
  context: Reserved<'object'>,
  { retention, legalHold }: Lock,
): Promise<Record<string, string>> {
  const headers: Record<string, string> = {};
  if (retention && (await context.asked.mayReachKey('s3:GetObjectRetention'))) {
    headers[modeHeader] = retention.mode;
    headers[untilHeader] = isoTime(retention.untilMs);
  }
  if (legalHold !== undefined && (await context.asked.mayReachKey('s3:GetObjectLegalHold'))) {
    headers[holdHeader] = legalHold ? 'ON' : 'OFF';
  }
  return headers;
}

/**
 * Does the request ask to bypass governance retention of a version, its own or another, and may it?
 * Who may not is refused where the version is under it, and only there.
 */
export async function bypassesGovernance(
  context: Reserved<'bucket'>,
  of: { key: string; versionId: string | undefined; isOneOfMany?: true },
): Promise<boolean> {
  const asked = context.request.headers[bypassHeader];
  if (asked !== undefined && !context.bucket.objectLock) {
    const message = `${bypassHeader} is only applicable to Object Lock enabled buckets.`;
    throw new Refusal('InvalidArgument', { message, fields: { ArgumentName: bypassHeader } });
  }
  if (asked?.toLowerCase() !== 'true') return false;
  const { key, versionId, isOneOfMany } = of;
  const about = { key, versionId, ...(isOneOfMany && { isOneOfMany }) };
  return context.asked.reliesOnKey('s3:BypassGovernanceRetention', about);
}

/** What says of a refused commit that a lock refused it. */
export const lockedMessage = 'Access Denied because object protected by object lock.';

/** The refusal of a commit that ends or changes a version: only a lock denies that there. */
export function lockRefusal(
  context: Reserved<'bucket'>,
  failed: Extract<CommitResult, { ok: false }>,
): Error {
  const isLocks = failed.code === 'AccessDenied' && context.bucket.objectLock !== null;
  if (!isLocks) return context.failureOf(failed);
  return new Refusal('AccessDenied', { message: lockedMessage });
}

/** Throws `Refusal` InvalidRequest where the bucket has no object lock. */
export function demandObjectLock({ bucket }: Reserved<'object'>): void {
  if (!bucket.objectLock) throw lockless();
}

function lockless(): Refusal {
  return new Refusal('InvalidRequest', { message: 'Bucket is missing Object Lock Configuration' });
}

/** For the record of a deletion that may have ended what was held. */
export function shownBypass(bypassGovernance: boolean): { change?: object } {
  return bypassGovernance ? { change: recordedChange({ bypassGovernance }) } : {};
}

/** As records tell it. */
export function shownLock({ retention, legalHold }: Lock): object {
  return { retention: retention && shownRetention(retention), legalHold };
}

export function shownRetention({ mode, untilMs }: Retention): object {
  return { mode, until: isoTime(untilMs) };
}
