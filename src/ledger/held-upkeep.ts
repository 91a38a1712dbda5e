// Lets go of what dying snapshots alone have held, and of what undelete windows have passed, in the
// ledger's transactions, in the name of the bucket's owner, and deletes snapshots that expire.
// Invariants: it goes by the bucket's snapshots and its window only where all snapshots and
// settings are what was sealed, and none is missing; each slice is a commit with its record and its
// charge, and is small, so that writers do not wait for it.
import { createHash } from 'node:crypto';
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { type Bucket, getBucket } from '../catalog/buckets.ts';
import { type HeldRow, takeHeld } from '../catalog/held-release.ts';
import { listUncounted } from '../catalog/held-totals.ts';
import type { Purged } from '../catalog/purge-held.ts';
import { heldByWindow, readWindow, slackOf } from '../catalog/undelete-window.ts';
import { monotonicMs } from '../core/clock.ts';
import type { Reader, Tx } from '../core/database.ts';
import type { Keyring } from '../core/keyring.ts';
import { Repeated } from '../core/repeated.ts';
import { UnsealedRow } from '../core/seals/row-seal.ts';
import { restAfter, SlicePace } from '../core/slice-pace.ts';
import { steadyClock } from '../core/steady-clock.ts';
import { chargeStored } from '../quota/charge.ts';
import type { Change } from './commands/index.ts';
import type { Commit, CommitResult, Maintenance, Released } from './commit.ts';
import type { Ledger } from './ledger.ts';

export interface HeldContext {
  timeMs: number;
  keyring: Keyring;
  /** In the same transaction. */
  apply(commit: Commit): Promise<CommitResult>;
}

type Slice = Extract<Maintenance, { kind: 'releaseHeld' }>;

/**
 * One slice of a snapshot that is dying, or of an undelete window. Gives how many versions it has
 * dealt with, and 1 where it has ended the snapshot's dying; 0: there is nothing to do.
 */
export async function releaseSlice(tx: Tx, slice: Slice, context: HeldContext): Promise<number> {
  const { bucketId, seq } = slice;
  const bucket = await getBucket(tx, bucketId);
  if (!bucket) return 0;
  if (seq === heldByWindow) return releasePassed(tx, bucket, slice, context);
  const dying = await tx.get<{ name: string }>(
    "SELECT name FROM snapshots WHERE bucket_id = ? AND seq = ? AND state = 'dying'",
    ...[bucketId, seq],
  );
  if (!dying) return 0;
  await verifyHolders(tx, bucket);
  const target = snapshotTarget(bucket.tenant, bucket.name, dying.name);
  const taken = await release(tx, { bucket, slice, target }, context);
  if (taken > 0) return taken;
  await tx.run('DELETE FROM held_totals WHERE bucket_id = ? AND holder = ?', bucketId, seq);
  await tx.run('DELETE FROM snapshots WHERE bucket_id = ? AND seq = ?', bucketId, seq);
  return 1;
}

/** The same of what a window has passed; of one that was set to off, of all. */
async function releasePassed(
  tx: Tx,
  bucket: Bucket,
  slice: Slice,
  context: HeldContext,
): Promise<number> {
  const { id: bucketId, tenant, name } = bucket;
  await verifyHolders(tx, bucket);
  const window = await readWindow(tx, bucketId);
  const untilMs = window && context.timeMs - window.windowMs - slackOf(window.windowMs);
  const target = `tenants/${tenant}/buckets/${name}/undelete`;
  const taken = await release(tx, { bucket, slice, target, untilMs }, context);
  if (taken === 0 && !window) {
    const sql = 'DELETE FROM held_totals WHERE bucket_id = ? AND holder = ?';
    await tx.run(sql, bucketId, heldByWindow);
  }
  return taken;
}

interface Releasing {
  bucket: Bucket;
  slice: Slice;
  target: string;
  untilMs?: number | undefined;
}

/** Gives how many versions it has let go of, or given to another snapshot. */
async function release(
  tx: Tx,
  { bucket, slice: { seq: holder, max, book }, target, untilMs }: Releasing,
  { keyring, apply }: HeldContext,
): Promise<number> {
  const { released, moved } = await takeHeld(tx, { bucket, holder, max, untilMs }, keyring);
  if (released.length > 0) {
    const change = { kind: 'releaseHeld', bucketId: bucket.id, holder, rows: released } as const;
    const told = { action: 'bursar:ReleaseHeld', told: describeReleased(released) };
    const result = await apply(commitOf(bucket, target, { change, ...told, book }));
    if (!result.ok) throw new Error(`nothing was let go of: ${result.code}`);
  }
  return released.length + moved;
}

