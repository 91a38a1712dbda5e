// Buckets: a namespace per tenant. A bucket's id is never used again, so that what a deleted bucket
// left behind can never show in a new one of the same name.
import type { Reader, Tx } from '../core/database.ts';
import { bucketsPerTenantMax } from '../core/limits.ts';
import type { RecordReads } from '../core/record-reads.ts';
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
}

const columns =
  'id, tenant, name, owner, created_ms AS createdMs, store, policy, record_reads AS recordReads';

export async function findBucket(
  read: Reader,
  tenant: string,
  name: string,
): Promise<Bucket | undefined> {
  return read.get<Bucket>(
    `SELECT ${columns} FROM buckets WHERE tenant = ? AND name = ?`,
    tenant,
    name,
  );
}

export async function getBucket(read: Reader, id: number): Promise<Bucket | undefined> {
  return read.get<Bucket>(`SELECT ${columns} FROM buckets WHERE id = ?`, id);
}

/** A bucket without its policy's text. */
export type ListedBucket = Omit<Bucket, 'policy' | 'recordReads'> & { hasPolicy: number };

/** A tenant's buckets in order of name, after `after`. */
export async function listBuckets(
  read: Reader,
  wanted: { tenant: string; prefix: string; after: string; max: number },
): Promise<ListedBucket[]> {
  const { tenant, after, prefix, max } = wanted;
  return read.all<ListedBucket>(
    `SELECT id, tenant, name, owner, created_ms AS createdMs, store, policy IS NOT NULL AS hasPolicy
       FROM buckets WHERE tenant = ? AND name > ? AND substr(name, 1, length(?)) = ?
       ORDER BY name LIMIT ?`,
    tenant,
    after,
    prefix,
    prefix,
    max,
  );
}

export interface CreateBucket {
  kind: 'createBucket';
  tenant: string;
  name: string;
  owner: string;
  store: number;
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
  const { insertedId } = await tx.run(
    'INSERT INTO buckets (tenant, name, owner, created_ms, store) VALUES (?, ?, ?, ?, ?)',
    change.tenant,
    change.name,
    change.owner,
    moment.timeMs,
    change.store,
  );
  const { store } = change;
  await noteChange(tx, { store, bucketId: insertedId, key: null }, moment);
  return { ok: true, storage: noStorage, result: null };
}

export interface DeleteBucket {
  kind: 'deleteBucket';
  bucketId: number;
}

/** Deletes an empty bucket; unfinished uploads go with it, as on S3. */
export async function deleteBucket(
  tx: Tx,
  change: DeleteBucket,
  moment: Moment,
): Promise<Outcome<null>> {
  const bucket = await getBucket(tx, change.bucketId);
  if (!bucket) return refused('NoSuchBucket');
  const object = await tx.get(
    'SELECT 1 FROM versions WHERE bucket_id = ? AND superseded_seq IS NULL LIMIT 1',
    change.bucketId,
  );
  if (object) return refused('BucketNotEmpty');
  const storage = await discardUploads(tx, bucket, moment);
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

/** No journal has policies: what a bucket is rebuilt without lets in nobody but its own. */
export async function putBucketPolicy(tx: Tx, change: PutBucketPolicy): Promise<Outcome<null>> {
  const sql = 'UPDATE buckets SET policy = ? WHERE id = ?';
  const { changes } = await tx.run(sql, change.policy, change.bucketId);
  if (changes === 0) return refused('NoSuchBucket');
  return { ok: true, storage: noStorage, result: null };
}

export interface SetRecordReads {
  tenant: string;
  name: string;
  /** null: as its tenant says. */
  recordReads: RecordReads | null;
}

/** Of these too no journal tells: a bucket is rebuilt with what its tenant says. */
export async function setRecordReads(
  tx: Tx,
  { tenant, name, recordReads }: SetRecordReads,
): Promise<Outcome<null>> {
  const sql = 'UPDATE buckets SET record_reads = ? WHERE tenant = ? AND name = ?';
  const { changes } = await tx.run(sql, recordReads, tenant, name);
  if (changes === 0) return refused('NoSuchBucket');
  return { ok: true, storage: noStorage, result: null };
}
