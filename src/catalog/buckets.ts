// Buckets: a namespace per tenant. A bucket's id is never used again, so that what a deleted bucket
// left behind can never show in a new one of the same name.

import { hash } from 'node:crypto';
import type { Acl } from '../core/acl.ts';
import type { Reader, Tx } from '../core/database.ts';
import { pages } from '../core/pages.ts';
import type { ReadPayer } from '../core/read-payer.ts';
import type { RecordReads } from '../core/record-reads.ts';
import { parseConfigurations } from './configurations.ts';
import type { ObjectLockConfig } from './object-lock.ts';

export interface Bucket {
  id: number;
  tenant: string;
  name: string;
  owner: string;
  createdMs: number;
  /** Number of the store where all extents of its objects lie. */
  store: number;
  /** IAM JSON, as it was sent; null: none. */
  policy: string | null;
  /** null: as its tenant says. */
  recordReads: RecordReads | null;
  versioning: Versioning;
  /** null: it has no object lock. */
  objectLock: ObjectLockConfig | null;
  /** What keeps it from the public, and what lets others in; null: nothing was said of that. */
  publicAccess: Exposure | null;
  /** null: BucketOwnerEnforced. */
  ownership: string | null;
}

/** Once it was enabled it can be suspended, and is never unversioned again. */
export type Versioning = 'Unversioned' | 'Enabled' | 'Suspended';

/** PublicAccessBlockConfiguration of the S3 API reference. */
export interface PublicAccessBlock {
  blockPublicAcls: boolean;
  ignorePublicAcls: boolean;
  blockPublicPolicy: boolean;
  restrictPublicBuckets: boolean;
}

/** Its block, all of it or nothing, and its access control list: one JSON of the bucket's row. */
export interface Exposure extends Partial<PublicAccessBlock> {
  /** Absent: only its owner has rights by it. It counts where the bucket allows lists. */
  acl?: Acl;
  /** Who comes from another tenant pays for what they read of it; absent: as of any bucket. */
  requesterPays?: true;
  /** Of reads its tenant pays what else its owner would; absent: as of any bucket. */
  tenantPays?: true;
}

export function readPayerOf({ publicAccess }: Pick<Bucket, 'publicAccess'>): ReadPayer {
  if (publicAccess?.requesterPays) return 'requester';
  return publicAccess?.tenantPays ? 'tenant' : 'owner';
}

/** The bucket as its row has it: structured values are JSON. */
export type BucketRow = Omit<Bucket, 'objectLock' | 'publicAccess'> & {
  objectLock: string | null;
  publicAccess: string | null;
};

const shortColumns = `id, tenant, name, owner, created_ms AS createdMs, store,
  record_reads AS recordReads, versioning, object_lock AS objectLock,
  public_access AS publicAccess, ownership`;
const columns = `${shortColumns}, policy`;

/** Throws UnsealedRow for one that is not what was stored. */
export async function findBucket(
  read: Reader,
  tenant: string,
  name: string,
): Promise<Bucket | undefined> {
  const sql = `SELECT ${columns} FROM buckets WHERE tenant = ? AND name = ?`;
  const row = await read.get<BucketRow>(sql, tenant, name);
  return row && readAuthentic(read, row);
}

/** The same by its number. */
export async function getBucket(read: Reader, id: number): Promise<Bucket | undefined> {
  const row = await read.get<BucketRow>(`SELECT ${columns} FROM buckets WHERE id = ?`, id);
  return row && readAuthentic(read, row);
}

/** Where it is written what is read is verified here, elsewhere by the connection (core/seals). */
async function readAuthentic(read: Reader, row: BucketRow): Promise<Bucket> {
  if (read.rows) {
    const { createdMs: created_ms, recordReads: record_reads } = row;
    const { objectLock: object_lock, publicAccess: public_access } = row;
    const named = { ...row, created_ms, record_reads, object_lock, public_access };
    await read.rows.verify('buckets', named);
  }
  return readRow(row);
}

function readRow<R extends Pick<BucketRow, 'objectLock' | 'publicAccess'>>(row: R) {
  const { objectLock, publicAccess } = row;
  return {
    ...row,
    objectLock: objectLock === null ? null : (JSON.parse(objectLock) as ObjectLockConfig),
    publicAccess: publicAccess === null ? null : (JSON.parse(publicAccess) as Exposure),
  };
}