/**
 * Lets go of what a purge has found, behind its record; `purge` is the index of that. Throws
 * UnsealedRow, and nothing is purged, where a row that may have locked it is not what was sealed.
 */
export async function releasePurged(
  tx: Tx,
  { bucket, rows, book }: Purged,
  purge: number,
  apply: HeldContext['apply'],
): Promise<void> {
  await verifyHolders(tx, bucket);
  const target = `tenants/${bucket.tenant}/buckets/${bucket.name}/purges/${purge}`;
  for (const holder of new Set(rows.map((row) => row.holder))) {
    const released = rows.filter((row) => row.holder === holder);
    const change = { kind: 'releaseHeld', bucketId: bucket.id, holder, rows: released } as const;
    const told = { action: 'bursar:ReleaseHeld', told: describeReleased(released) };
    const result = await apply(commitOf(bucket, target, { change, ...told, book }));
    if (!result.ok) throw new Error(`nothing was purged: ${result.code}`);
  }
}

/**
 * Throws UnsealedRow where one of a bucket's snapshots or settings is not what was sealed, or is
 * missing: what holds versions is among them.
 */
async function verifyHolders(tx: Tx, bucket: Bucket): Promise<void> {
  await tx.rows?.verifyOnce(`holders of bucket ${bucket.id}`, async () => {
    await tx.rows?.verifyWhere('snapshots', 't.bucket_id = ?', bucket.id);
    await tx.rows?.verifyWhere('bucket_settings', 't.bucket_id = ?', bucket.id);
    await requireAll(tx, bucket);
  });
}

/** Throws UnsealedRow where the seal of one is there without its row. */
async function requireAll(tx: Tx, { id, tenant, name }: Bucket): Promise<void> {
  for (const [table, noun, column] of [
    ['snapshots', 'snapshot', 'seq'],
    ['bucket_settings', 'setting', 'name'],
  ] as const) {
    const missing = await tx.get<{ row: string }>(
      `SELECT row FROM seals WHERE tbl = ? AND tenant = ? AND row > ? AND row < ?
         AND NOT EXISTS (SELECT 1 FROM ${table} AS t
           WHERE t.bucket_id = ? AND t.${column} = substr(row, ?)) LIMIT 1`,
      ...[table, tenant, `${name}/`, `${name}0`, id, name.length + 2],
    );
    if (!missing) continue;
    const what = `the ${noun} ${tenant}/${missing.row} was removed`;
    const place = { table, tenant, row: missing.row, fault: 'removed' } as const;
    throw new UnsealedRow({ ...place, scope: { tenant, bucket: name }, what });
  }
}

function describeReleased(rows: readonly HeldRow[]): object {
  const names = createHash('sha256');
  for (const { seq, endedSeq } of rows) names.update(`${seq} ${endedSeq}\n`);
  const { versions, bytes } = countReleased(rows);
  return { versions, bytes: String(bytes), digest: names.digest('hex') };
}

/** A version that was changed in place is held beside itself, and has its bytes once. */
export function countReleased(rows: readonly HeldRow[]): Released {
  let bytes = 0;
  for (const { sizeBytes, isImage } of rows) if (!isImage) bytes += sizeBytes;
  return { versions: rows.length, bytes };
}

/** Charged is what was stored, to whom it was charged; nobody's budget holds it up. */
function commitOf(
  { tenant, owner: principal, name }: Bucket,
  target: string,
  { change, action, told, book }: { change: Change; action: string; told: object; book: string },
): Commit {
  return {
    change,
    charge: chargeStored(
      { tenant, principal, tokens: [], bucket: { tenant, name, owner: principal } },
      book,
    ),
    record: draftRecord(unasked(tenant, principal), ownOrigin('bursar serve'), {
      action,
      bucket: name,
      bucketOwner: principal,
      target,
      change: told,
      status: 204,
    }),
  };
}

/** As the native API names it. */
export function snapshotTarget(tenant: string, bucket: string, name: string): string {
  return `tenants/${tenant}/buckets/${bucket}/snapshots/${name}`;
}

const pauseMs = 5000;
/** A transaction of a few milliseconds, its sync included. */
const slices = { first: 8, most: 32, longMs: 4 };

