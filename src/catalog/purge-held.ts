// Erasure by law of what is held: every version of a key, or of all keys with a prefix, that
// snapshots and the undelete window hold is let go of at once, whoever has it. What has not ended
// is not concerned. Invariant: nothing goes that a locked snapshot has, or that is locked itself.
import type { Tx } from '../core/database.ts';
import type { Keyring } from '../core/keyring.ts';
import { textSuccessor } from '../core/text-order.ts';
import { isAuthentic, verifyVersion } from './authentic.ts';
import { type Bucket, getBucket } from './buckets.ts';
import { type HeldRow, readHeldOf, releasableAtOnce } from './held-release.ts';
import { type Lock, mayEnd } from './object-lock.ts';
import { type Moment, noStorage, type Outcome, refused } from './outcome.ts';

export interface PurgeHeld {
  kind: 'purgeHeld';
  bucketId: number;
  /** The key, or what keys begin with. */
  key: string;
  isPrefix: boolean;
  /** It stays in the record for good. */
  reason: string;
  /** The price book in force in the bucket's store. */
  book: string;
}

/** What a purge has found: it is let go of in the same transaction, with records of its own. */
export interface Purged {
  bucket: Bucket;
  rows: readonly (HeldRow & { holder: number })[];
  book: string;
}

/** A transaction of a few milliseconds. */
const purgedAtOnce = 32;

/**
 * Finds up to `purgedAtOnce` of them; none of these goes where one is locked. Refuses
 * SnapshotLocked, AccessDenied, BursarIntegrityError.
 */
export async function purgeHeld(
  tx: Tx,
  { bucketId, key, isPrefix, book }: PurgeHeld,
  { timeMs, clockMs, keyring }: Pick<Moment, 'timeMs' | 'clockMs' | 'keyring'>,
): Promise<Outcome<null>> {
  const bucket = await getBucket(tx, bucketId);
  if (!bucket) return refused('NoSuchBucket');
  const below = isPrefix ? textSuccessor(key) : null;
  const wanted = { bucketId, from: key, below, isPrefix, max: purgedAtOnce };
  const rows = releasableAtOnce(await readHeldOf(tx, wanted));
  // Records that are in the future end no lock.
  const nowMs = clockMs ?? timeMs;
  for (const row of rows) {
    const refusal = await refusePurge(tx, bucket, row, { nowMs, keyring });
    if (refusal) return refusal;
  }
  return { ok: true, storage: noStorage, result: null, purged: { bucket, rows, book } };
}

async function refusePurge(
  tx: Tx,
  bucket: Bucket,
  row: HeldRow,
  { nowMs, keyring }: { nowMs: number; keyring: Keyring },
): Promise<Outcome<never> | null> {
  const { key, seq, endedSeq, attributes } = row;
  const locked = await tx.get(
    `SELECT 1 FROM snapshots WHERE bucket_id = ? AND seq >= ? AND seq < ? AND state = 'living'
       AND lock IS NOT NULL AND (expires_ms IS NULL OR expires_ms > ?)
       AND substr(?, 1, length(prefix)) = prefix LIMIT 1`,
    ...[bucket.id, seq, endedSeq, nowMs, key],
  );
  if (locked) return refused('SnapshotLocked');
  // Whether it is locked is said by its row, which cannot be believed.
  if (!isAuthentic(() => verifyVersion(keyring, bucket, row))) {
    return bucket.objectLock ? refused('BursarIntegrityError') : null;
  }
  const mayGo = mayEnd(JSON.parse(attributes) as Lock, { timeMs: nowMs, bypassGovernance: false });
  return mayGo ? null : refused('AccessDenied');
}