/** Buckets of a store in order of id, after `afterId`. */
export async function* listStoreBuckets(
  read: Reader,
  store: number,
  perPage: number,
): AsyncGenerator<Bucket[]> {
  const sql = `SELECT ${columns} FROM buckets WHERE store = ? AND id > ? ORDER BY id LIMIT ?`;
  const readPage = (last?: BucketRow) => read.all<BucketRow>(sql, store, last?.id ?? 0, perPage);
  for await (const rows of pages(readPage)) yield rows.map(readRow);
}

/** A bucket without its policy's text. */
export type ListedBucket = Omit<Bucket, 'policy'> & { hasPolicy: number };

/** A tenant's buckets in order of name, after `after`. */
export async function listBuckets(
  read: Reader,
  wanted: { tenant: string; prefix: string; after: string; max: number },
): Promise<ListedBucket[]> {
  const { tenant, after, prefix, max } = wanted;
  const rows = await read.all<Omit<BucketRow, 'policy'> & { hasPolicy: number }>(
    `SELECT ${shortColumns}, policy IS NOT NULL AS hasPolicy FROM buckets
       WHERE tenant = ? AND name > ? AND substr(name, 1, length(?)) = ?
       ORDER BY name LIMIT ?`,
    ...[tenant, after, prefix, prefix, max],
  );
  return rows.map(readRow);
}

/** Names of the buckets that a principal of a tenant owns, in order, after `after`. */
export async function listOwned(
  read: Reader,
  { tenant, owner, after, max }: Record<'tenant' | 'owner' | 'after', string> & { max: number },
): Promise<string[]> {
  const rows = await read.all<{ name: string }>(
    'SELECT name FROM buckets WHERE tenant = ? AND owner = ? AND name > ? ORDER BY name LIMIT ?',
    ...[tenant, owner, after, max],
  );
  return rows.map(({ name }) => name);
}

/** Up to `max` of a tenant's buckets that have a policy, by name behind `after`, with that. */
export async function listPolicies(
  read: Reader,
  { tenant, after, max }: { tenant: string; after: string; max: number },
): Promise<{ name: string; policy: string }[]> {
  return read.all<{ name: string; policy: string }>(
    `SELECT name, policy FROM buckets WHERE tenant = ? AND name > ? AND policy IS NOT NULL
       ORDER BY name LIMIT ?`,
    ...[tenant, after, max],
  );
}

// What is set of a bucket besides its versioning and policy, each a JSON document that the gateway
// composed of what a client sent. What requests are decided by lies in the bucket's own row, which
// is kept in memory (bucket-cache.ts); the rest is read where it is asked for.

export type StoredSetting =
  | 'accelerate'
  | 'cors'
  | 'encryption'
  | 'intelligentTiering'
  | 'inventory'
  | 'lifecycle'
  | 'metrics'
  | 'notification'
  | 'tagging'
  | 'undelete'
  | 'website';

/** The JSON of a setting; null: the bucket has none. */
export async function readSetting(
  read: Reader,
  bucketId: number,
  name: StoredSetting,
): Promise<string | null> {
  const row = await read.get<{ document: string }>(
    'SELECT document FROM bucket_settings WHERE bucket_id = ? AND name = ?',
    ...[bucketId, name],
  );
  return row?.document ?? null;
}

/** Those of one kind of which a bucket has several, each under an id. */
export async function readConfigurations<T>(
  read: Reader,
  bucketId: number,
  name: StoredSetting,
): Promise<T[]> {
  return parseConfigurations(await readSetting(read, bucketId, name));
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
      `INSERT INTO bucket_settings VALUES (?, ?, ?)
         ON CONFLICT (bucket_id, name) DO UPDATE SET document = excluded.document`,
      ...[bucketId, name, document],
    );
  }
}

/**
 * SHA-256, hex, of all that is set of a bucket, but for how its reads are recorded: what the record
 * of a change says that it came to. undefined: there is no such bucket.
 */
export async function hashSettings(read: Reader, bucketId: number): Promise<string | undefined> {
  const row = await read.get<object>(
    'SELECT versioning, object_lock, public_access, ownership, policy FROM buckets WHERE id = ?',
    bucketId,
  );
  if (!row) return undefined;
  const settings = await readSettings(read, bucketId);
  return hash('sha256', JSON.stringify([row, settings]), 'hex');
}
