// What is changed of buckets: made, deleted, set up. Invariants: a bucket is deleted only when
// nothing is in it; object lock is never taken from one, and comes only to one that keeps every
// version; each change is told to the journal in its own transaction, and its record fixes what it
// came to.
import type { Tx } from '../core/database.ts';
import {
  bucketsPerTenantMax,
  inventoriesMax,
  tieringsLengthMax,
  tieringsMax,
} from '../core/limits.ts';
import type { ReadPayer } from '../core/read-payer.ts';
import type { RecordReads } from '../core/record-reads.ts';
import { metricsLengthMax, metricsMax } from './bucket-metrics.ts';
import {
  type Bucket,
  type Exposure,
  findBucket,
  getBucket,
  hashSettings,
  readSetting,
  type StoredSetting,
  storeSetting,
  type Versioning,
} from './buckets.ts';
import { type AskedConfiguration, mergeConfiguration } from './configurations.ts';
import { dropSnapshots } from './held-release.ts';
import { readHeldBy } from './held-totals.ts';
import { stampNotifications } from './notifications.ts';
import { noteChange } from './outbox.ts';
import { type Moment, noStorage, type Outcome, refused, type StorageDelta } from './outcome.ts';
import { beginOf, heldByWindow, readWindow } from './undelete-window.ts';
import { discardUploads } from './uploads.ts';

export interface CreateBucket {
  kind: 'createBucket';
  tenant: string;
  name: string;
  owner: string;
  store: number;
  /** It has object lock, and so is versioned from the start. */
  objectLock?: true;
  ownership?: string;
  /** Absent: nothing was said of that, as of buckets that were made before release 0.2.0. */
  publicAccess?: Exposure;
  /** JSON, as the setting `tagging` is stored. */
  tagging?: string;
}