interface ReleaseOptions {
  read: Reader;
  ledger: Pick<Ledger, 'commit' | 'maintain'>;
  /** The name of the price book in force in a store. */
  bookOf: (store: number) => string;
  /** Nobody else commits: there is nobody to leave time to. */
  isAlone?: boolean;
  onError: (error: unknown) => void;
}

/**
 * Deletes snapshots that have expired, and has what dying ones held, and what windows have passed,
 * let go of, soon after. What is due is found in the tables themselves, by seeks; it is verified
 * before anything is done with it.
 */
export function releaseHeldSoon(options: ReleaseOptions): Repeated {
  const { onError } = options;
  return new Repeated({ work: releaseHeldRun(options), pauseMs: () => pauseMs, onError });
}

/** One run of it. */
export function releaseHeldRun(options: ReleaseOptions) {
  const { read, ledger, bookOf, isAlone = false, onError } = options;
  const pace = new SlicePace(slices);
  const releaseAll = async (due: DueHolder, stopping: AbortSignal): Promise<void> => {
    const { bucketId, seq, isDying } = due;
    const bucket = await getBucket(read, bucketId);
    if (!bucket) return;
    const book = bookOf(bucket.store);
    if (!isDying && seq !== heldByWindow) {
      const commit = await expiryOf(read, bucket, { seq, book });
      if (commit) await ledger.commit(commit);
    }
    const one = { kind: 'releaseHeld', bucketId, seq, book } as const;
    while (!stopping.aborted) {
      const begunMs = monotonicMs();
      if ((await ledger.maintain({ ...one, max: pace.rows })) === 0) break;
      const tookMs = monotonicMs() - begunMs;
      pace.note(tookMs);
      if (!isAlone) await restAfter(tookMs);
    }
  };
  return async (stopping: AbortSignal): Promise<void> => {
    const nowMs = steadyClock.nowMs();
    const { sparing = read } = read;
    const due = await read.all<DueHolder>(dueSql, nowMs);
    due.push(...(await sparing.all<DueHolder>(passedSql, nowMs)));
    for (const one of due) {
      // Others go on: it is this bucket that has a row which is not what was written.
      await releaseAll(one, stopping).catch(onError);
    }
    for (const holding of await listUncounted(sparing)) {
      if (stopping.aborted) return;
      await ledger.maintain({ kind: 'countHeld', ...holding });
    }
  };
}

interface DueHolder {
  bucketId: number;
  seq: number;
  isDying: number;
}

/** By an index of those that expire or are dying; these expire no more (catalog/snapshots.ts). */
const due = (condition: string) => `SELECT bucket_id AS bucketId, seq, state = 'dying' AS isDying
  FROM main.snapshots WHERE (state = 'dying' OR expires_ms IS NOT NULL) AND ${condition}`;
const dueSql = `${due('expires_ms <= ?')} UNION ALL ${due('expires_ms IS NULL')}`;

/** Windows that have passed something a while ago, or that were set to off. */
const passedSql = `SELECT t.bucket_id AS bucketId, t.holder AS seq, 0 AS isDying
  FROM held_totals AS t LEFT JOIN main.bucket_settings AS s
    ON s.bucket_id = t.bucket_id AND s.name = 'undelete'
  WHERE t.holder = 0 AND (s.document IS NULL OR
    (SELECT min(ended_ms) FROM held_versions AS h
      WHERE h.bucket_id = t.bucket_id AND h.holder = t.holder)
      <= ? - json_extract(s.document, '$.windowMs')
        - min(120000, json_extract(s.document, '$.windowMs') / 30))`;

/** The deletion of a snapshot that has expired; undefined: it is not there any more. */
async function expiryOf(
  read: Reader,
  bucket: Bucket,
  { seq, book }: { seq: number; book: string },
): Promise<Commit | undefined> {
  const found = await read.get<{ name: string }>(
    "SELECT name FROM snapshots WHERE bucket_id = ? AND seq = ? AND state = 'living'",
    ...[bucket.id, seq],
  );
  if (!found) return undefined;
  const { name } = found;
  const change = { kind: 'deleteSnapshot', bucketId: bucket.id, name, expiredSeq: seq } as const;
  const action = 'bursar:DeleteSnapshot';
  const target = snapshotTarget(bucket.tenant, bucket.name, name);
  return commitOf(bucket, target, { change, action, told: { expired: true }, book });
}
