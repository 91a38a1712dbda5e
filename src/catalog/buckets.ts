// Buckets: a namespace per tenant. A bucket's id is never used again, so that what a deleted bucket
// left behind can never show in a new one of the same name.
import type { Reader, Tx } from '../core/database.ts';
import { bucketsPerTenantMax } from '../core/limits.ts';
import type { RecordReads } from '../core/record-reads.ts';
import type { ObjectLockConfig } from './object-lock.ts';
import { noteChange } from './outbox.ts';
import { type Moment, noStorage, type Outcome, refused } from './outcome.ts';
import { discardUploads } from './uploads.ts';

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
  /** null: it has no such block. */
  publicAccess: PublicAccessBlock | null;
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

/** As its row has it: what is structured is JSON. */
export type BucketRow = Omit<Bucket, 'objectLock' | 'publicAccess'> & {
  objectLock: string | null;
  publicAccess: string | null;
};

const shortColumns = `id, tenant, name, owner, created_ms AS createdMs, store,
  record_reads AS recordReads, versioning, object_lock AS objectLock,
  public_access AS publicAccess, ownership`;
const columns = `${shortColumns}, policy`;

export async function findBucket(
  read: Reader,
  tenant: string,
  name: string,
): Promise<Bucket | undefined> {
  const sql = `SELECT ${columns} FROM buckets WHERE tenant = ? AND name = ?`;
  const row = await read.get<BucketRow>(sql, tenant, name);
  return row && readRow(row);
}

export async function getBucket(read: Reader, id: number): Promise<Bucket | undefined> {
  const row = await read.get<BucketRow>(`SELECT ${columns} FROM buckets WHERE id = ?`, id);
  return row && readRow(row);
}

function readRow<R extends Pick<BucketRow, 'objectLock' | 'publicAccess'>>(row: R) {
  const { objectLock, publicAccess } = row;
  return {
    ...row,
    objectLock: objectLock === null ? null : (JSON.parse(objectLock) as ObjectLockConfig),
    publicAccess: publicAccess === null ? null : (JSON.parse(publicAccess) as PublicAccessBlock),
  };
}

/** Buckets of a store in order of id, after `afterId`. */
export async function listStoreBuckets(
  read: Reader,
  wanted: { store: number; afterId: number; max: number },
): Promise<Bucket[]> {
  const sql = `SELECT ${columns} FROM buckets WHERE store = ? AND id > ? ORDER BY id LIMIT ?`;
  const rows = await read.all<BucketRow>(sql, wanted.store, wanted.afterId, wanted.max);
  return rows.map(readRow);
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
    tenant,
    after,
    prefix,
    prefix,
    max,
  );
  return rows.map(readRow);
}

export interface CreateBucket {
  kind: 'createBucket';
  tenant: string;
  name: string;
  owner: string;
  store: number;
  /** It has object lock, and so is versioned from the start. */
  objectLock?: true;
  ownership?: string;
}

