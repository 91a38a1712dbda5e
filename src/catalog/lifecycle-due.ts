// What lifecycle rules say is due, of rows of the catalog: asked while a bucket is walked through,
// to find it, and again in the transaction that ends it, of the row as it is then. Invariants: what
// object lock holds is not due; a step of a walk is a bounded read, also where one key has a
// million versions.
import type { Reader } from '../core/database.ts';
import { textSuccessor } from '../core/text-order.ts';
import type { Bucket } from './buckets.ts';
import {
  type Lifecycle,
  type LifecycleRule,
  type LifecycleVersion,
  versionOf,
} from './lifecycle.ts';
import { type Lock, mayEnd } from './object-lock.ts';
import type { Version } from './versions.ts';

/** By what they find; in an order in which a pass leaves nothing that it could have ended. */
export const lifecycleWalks = ['noncurrent', 'current', 'uploads'] as const;
export type LifecycleWalk = (typeof lifecycleWalks)[number];

/** Names a row: a version, or an upload. */
export type LifecyclePlace = { key: string; seq: number } | { key: string; uploadId: string };

/** What decides. `dayMs`: the length of a day, milliseconds. */
export interface LifecycleTerms {
  bucket: Pick<Bucket, 'id' | 'versioning'>;
  rules: Lifecycle;
  timeMs: number;
  dayMs: number;
}

export type WalkedVersion = Pick<
  Version,
  'key' | 'seq' | 'class' | 'sizeBytes' | 'createdMs' | 'attributes' | 'isMarker' | 'supersededMs'
>;

/** The position of a walk: behind `after`, among the keys with a prefix. */
export interface WalkStep<W = LifecycleWalk> {
  walk: W;
  prefix: string;
  after: LifecyclePlace | null;
  max: number;
}

export interface WalkedSlice {
  /** Those of up to `max` rows that are due. */
  due: LifecyclePlace[];
  /** null: there are no more. */
  last: LifecyclePlace | null;
}

/** The rules that a walk looks for. */
export function rulesOf(rules: Lifecycle, walk: LifecycleWalk): readonly LifecycleRule[] {
  switch (walk) {
    case 'noncurrent':
      return rules.noncurrent;
    case 'current':
      return rules.expiring;
    case 'uploads':
      return rules.aborting;
  }
}

/**
 * The next bucket with rules, or that has, or had, something in one of the classes, in order of id;
 * rules that are not authentic are none, and in nobody's way.
 */
export async function findLifecycleBucket(
  read: Reader,
  afterId: number,
  classes: readonly string[],
): Promise<{ id: number; tenant: string } | undefined> {
  const { sparing = read } = read;
  if (classes.length > 0) {
    return sparing.get<{ id: number; tenant: string }>(
      `SELECT id, tenant FROM buckets AS b WHERE id > ? AND (
           EXISTS (SELECT 1 FROM bucket_settings AS s
             WHERE s.bucket_id = b.id AND s.name = 'lifecycle')
           OR EXISTS (SELECT 1 FROM quota_storage AS q WHERE q.tenant = b.tenant
             AND q.bucket = b.name AND q.class IN (SELECT value FROM json_each(?))))
         ORDER BY id LIMIT 1`,
      ...[afterId, JSON.stringify(classes)],
    );
  }
  return sparing.get<{ id: number; tenant: string }>(
    `SELECT bucket_id AS id, tenant FROM bucket_settings CROSS JOIN buckets ON id = bucket_id
       WHERE bucket_id > ? AND bucket_settings.name = 'lifecycle' ORDER BY bucket_id LIMIT 1`,
    afterId,
  );
}

/** The id of the rule by which a version is due to end now; null: by none. */
export async function findDueRule(
  read: Reader,
  terms: LifecycleTerms,
  row: WalkedVersion,
): Promise<string | null> {
  const { rules, timeMs, dayMs, bucket } = terms;
  const version = versionOf(row);
  if (row.supersededMs !== null) return findNoncurrentRule(read, terms, row, version);
  const due = row.isMarker
    ? rules.markerExpirationOf(version, dayMs)
    : rules.expirationOf(version, dayMs);
  if (!due || due.dueMs > timeMs) return null;
  if (row.isMarker) return (await isAlone(read, bucket.id, row.key)) ? due.ruleId : null;
  return bucket.versioning === 'Enabled' || isUnlocked(row, timeMs) ? due.ruleId : null;
}

/**
 * Of the rules whose time has come, the one that keeps the fewest newer versions decides for all.
 */
async function findNoncurrentRule(
  read: Reader,
  { rules, timeMs, dayMs, bucket }: LifecycleTerms,
  row: WalkedVersion,
  version: LifecycleVersion,
): Promise<string | null> {
  const all = rules.noncurrentExpirationsOf(version, row.supersededMs ?? 0, dayMs);
  const [first, ...others] = all.filter(({ dueMs }) => dueMs <= timeMs);
  if (!first || !isUnlocked(row, timeMs)) return null;
  const least = others.reduce((a, b) => (b.newerVersions < a.newerVersions ? b : a), first);
  const { ruleId, newerVersions } = least;
  if (newerVersions === 0) return ruleId;
  return (await hasNewer(read, bucket.id, row, newerVersions)) ? ruleId : null;
}

