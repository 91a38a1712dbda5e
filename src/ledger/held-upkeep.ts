// Lets go of what dying snapshots alone have held, in the ledger's transactions, in the name of the
// bucket's owner, and has snapshots die that expire. Invariants: it goes by the bucket's snapshots
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
  timeMs: number;
  keyring: Keyring;
  /** In the same transaction. */
  apply(commit: Commit): Promise<CommitResult>;
}

interface DueRow {
  name: string;
  state: string;
  expiresMs: number | null;
}

/**
 * One slice of a snapshot that is dying, or has expired. Gives how many versions it has dealt with,
 * and 1 where it has begun or ended the snapshot's dying; 0: there is nothing to do.
 */
export async function releaseSlice(
  tx: Tx,
  { bucketId, seq, max, book }: Extract<Maintenance, { kind: 'releaseHeld' }>,
  { timeMs, keyring, apply }: HeldContext,
): Promise<number> {
  const bucket = await getBucket(tx, bucketId);
  const at = 'FROM snapshots WHERE bucket_id = ? AND seq = ?';
  const due = await tx.get<DueRow>(
    `SELECT name, state, expires_ms AS expiresMs ${at}`,
    ...[bucketId, seq],
  );
  if (!bucket || !due) return 0;
  await verifySnapshots(tx, bucket);
  const commit = (change: Change, action: string, told: object) =>
    apply(commitOf(bucket, due.name, { change, action, told, book }));
  if (due.state === 'living') {
    if (due.expiresMs === null || due.expiresMs > timeMs) return 0;
    const change = { kind: 'deleteSnapshot', bucketId, name: due.name } as const;
    const { ok } = await commit(change, 'bursar:DeleteSnapshot', { expired: true });
    return ok ? 1 : 0;
  }
  const taken = await takeFromDying(tx, { bucket, holder: seq, max }, keyring);
  const { released, moved } = taken;
  if (released.length > 0) {
    const change = { kind: 'releaseHeld', bucketId, holder: seq, rows: released } as const;
    const result = await commit(change, 'bursar:ReleaseHeld', describeReleased(released));
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
  ledger: Pick<Ledger, 'maintain'>;
  /** The name of the price book in force in a store. */
  bookOf: (store: number) => string;
  onError: (error: unknown) => void;
}

/** Has what dying snapshots held let go of, soon after they were deleted or have expired. */
export function releaseHeldSoon({ read, ledger, bookOf, onError }: ReleaseOptions): Repeated {
  const work = async (stopping: AbortSignal): Promise<void> => {
    const { sparing = read } = read;
    const due = await sparing.all<{ bucketId: number; seq: number; store: number }>(
      `SELECT s.bucket_id AS bucketId, s.seq, b.store FROM snapshots AS s
         JOIN buckets AS b ON b.id = s.bucket_id
         WHERE (s.state = 'dying' OR s.expires_ms IS NOT NULL)
           AND (s.state = 'dying' OR s.expires_ms <= ?)`,
      steadyClock.nowMs(),
    );
    for (const { bucketId, seq, store } of due) {
      const one = { kind: 'releaseHeld', bucketId, seq, max: slice, book: bookOf(store) } as const;
      try {
        while (!stopping.aborted && (await ledger.maintain(one)) > 0);
      } catch (error) {
        // Others go on: it is this bucket that has a row which is not what was written.
        onError(error);
      }
    }
  };
  return new Repeated({ work, pauseMs: () => pauseMs, onError });
}
