// Lets go of what dying snapshots alone have held, in the ledger's transactions, in the name of the
// bucket's owner, and deletes snapshots that expire. Invariants: it goes by the bucket's snapshots
// only where all of them are what was sealed, and none is missing; each slice is a commit with its
// record and its charge, and is small, so that writers do not wait for it.
import { createHash } from 'node:crypto';
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { type Bucket, getBucket } from '../catalog/buckets.ts';
import { type HeldRow, takeFromDying } from '../catalog/held-versions.ts';
import type { Reader, Tx } from '../core/database.ts';
import type { Keyring } from '../core/keyring.ts';
import { Repeated } from '../core/repeated.ts';
import { UnsealedRow } from '../core/seals/row-seal.ts';
import { steadyClock } from '../core/steady-clock.ts';
import { chargeStored } from '../quota/charge.ts';
import type { Change } from './commands/index.ts';
import type { Commit, CommitResult, Maintenance } from './commit.ts';
import type { Ledger } from './ledger.ts';

export interface HeldContext {
  keyring: Keyring;
  /** In the same transaction. */
  apply(commit: Commit): Promise<CommitResult>;
}

/**
 * One slice of a snapshot that is dying. Gives how many versions it has dealt with, and 1 where it
 * has ended the snapshot's dying; 0: there is nothing to do.
 */
export async function releaseSlice(
  tx: Tx,
  { bucketId, seq, max, book }: Extract<Maintenance, { kind: 'releaseHeld' }>,
  { keyring, apply }: HeldContext,
): Promise<number> {
  const bucket = await getBucket(tx, bucketId);
  const dying = await tx.get<{ name: string }>(
    "SELECT name FROM snapshots WHERE bucket_id = ? AND seq = ? AND state = 'dying'",
    ...[bucketId, seq],
  );
  if (!bucket || !dying) return 0;
  await verifySnapshots(tx, bucket);
  const taken = await takeFromDying(tx, { bucket, holder: seq, max }, keyring);
  const { released, moved } = taken;
  if (released.length > 0) {
    const change = { kind: 'releaseHeld', bucketId, holder: seq, rows: released } as const;
    const told = describeReleased(released);
    const result = await apply(
      commitOf(bucket, dying.name, { change, action: 'bursar:ReleaseHeld', told, book }),
    );
    if (!result.ok) throw new Error(`nothing was let go of: ${result.code}`);
  }
  if (released.length + moved > 0) return released.length + moved;
  await tx.run('DELETE FROM held_totals WHERE bucket_id = ? AND holder = ?', bucketId, seq);
  await tx.run('DELETE FROM snapshots WHERE bucket_id = ? AND seq = ?', bucketId, seq);
  return 1;
}

/** Throws UnsealedRow where one of a bucket's snapshots is not what was sealed, or is missing. */
async function verifySnapshots(tx: Tx, { id, tenant, name }: Bucket): Promise<void> {
  await tx.rows?.verifyWhere('snapshots', 't.bucket_id = ?', id);
  const missing = await tx.get<{ row: string }>(
    `SELECT row FROM seals WHERE tbl = 'snapshots' AND tenant = ? AND row > ? AND row < ?
       AND NOT EXISTS (SELECT 1 FROM snapshots AS s
         WHERE s.bucket_id = ? AND s.bucket || '/' || s.seq = row) LIMIT 1`,
    ...[tenant, `${name}/`, `${name}0`, id],
  );
  if (!missing) return;
  const { row } = missing;
  const what = `the snapshot ${tenant}/${row} was removed`;
  const place = { table: 'snapshots', tenant, row, fault: 'removed' } as const;
  throw new UnsealedRow({ ...place, scope: { tenant, bucket: name }, what });
}

function describeReleased(rows: readonly HeldRow[]): object {
  const names = createHash('sha256');
  let bytes = 0;
  for (const { seq, endedSeq, sizeBytes, isImage } of rows) {
    names.update(`${seq} ${endedSeq}\n`);
    if (!isImage) bytes += sizeBytes;
  }
  return { versions: rows.length, bytes: String(bytes), digest: names.digest('hex') };
}

/** Charged is what was stored, to whom it was charged; nobody's budget holds it up. */
function commitOf(
  { tenant, owner: principal, name }: Bucket,
  snapshot: string,
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
      target: snapshotTarget(tenant, name, snapshot),
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
/** A transaction of a few milliseconds. */
const slice = 32;

interface ReleaseOptions {
  read: Reader;
  ledger: Pick<Ledger, 'commit' | 'maintain'>;
  /** The name of the price book in force in a store. */
  bookOf: (store: number) => string;
  onError: (error: unknown) => void;
}

/**
 * Deletes snapshots that have expired, and has what dying ones held let go of, soon after. What is
 * due is found in the table itself, by two seeks; it is verified before anything is done with it.
 */
export function releaseHeldSoon(options: ReleaseOptions): Repeated {
  const { onError } = options;
  return new Repeated({ work: releaseHeldRun(options), pauseMs: () => pauseMs, onError });
}

/** One run of it. */
export function releaseHeldRun({ read, ledger, bookOf, onError }: ReleaseOptions) {
  const release = async (due: DueSnapshot, stopping: AbortSignal): Promise<void> => {
    const { bucketId, seq, isDying } = due;
    const bucket = await getBucket(read, bucketId);
    if (!bucket) return;
    const book = bookOf(bucket.store);
    if (!isDying) {
      const commit = await expiryOf(read, bucket, { seq, book });
      if (commit) await ledger.commit(commit);
    }
    const one = { kind: 'releaseHeld', bucketId, seq, max: slice, book } as const;
    while (!stopping.aborted && (await ledger.maintain(one)) > 0);
  };
  return async (stopping: AbortSignal): Promise<void> => {
    for (const due of await read.all<DueSnapshot>(dueSql, steadyClock.nowMs())) {
      // Others go on: it is this bucket that has a row which is not what was written.
      await release(due, stopping).catch(onError);
    }
  };
}

interface DueSnapshot {
  bucketId: number;
  seq: number;
  isDying: number;
}

/** By an index of those that expire or are dying; these expire no more (catalog/snapshots.ts). */
const due = (condition: string) => `SELECT bucket_id AS bucketId, seq, state = 'dying' AS isDying
  FROM main.snapshots WHERE (state = 'dying' OR expires_ms IS NOT NULL) AND ${condition}`;
const dueSql = `${due('expires_ms <= ?')} UNION ALL ${due('expires_ms IS NULL')}`;

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
  return commitOf(bucket, name, { change, action, told: { expired: true }, book });
}