export async function createBucket(
  tx: Tx,
  change: CreateBucket,
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  // Both were there when the request was decided; either may have been deleted since.
  const owner = await tx.get(
    'SELECT 1 FROM principals WHERE tenant = ? AND name = ?',
    ...[change.tenant, change.owner],
  );
  if (!owner) return refused('AccessDenied');
  const existing = await findBucket(tx, change.tenant, change.name);
  if (existing) {
    return refused(
      existing.owner === change.owner ? 'BucketAlreadyOwnedByYou' : 'BucketAlreadyExists',
    );
  }
  // A mount has the name (ledger/commands/mounts.ts).
  const mount = 'SELECT 1 FROM mounts WHERE tenant = ? AND name = ?';
  if (await tx.get(mount, change.tenant, change.name)) return refused('BucketAlreadyExists');
  const count = await tx.get<{ n: number }>(
    'SELECT count(*) AS n FROM buckets WHERE tenant = ?',
    change.tenant,
  );
  if ((count?.n ?? 0) >= bucketsPerTenantMax) return refused('TooManyBuckets');
  const { store, objectLock } = change;
  const { insertedId } = await tx.run(
    `INSERT INTO buckets
       (tenant, name, owner, created_ms, store, versioning, object_lock, public_access, ownership)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    change.tenant,
    change.name,
    change.owner,
    moment.timeMs,
    store,
    objectLock ? 'Enabled' : 'Unversioned',
    objectLock ? '{}' : null,
    change.publicAccess ? JSON.stringify(change.publicAccess) : null,
    change.ownership ?? null,
  );
  if (change.tagging) await storeSetting(tx, insertedId, 'tagging', change.tagging);
  return noteBucket(tx, { id: insertedId, store }, moment);
}

export interface DeleteBucket {
  kind: 'deleteBucket';
  bucketId: number;
  /** Of a restore: the bucket was deleted since, and so its snapshots were. */
  withSnapshots?: true;
}

/**
 * Deletes a bucket without versions, markers and snapshots, and of whose objects none is held;
 * unfinished uploads go with it, as on S3.
 */
export async function deleteBucket(
  tx: Tx,
  change: DeleteBucket,
  moment: Moment,
): Promise<Outcome<null>> {
  const bucket = await getBucket(tx, change.bucketId);
  if (!bucket) return refused('NoSuchBucket');
  const held = change.withSnapshots ? await dropSnapshots(tx, bucket, moment) : noStorage;
  const version = await tx.get(
    `SELECT 1 WHERE EXISTS (SELECT 1 FROM versions WHERE bucket_id = ?)
       OR EXISTS (SELECT 1 FROM noncurrent_versions WHERE bucket_id = ?)`,
    ...[change.bucketId, change.bucketId],
  );
  if (version) return refused('BucketNotEmpty');
  const counting = 'SELECT count(*) AS snapshots FROM snapshots WHERE bucket_id = ?';
  const { snapshots } = (await tx.get<{ snapshots: number }>(counting, change.bucketId)) ?? {
    snapshots: 0,
  };
  if (snapshots > 0) return refused('BucketNotEmpty', { Snapshots: String(snapshots) });
  const { versions } = await readHeldBy(tx, change.bucketId, heldByWindow);
  if (versions > 0) return refused('BucketNotEmpty', { HeldVersions: String(versions) });
  const discarded = await discardUploads(tx, bucket, moment);
  const storage: StorageDelta = {
    ...discarded,
    storedBytes: discarded.storedBytes + held.storedBytes,
    billed: [...discarded.billed, ...held.billed],
  };
  await tx.run('DELETE FROM held_totals WHERE bucket_id = ?', change.bucketId);
  await tx.run('DELETE FROM bucket_settings WHERE bucket_id = ?', change.bucketId);
  await tx.run('DELETE FROM buckets WHERE id = ?', change.bucketId);
  await noteChange(tx, { store: bucket.store, bucketId: bucket.id, key: null }, moment);
  return { ok: true, storage, result: null };
}

export interface PutBucketPolicy {
  kind: 'putBucketPolicy';
  bucketId: number;
  /** The document as it was sent. Null means that the bucket has none from now on. */
  policy: string | null;
  /** It lets everybody in, which the bucket's PublicAccessBlock may refuse. */
  isPublic?: boolean;
}

export async function putBucketPolicy(
  tx: Tx,
  { bucketId, policy, isPublic = false }: PutBucketPolicy,
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  const bucket = await getBucket(tx, bucketId);
  if (!bucket) return refused('NoSuchBucket');
  if (isPublic && bucket.publicAccess?.blockPublicPolicy) return refused('AccessDenied');
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

/** Columns of a bucket's row. */
const columns = {
  publicAccess: 'public_access',
  ownership: 'ownership',
  objectLock: 'object_lock',
} as const;

/** The undelete window is set by a command of its own (undelete-window.ts). */
export type BucketSetting =
  | Exclude<StoredSetting, 'undelete'>
  | keyof typeof columns
  | ExposurePart;

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
  if (name === 'acl' || name === 'publicAccess' || name === 'readPayer') {
    const exposure = expose(bucket.publicAccess ?? {}, name, document);
    await tx.run('UPDATE buckets SET public_access = ? WHERE id = ?', exposure, bucketId);
  } else if (isColumn(name)) {
    await tx.run(`UPDATE buckets SET ${columns[name]} = ? WHERE id = ?`, document, bucketId);
  } else if (name === 'inventory' || name === 'intelligentTiering' || name === 'metrics') {
    const asked = JSON.parse(document ?? '') as AskedConfiguration<{ id: string }>;
    const before = await readSetting(tx, bucketId, name);
    const merged = mergeConfiguration(asked, before, configurationLimits[name]);
    if (merged === undefined) {
      // What is to be removed is not there, or there are too many.
      return refused(asked.config === null ? 'NoSuchConfiguration' : 'TooManyConfigurations');
    }
    await storeSetting(tx, bucketId, name, merged);
  } else if (name === 'notification') {
    const before = await readSetting(tx, bucketId, name);
    await storeSetting(tx, bucketId, name, stampNotifications(document, before, moment.seq));
  } else {
    await storeSetting(tx, bucketId, name, document);
  }
  return noteBucket(tx, bucket, moment);
}

const configurationLimits = {
  inventory: { max: inventoriesMax },
  intelligentTiering: { max: tieringsMax, lengthMax: tieringsLengthMax },
  metrics: { max: metricsMax, lengthMax: metricsLengthMax },
};

/** The document of the setting `readPayer`. */
export function payerDocument(payer: ReadPayer): string | null {
  return payer === 'owner' ? null : JSON.stringify(payer);
}

type ExposurePart = 'publicAccess' | 'acl' | 'readPayer';

/** What a row has of a bucket's exposure after one part of it was set; null: nothing. */
function expose(
  { acl, requesterPays, tenantPays, ...block }: Exposure,
  name: ExposurePart,
  document: string | null,
): string | null {
  const set = document === null ? undefined : JSON.parse(document);
  const payer = {
    ...(set === 'requester' && { requesterPays: true }),
    ...(set === 'tenant' && { tenantPays: true }),
  } as Pick<Exposure, 'requesterPays' | 'tenantPays'>;
  const others = name === 'readPayer' ? payer : { requesterPays, tenantPays };
  const parts = { publicAccess: block, acl, [name]: set };
  const exposure: Exposure = { ...parts.publicAccess, acl: parts.acl, ...others };
  const text = JSON.stringify(exposure);
  return text === '{}' ? null : text;
}

function isColumn(name: BucketSetting): name is keyof typeof columns {
  return Object.hasOwn(columns, name);
}

export interface SetUndelete {
  kind: 'setUndelete';
  bucketId: number;
  /** null: nothing is held from now on, and what was is let go of. */
  windowMs: number | null;
}

export async function setUndelete(
  tx: Tx,
  { bucketId, windowMs }: SetUndelete,
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  const bucket = await getBucket(tx, bucketId);
  if (!bucket) return refused('NoSuchBucket');
  const before = await readWindow(tx, bucketId);
  const sinceMs = before ? beginOf(before, moment.timeMs) : moment.timeMs;
  const document = windowMs === null ? null : JSON.stringify({ windowMs, sinceMs });
  await storeSetting(tx, bucketId, 'undelete', document);
  return noteBucket(tx, bucket, moment);
}

export interface SetRecordReads {
  kind: 'setRecordReads';
  tenant: string;
  name: string;
  /** null: as its tenant says. */
  recordReads: RecordReads | null;
}

export async function setRecordReads(
  tx: Tx,
  { tenant, name, recordReads }: SetRecordReads,
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  const bucket = await findBucket(tx, tenant, name);
  if (!bucket) return refused('NoSuchBucket');
  const { id: bucketId, store } = bucket;
  await tx.run('UPDATE buckets SET record_reads = ? WHERE id = ?', recordReads, bucketId);
  await noteChange(tx, { store, bucketId, key: null }, moment);
  return { ok: true, storage: noStorage, result: null };
}

export interface ChangeOwner {
  kind: 'changeOwner';
  tenant: string;
  name: string;
  /** Principals of the tenant. Whose it was when that was decided, and whose it is to be. */
  from: string;
  to: string;
}

/** Gives a bucket to another principal of its tenant, who is charged for it from then on. */
export async function changeOwner(
  tx: Tx,
  { tenant, name, from, to }: ChangeOwner,
  moment: Moment,
): Promise<Outcome<null>> {
  const bucket = await findBucket(tx, tenant, name);
  if (!bucket) return refused('NoSuchBucket');
  if (bucket.owner !== from) return refused('ConditionalRequestConflict');
  const principal = 'SELECT 1 FROM principals WHERE tenant = ? AND name = ?';
  if (!(await tx.get(principal, tenant, to))) return refused('NoSuchPrincipal');
  if (!(await moment.terms.mayOwn(bucket, to))) return refused('QuotaExceeded');
  const { id: bucketId, store } = bucket;
  await tx.run('UPDATE buckets SET owner = ? WHERE id = ?', to, bucketId);
  await noteChange(tx, { store, bucketId, key: null }, moment);
  const handedOver = { bucket: { tenant, name }, from, to };
  return { ok: true, storage: noStorage, result: null, handedOver };
}

/** Makes the journal and the record tell of what was changed of a bucket. */
async function noteBucket(
  tx: Tx,
  { id: bucketId, store }: Pick<Bucket, 'id' | 'store'>,
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  await noteChange(tx, { store, bucketId, key: null }, moment);
  return { ok: true, storage: await configured(tx, bucketId), result: null };
}

/** Returns what the record says of a bucket that was made, or of which something was set. */
export async function configured(tx: Tx, bucketId: number): Promise<StorageDelta> {
  const settings = await hashSettings(tx, bucketId);
  if (settings === undefined) throw new Error(`there is no bucket ${bucketId}`);
  return { ...noStorage, configured: { bucketId, settings } };
}
