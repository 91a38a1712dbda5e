// Changes that the journal in their store does not have yet (docs/formats/journal.md). Invariant: a
// row is written in the transaction of its change, so no change of a bucket in an S3 store can be
// missed; it goes when a segment of the journal that tells of it is durable in the store.
import type { Reader, Tx } from '../core/database.ts';
import { localStore } from '../core/manifest.ts';
import { type JournalObjectRow, noteJournalObject } from './journal-objects.ts';
import type { Moment } from './outcome.ts';
import { noteJournaled } from './stores.ts';

export interface OutboxRow {
  seq: number;
  timeMs: number;
  bucketId: number;
  /** Null: the bucket itself, or one of its snapshots. */
  key: string | null;
  /**
   * Of the version of the key that was made, changed or ended; null: S3's `null` version. Without a
   * key, the `seq` of the snapshot that was made or deleted; null: the bucket itself was changed.
   */
  versionId: string | null;
}

/** Notes that a version of a key, or the bucket, was changed at this moment. */
export async function noteChange(
  tx: Tx,
  changed: { store: number; bucketId: number; key: string | null; versionId?: string | null },
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<void> {
  const { store, bucketId, key, versionId = null } = changed;
  if (store <= localStore) return;
  const sql = 'INSERT INTO outbox VALUES (?, ?, ?, ?, ?, ?)';
  await tx.run(sql, store, moment.seq, moment.timeMs, bucketId, key, versionId);
}

/** Notes that a snapshot of a bucket was made or deleted at this moment. */
export function noteSnapshot(
  tx: Tx,
  { store, bucketId, snapshot }: { store: number; bucketId: number; snapshot: number },
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<void> {
  const changed = { store, bucketId, key: null, versionId: String(snapshot) };
  return noteChange(tx, changed, moment);
}

export function isOfSnapshot({ bucketId, key, versionId }: OutboxRow): boolean {
  return bucketId !== 0 && key === null && versionId !== null;
}

/** Whether the journal has still to tell of a version of one of these keys. */
export async function isPending(
  read: Reader,
  { store, bucketId, keys }: { store: number; bucketId: number; keys: [string, string] },
): Promise<boolean> {
  if (store <= localStore) return false;
  const sql = 'SELECT 1 FROM outbox WHERE store = ? AND bucket_id = ? AND key IN (?, ?) LIMIT 1';
  return (await read.get(sql, store, bucketId, ...keys)) !== undefined;
}

/** The row of a store that is of this change; undefined: there is none. */
export function findOutboxRow(
  read: Reader,
  store: number,
  seq: number,
): Promise<OutboxRow | undefined> {
  return read.get<OutboxRow>(`${selectRows} WHERE store = ? AND seq = ?`, store, seq);
}

const selectRows = `SELECT seq, time_ms AS timeMs, bucket_id AS bucketId, key,
  version_id AS versionId FROM outbox`;

/** The first `max` rows of a store, in order of seq. */
export async function listOutbox(read: Reader, store: number, max: number): Promise<OutboxRow[]> {
  return read.all<OutboxRow>(`${selectRows} WHERE store = ? ORDER BY seq LIMIT ?`, store, max);
}

/** What a journal waits with of the buckets of a tenant. */
export interface UntoldBuckets {
  /** Null: of buckets that are gone. */
  tenant: string | null;
  firstMs: number;
  firstSeq: number;
  lastSeq: number;
}

/** Of changes behind `afterSeq`; those of identities are of no bucket. */
export function listUntoldBuckets(
  read: Reader,
  store: number,
  afterSeq: number,
): Promise<UntoldBuckets[]> {
  return read.all<UntoldBuckets>(
    `SELECT b.tenant, min(o.time_ms) AS firstMs, min(o.seq) AS firstSeq, max(o.seq) AS lastSeq
       FROM outbox AS o LEFT JOIN buckets AS b ON b.id = o.bucket_id
       WHERE o.store = ? AND o.seq > ? AND o.bucket_id <> 0 GROUP BY b.tenant`,
    ...[store, afterSeq],
  );
}

/** Whether the journal may have been told of this change just before the process ended. */
export async function isInOutbox(read: Reader, store: number, seq: number): Promise<boolean> {
  const sql = 'SELECT 1 FROM outbox WHERE store = ? AND seq = ?';
  return (await read.get(sql, store, seq)) !== undefined;
}

/**
 * Forgets what is in the journal: a store's rows up to `lastSeq`, which `segment` tells. Gives how
 * many there were.
 */
export async function forgetJournaled(
  tx: Tx,
  told: { store: number; lastSeq: number; segment: JournalObjectRow },
): Promise<number> {
  const { store, lastSeq, segment } = told;
  await noteJournalObject(tx, store, segment);
  const { changes } = await tx.run(
    'DELETE FROM outbox WHERE store = ? AND seq <= ?',
    ...[store, lastSeq],
  );
  await noteJournaled(tx, store, lastSeq);
  return changes;
}