export async function createBucket(
  tx: Tx,
  change: CreateBucket,
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  // Both were there when the request was decided; either may have been deleted since.
  const owner = await tx.get(
    'SELECT 1 FROM principals WHERE tenant = ? AND name = ?',
    change.tenant,
    change.owner,
  );
  if (!owner) return refused('AccessDenied');
  const existing = await findBucket(tx, change.tenant, change.name);
  if (existing) {
    return refused(
      existing.owner === change.owner ? 'BucketAlreadyOwnedByYou' : 'BucketAlreadyExists',
    );
  }
  // A mount has the name (authz/mount-changes.ts).
  const mount = 'SELECT 1 FROM mounts WHERE tenant = ? AND name = ?';
  if (await tx.get(mount, change.tenant, change.name)) return refused('BucketAlreadyExists');
  const count = await tx.get<{ n: number }>(
    'SELECT count(*) AS n FROM buckets WHERE tenant = ?',
    change.tenant,
  );
  if ((count?.n ?? 0) >= bucketsPerTenantMax) return refused('TooManyBuckets');
  const { store, objectLock } = change;
  const { insertedId } = await tx.run(
    `INSERT INTO buckets (tenant, name, owner, created_ms, store, versioning, object_lock, ownership)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    change.tenant,
    change.name,
    change.owner,
    moment.timeMs,
    store,
    objectLock ? 'Enabled' : 'Unversioned',
    objectLock ? '{}' : null,
    change.ownership ?? null,
  );
  return noteBucket(tx, { id: insertedId, store }, moment);
}

export interface DeleteBucket {
  kind: 'deleteBucket';
  bucketId: number;
}

/**
 * Deletes a bucket without versions and markers; unfinished uploads go with it, as on S3.
 */
export async function deleteBucket(
  tx: Tx,
  change: DeleteBucket,
  moment: Moment,
): Promise<Outcome<null>> {
  const bucket = await getBucket(tx, change.bucketId);
  if (!bucket) return refused('NoSuchBucket');
  const version = await tx.get(
    `SELECT 1 WHERE EXISTS (SELECT 1 FROM versions WHERE bucket_id = ?)
       OR EXISTS (SELECT 1 FROM noncurrent_versions WHERE bucket_id = ?)`,
    change.bucketId,
    change.bucketId,
  );
  if (version) return refused('BucketNotEmpty');
  const storage = await discardUploads(tx, bucket, moment);
  await tx.run('DELETE FROM bucket_settings WHERE bucket_id = ?', change.bucketId);
  await tx.run('DELETE FROM buckets WHERE id = ?', change.bucketId);
  await noteChange(tx, { store: bucket.store, bucketId: bucket.id, key: null }, moment);
  return { ok: true, storage, result: null };
}

export interface PutBucketPolicy {
  kind: 'putBucketPolicy';
  bucketId: number;
  /** As it was sent; null: the bucket has none from now on. */
  policy: string | null;
}

export async function putBucketPolicy(
  tx: Tx,
  { bucketId, policy }: PutBucketPolicy,
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  const bucket = await getBucket(tx, bucketId);
  if (!bucket) return refused('NoSuchBucket');
  await tx.run('UPDATE buckets SET policy = ? WHERE id = ?', policy, bucketId);
  return noteBucket(tx, bucket, moment);
}

export interface SetVersioning {
  kind: 'setVersioning';
  bucketId: number;
  versioning: Exclude<Versioning, 'Unversioned'>;
}

/** Refuses to suspend it where there is object lock, whose versions would then be replaced. */
export async function setVersioning(
  tx: Tx,
  { bucketId, versioning }: SetVersioning,
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  const bucket = await getBucket(tx, bucketId);
  if (!bucket) return refused('NoSuchBucket');
  if (bucket.objectLock && versioning !== 'Enabled') return refused('InvalidBucketState');
  await tx.run('UPDATE buckets SET versioning = ? WHERE id = ?', versioning, bucketId);
  return noteBucket(tx, bucket, moment);
}

export interface SetRecordReads {
  tenant: string;
  name: string;
  /** null: as its tenant says. */
  recordReads: RecordReads | null;
}

/** Of these no journal tells: a bucket is rebuilt with what its tenant says. */
export async function setRecordReads(
  tx: Tx,
  { tenant, name, recordReads }: SetRecordReads,
): Promise<Outcome<null>> {
  const sql = 'UPDATE buckets SET record_reads = ? WHERE tenant = ? AND name = ?';
  const { changes } = await tx.run(sql, recordReads, tenant, name);
  if (changes === 0) return refused('NoSuchBucket');
  return { ok: true, storage: noStorage, result: null };
}

/** Has the journal told of what was changed of a bucket. */
export async function noteBucket(
  tx: Tx,
  { id, store }: Pick<Bucket, 'id' | 'store'>,
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  await noteChange(tx, { store, bucketId: id, key: null }, moment);
  return { ok: true, storage: noStorage, result: null };
}
