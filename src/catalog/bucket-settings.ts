// What is set of a bucket besides its versioning and policy, each a JSON document that the gateway
// composed of what a client sent. What requests are decided by lies in the bucket's own row, which
// is kept in memory (bucket-cache.ts); the rest is read where it is asked for. Invariant: object lock
// is never taken from a bucket, and comes only to one that keeps every version.
import type { Reader, Tx } from '../core/database.ts';
import { getBucket, noteBucket } from './buckets.ts';
import { type Moment, type Outcome, refused } from './outcome.ts';

export type StoredSetting = 'cors' | 'lifecycle' | 'tagging';

/** Columns of a bucket's row. */
const columns = {
  publicAccess: 'public_access',
  ownership: 'ownership',
  objectLock: 'object_lock',
} as const;

export type BucketSetting = StoredSetting | keyof typeof columns;

/** The JSON of a setting; null: the bucket has none. */
export async function readSetting(
  read: Reader,
  bucketId: number,
  name: StoredSetting,
): Promise<string | null> {
  const row = await read.get<{ document: string }>(
    'SELECT document FROM bucket_settings WHERE bucket_id = ? AND name = ?',
    bucketId,
    name,
  );
  return row?.document ?? null;
}

/** All of them, by name. */
export async function readSettings(
  read: Reader,
  bucketId: number,
): Promise<Record<string, string>> {
  const rows = await read.all<{ name: string; document: string }>(
    'SELECT name, document FROM bucket_settings WHERE bucket_id = ? ORDER BY name',
    bucketId,
  );
  return Object.fromEntries(rows.map(({ name, document }) => [name, document]));
}

export interface PutBucketSetting {
  kind: 'putBucketSetting';
  bucketId: number;
  name: BucketSetting;
  /** JSON; of `ownership` the word itself. null: the bucket has none from now on. */
  document: string | null;
}

/** Refuses InvalidBucketState for object lock where it cannot be, or that would be taken away. */
export async function putBucketSetting(
  tx: Tx,
  { bucketId, name, document }: PutBucketSetting,
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  const bucket = await getBucket(tx, bucketId);
  if (!bucket) return refused('NoSuchBucket');
  if (name === 'objectLock' && (document === null || bucket.versioning !== 'Enabled')) {
    return refused('InvalidBucketState');
  }
  if (isColumn(name)) {
    await tx.run(`UPDATE buckets SET ${columns[name]} = ? WHERE id = ?`, document, bucketId);
  } else {
    await storeSetting(tx, bucketId, name, document);
  }
  return noteBucket(tx, bucket, moment);
}

function isColumn(name: BucketSetting): name is keyof typeof columns {
  return Object.hasOwn(columns, name);
}

export async function storeSetting(
  tx: Tx,
  bucketId: number,
  name: string,
  document: string | null,
): Promise<void> {
  if (document === null) {
    await tx.run('DELETE FROM bucket_settings WHERE bucket_id = ? AND name = ?', bucketId, name);
  } else {
    await tx.run(
      'INSERT OR REPLACE INTO bucket_settings VALUES (?, ?, ?)',
      bucketId,
      name,
      document,
    );
  }
}