function isUnlocked({ attributes }: WalkedVersion, timeMs: number): boolean {
  return mayEnd(JSON.parse(attributes) as Lock, { timeMs, bypassGovernance: false });
}

async function isAlone(read: Reader, bucketId: number, key: string): Promise<boolean> {
  const sql = 'SELECT 1 FROM noncurrent_versions WHERE bucket_id = ? AND key = ? LIMIT 1';
  return (await read.get(sql, bucketId, key)) === undefined;
}

/** Returns whether the key has so many noncurrent versions that are newer than this one. */
export async function hasNewer(
  read: Reader,
  bucketId: number,
  { key, seq }: { key: string; seq: number },
  count: number,
): Promise<boolean> {
  const row = await read.get(
    `SELECT 1 FROM noncurrent_versions WHERE bucket_id = ? AND key = ? AND seq > ?
       LIMIT 1 OFFSET ?`,
    ...[bucketId, key, seq, count - 1],
  );
  return row !== undefined;
}

/**
 * One step of a walk through a bucket. Rows are taken as they are: who ends something verifies it.
 */
export async function findDue(
  read: Reader,
  terms: LifecycleTerms,
  step: WalkStep,
): Promise<WalkedSlice> {
  if (step.walk === 'uploads') return findDueUploads(read, terms, step);
  const rows = await (step.walk === 'current' ? readCurrent : readNoncurrent)(read, terms, step);
  const due: LifecyclePlace[] = [];
  for (const row of rows) {
    const { key, seq } = row;
    if ((await findDueRule(read, terms, row)) !== null) due.push({ key, seq });
  }
  const last = rows.length < step.max ? undefined : rows.at(-1);
  return { due, last: last ? { key: last.key, seq: last.seq } : null };
}

const walkedColumns = `key, class, seq, size AS sizeBytes, created_ms AS createdMs, attributes,
  is_marker AS isMarker`;

export function readCurrent(
  read: Reader,
  { bucket }: LifecycleTerms,
  { prefix, after, max }: WalkStep<unknown>,
): Promise<WalkedVersion[]> {
  return read.all<WalkedVersion>(
    `SELECT ${walkedColumns}, NULL AS supersededMs FROM versions
       WHERE bucket_id = ? AND key ${after ? '>' : '>='} ? AND key < ? ORDER BY key LIMIT ?`,
    ...[bucket.id, after?.key ?? prefix, endOf(prefix), max],
  );
}

/**
 * First the rest of the key that the step before ended in: its versions lie from the newest down.
 */
export async function readNoncurrent(
  read: Reader,
  { bucket }: LifecycleTerms,
  { prefix, after, max }: WalkStep<unknown>,
): Promise<WalkedVersion[]> {
  const select = `SELECT ${walkedColumns}, superseded_ms AS supersededMs
    FROM noncurrent_versions WHERE bucket_id = ?`;
  const rest =
    after && 'seq' in after
      ? await read.all<WalkedVersion>(
          `${select} AND key = ? AND seq < ? ORDER BY seq DESC LIMIT ?`,
          ...[bucket.id, after.key, after.seq, max],
        )
      : [];
  if (rest.length === max) return rest;
  const more = await read.all<WalkedVersion>(
    `${select} AND key ${after ? '>' : '>='} ? AND key < ? ORDER BY key, seq DESC LIMIT ?`,
    ...[bucket.id, after?.key ?? prefix, endOf(prefix), max - rest.length],
  );
  return [...rest, ...more];
}

async function findDueUploads(
  read: Reader,
  { bucket, rules, timeMs, dayMs }: LifecycleTerms,
  { prefix, after, max }: WalkStep,
): Promise<WalkedSlice> {
  const uploadId = after && 'uploadId' in after ? after.uploadId : '';
  const rows = await read.all<{ key: string; uploadId: string; createdMs: number }>(
    `SELECT key, id AS uploadId, created_ms AS createdMs FROM uploads
       WHERE bucket_id = ? AND (key, id) > (?, ?) AND key < ? AND completed IS NULL
       ORDER BY key, id LIMIT ?`,
    ...[bucket.id, after?.key ?? prefix, uploadId, endOf(prefix), max],
  );
  const due = rows.filter((row) => (rules.abortOf(row, dayMs)?.dueMs ?? Infinity) <= timeMs);
  const last = rows.length < max ? undefined : rows.at(-1);
  const placeOf = (row: { key: string; uploadId: string }): LifecyclePlace => ({
    key: row.key,
    uploadId: row.uploadId,
  });
  return { due: due.map(placeOf), last: last ? placeOf(last) : null };
}

/** The end of the keys with a prefix. SQLite orders every blob behind every text. */
function endOf(prefix: string): string | Buffer {
  return textSuccessor(prefix) ?? Buffer.of(0xff);
}
