// Ends what lifecycle rules say is due, in the ledger's transactions, in the name of the bucket's
// owner. Invariants: each end is a commit of its own, with its record and its charge; it is decided
// by the rules, the row and the ledger's clock as they are in the transaction, so what was put,
// tagged or locked meanwhile stays, and asking twice ends nothing twice; of a row that is not
// authentic nothing is believed, so it is left alone. Its records are named after S3's server
// access log.
import { draftRecord, ownOrigin, unasked } from '../audit/record-draft.ts';
import { type Bucket, getBucket, readSetting } from '../catalog/buckets.ts';
import { readLifecycle } from '../catalog/lifecycle.ts';
import { findDueRule, type LifecyclePlace, type LifecycleTerms } from '../catalog/lifecycle-due.ts';
import { findUpload } from '../catalog/uploads.ts';
import { type Catalog, findVersion, type Version } from '../catalog/versions.ts';
import type { Tx } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import { newRequestId } from '../core/ids.ts';
import type { Keyring } from '../core/keyring.ts';
import { chargeStored } from '../quota/charge.ts';
import type { Change } from './commands/index.ts';
import type { Commit, CommitResult, Maintenance } from './commit.ts';

export interface LifecycleContext {
  timeMs: number;
  keyring: Keyring;
  /** In the same transaction. */
  apply(commit: Commit): Promise<CommitResult>;
}

/** What is done, and by which rule. */
interface End {
  change: Change;
  action: string;
  ruleId: string;
  key: string;
  target?: string;
}

/** Gives how many of the places were ended. */
export async function endDue(
  tx: Tx,
  { bucketId, places, dayMs, book }: Extract<Maintenance, { kind: 'endDue' }>,
  { timeMs, keyring, apply }: LifecycleContext,
): Promise<number> {
  const bucket = await getBucket(tx, bucketId);
  const document = bucket && (await readSetting(tx, bucketId, 'lifecycle'));
  if (!bucket || !document) return 0;
  const terms = { bucket, rules: readLifecycle(document), timeMs, dayMs };
  const catalog = { read: tx, keyring };
  const requestId = newRequestId();
  let ended = 0;
  for (const place of places) {
    const end = await ('uploadId' in place
      ? findUploadEnd(catalog, bucket, terms, place)
      : findVersionEnd(catalog, bucket, terms, place));
    if (end && (await apply(commitOf(bucket, end, { book, requestId }))).ok) ended += 1;
  }
  return ended;
}

async function findVersionEnd(
  catalog: Catalog,
  bucket: Bucket,
  terms: LifecycleTerms,
  place: Extract<LifecyclePlace, { seq: number }>,
): Promise<End | null> {
  const version = await ifAuthentic(findVersion(catalog, bucket, place));
  const ruleId = version && (await findDueRule(catalog.read, terms, version));
  if (!version || !ruleId) return null;
  // A current object goes as one that is deleted; all else for good.
  const isHidden = isObject(version) && bucket.versioning !== 'Unversioned';
  const action = isHidden ? 's3:CreateDeleteMarker' : 's3:ExpireObject';
  const name = isObject(version) ? {} : { versionId: version.versionId ?? 'null' };
  const { key } = version;
  const conditions = { ifMatch: null, ifNoneMatch: null };
  const change = { kind: 'deleteObject', bucketId: bucket.id, key, conditions, ...name } as const;
  return { change, action, ruleId, key };
}

function isObject({ isMarker, supersededMs }: Version): boolean {
  return supersededMs === null && !isMarker;
}

async function findUploadEnd(
  catalog: Catalog,
  bucket: Bucket,
  { rules, timeMs, dayMs }: LifecycleTerms,
  { key, uploadId }: Extract<LifecyclePlace, { uploadId: string }>,
): Promise<End | null> {
  const upload = await ifAuthentic(findUpload(catalog, bucket, { id: uploadId, key }));
  if (!upload || upload.completed !== null) return null;
  const due = rules.abortOf(upload, dayMs);
  if (!due || due.dueMs > timeMs) return null;
  const { id: bucketId, tenant } = bucket;
  const change = { kind: 'abortUpload', tenant, bucketId, key, uploadId } as const;
  const { ruleId } = due;
  return { change, action: 's3:DeleteUpload', ruleId, key, target: `uploads/${uploadId}` };
}

async function ifAuthentic<T>(found: Promise<T>): Promise<T | undefined> {
  try {
    return await found;
  } catch (error) {
    if (error instanceof IntegrityError) return undefined;
    throw error;
  }
}

/** Charged is what was stored, to whom it was charged; nobody's budget holds it up. */
function commitOf(
  { tenant, owner: principal, name }: Bucket,
  { change, action, ruleId, key, target }: End,
  { book, requestId }: { book: string; requestId: string },
): Commit {
  const bucket = { tenant, name, owner: principal };
  return {
    change,
    charge: chargeStored({ tenant, principal, tokens: [], bucket }, book),
    record: draftRecord(unasked(tenant, principal), ownOrigin('bursar serve', requestId), {
      action,
      bucket: name,
      bucketOwner: principal,
      key,
      target: target ?? null,
      change: { rule: ruleId },
      status: 204,
    }),
  };
}
