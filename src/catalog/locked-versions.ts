// Which versions of a bucket cannot be deleted now, and until when. It reads versions by key and,
// of a key, from the newest down, a bounded number at a time. Invariant: nothing of a row is told
// before it was found authentic. What snapshots hold has ended, so no lock is on it.
import type { SqlValue } from '../core/database.ts';
import { type BucketName, verifyListed } from './authentic.ts';
import type { Retention } from './object-lock.ts';
import {
  type Attributes,
  type Catalog,
  currentColumns,
  noncurrentColumns,
  type Version,
} from './versions.ts';

export interface LockedVersion {
  key: string;
  /** null: S3's `null` version. */
  versionId: string | null;
  sizeBytes: number;
  /** null: no retention holds it any more. */
  retention: Retention | null;
  legalHold: boolean;
}

/** A version of a key; behind it come older ones of the key, and other keys. */
export interface VersionPlace {
  key: string;
  seq: number;
}

export interface LockedPage {
  locked: LockedVersion[];
  /** Behind which the next page begins; null: this is the last. */
  last: VersionPlace | null;
}

type Row = Omit<Version, 'bucketId' | 'manifest'>;

/** Values, for each of the four: bucket, key, for two of them `seq`, and how many. */
const pageSql = `SELECT * FROM (${[
  ['key = ? AND seq < ?', 'seq DESC'],
  ['key > ?', 'key, seq DESC'],
]
  .flatMap(([condition, order]) => [
    select(currentColumns, 'versions', `${condition} ORDER BY ${order}`),
    select(noncurrentColumns, 'noncurrent_versions', `${condition} ORDER BY ${order}`),
  ])
  .join(' UNION ALL ')}) ORDER BY key, seq DESC LIMIT ?`;

function select(columns: string, table: string, rest: string): string {
  return `SELECT * FROM (SELECT ${columns} FROM ${table} AS v WHERE bucket_id = ? AND ${rest}
    LIMIT ?)`;
}

/**
 * What is locked at `timeMs` of the `max` versions behind a place, delete markers included. Throws
 * IntegrityError.
 */
export async function readLocked(
  { read, keyring }: Catalog,
  bucket: BucketName,
  { after, max, timeMs }: { after: VersionPlace; max: number; timeMs: number },
): Promise<LockedPage> {
  const ofKey: SqlValue[] = [bucket.id, after.key, after.seq, max];
  const behind: SqlValue[] = [bucket.id, after.key, max];
  const rows = await read.all<Row>(pageSql, ...ofKey, ...ofKey, ...behind, ...behind, max);
  const locked: LockedVersion[] = [];
  for (const row of rows) {
    // Which has no lock, and is not said to: nothing of it is told.
    if (!row.attributes.includes('"retention"') && !row.attributes.includes('"legalHold"')) {
      continue;
    }
    verifyListed(keyring, bucket, row);
    const { retention, legalHold = false } = JSON.parse(row.attributes) as Attributes;
    const isRetained = retention !== undefined && retention.untilMs > timeMs;
    if (!isRetained && !legalHold) continue;
    const { key, versionId, sizeBytes } = row;
    locked.push({
      ...{ key, versionId, sizeBytes, legalHold },
      retention: isRetained ? retention : null,
    });
  }
  const end = rows.length === max ? rows.at(-1) : undefined;
  return { locked, last: end ? { key: end.key, seq: end.seq } : null };
}
