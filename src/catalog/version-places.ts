// Where in its bucket a change of versions begins: the bucket's row, the version that is there, and
// what becomes of it when another comes. Invariants: the bucket's row decides that, inside the
// transaction; everything is found and checked before the first write; and a version that object
// lock holds does not end, whatever the bucket's row says.
// Specification: "How S3 Versioning works" of the Amazon S3 user guide.
import type { Reader, Tx } from '../core/database.ts';
import { isOwnClass } from '../core/own-class.ts';
import { type BucketName, isAuthentic, verifyVersion } from './authentic.ts';
import { refuseLossyLock } from './class-locks.ts';
import {
  checkDeletion,
  checkWriteConditions,
  isConditional,
  type WriteConditions,
} from './conditions.ts';
import { findHolder } from './held-versions.ts';
import { type Lock, type LockMoment, mayEnd, withDefaultRetention } from './object-lock.ts';
import { type Moment, type NamedVersion, noStorage, type Outcome, refused } from './outcome.ts';
import { type FoundVersion, removalOf } from './version-rows.ts';
import { type ObjectDraft, readNamed, type StoredVersion, type VersionName } from './versions.ts';

/** A bucket as its row says, for a change in it. */
export interface OpenBucket extends BucketName {
  owner: string;
  store: number;
  /** Unversioned | Enabled | Suspended */
  versioning: string;
  /** JSON of `ObjectLockConfig`; null: no object lock. */
  objectLock: string | null;
  /** `seq` of the newest snapshot that there is a row of; null: there is none. */
  newestSnapshot: number | null;
  /** Of the keys that it is of, if it lives. */
  newestPrefix: string | null;
  /** 1: it has an undelete window (undelete-window.ts). */
  hasWindow: number;
}

/** A key that a change is about to be made of. */
export interface OpenKey {
  bucket: OpenBucket;
  /** The version that was named, or the newest one; null: there is none. */
  found: FoundVersion | null;
}

/** The bucket is there and the conditions hold: gives what the change begins from. */
export async function openKey(
  tx: Tx,
  at: VersionName & { bucketId: number; conditions: WriteConditions },
  { keyring }: Pick<Moment, 'keyring'>,
): Promise<Outcome<OpenKey>> {
  const { bucketId, conditions } = at;
  const bucket = await openBucket(tx, bucketId);
  if (!bucket) return refused('NoSuchBucket');
  const row = await readNamed(tx, bucketId, at);
  const found = row ? examine(bucket, row, { keyring }) : null;
  // Where the request has no condition, a damaged row may be replaced or deleted: that is how
  // damage is cleared away.
  if (found?.isDamaged && isConditional(conditions)) {
    return refused('BursarIntegrityError');
  }
  const etag = found && !found.isMarker ? found.etag : null;
  const refusal = checkWriteConditions(conditions, etag) ?? checkDeletion(conditions, found);
  return refusal ?? { ok: true, storage: noStorage, result: { bucket, found } };
}

/** The bucket's row, with what of its snapshots a change has to know. */
export function openBucket(read: Reader, bucketId: number): Promise<OpenBucket | undefined> {
  return read.get<OpenBucket>(
    `SELECT id, b.tenant, b.name, owner, store, versioning, object_lock AS objectLock,
       s.seq AS newestSnapshot, iif(s.state = 'living', s.prefix, NULL) AS newestPrefix,
       EXISTS(SELECT 1 FROM bucket_settings
         WHERE bucket_id = b.id AND name = 'undelete') AS hasWindow
       FROM buckets AS b LEFT JOIN snapshots AS s ON s.bucket_id = b.id
         AND s.seq = (SELECT max(seq) FROM snapshots WHERE bucket_id = b.id)
       WHERE b.id = ?`,
    bucketId,
  );
}

export function examine(
  bucket: BucketName,
  row: StoredVersion,
  { keyring }: Pick<Moment, 'keyring'>,
): FoundVersion {
  const isDamaged = !isAuthentic(() => verifyVersion(keyring, bucket, row));
  return Object.assign(row, { isDamaged });
}

/** Where a new version comes: what it ends, and what becomes noncurrent by it. */
export interface Place {
  bucket: OpenBucket;
  ends: FoundVersion | null;
  keeps: FoundVersion | null;
}

export async function findPlace(
  tx: Tx,
  { bucket, found }: OpenKey,
  { key }: { key: string },
  moment: Moment,
): Promise<Place> {
  if (bucket.versioning === 'Enabled' || !found) return { bucket, ends: null, keeps: found };
  // There is one null version of a key. Without versioning all are, and this is it.
  if (found.versionId === null) return { bucket, ends: found, keeps: null };
  const row = await readNamed(tx, bucket.id, { key, versionId: 'null' });
  return { bucket, ends: row ? examine(bucket, row, moment) : null, keeps: found };
}

/** Of the object that a write brings: absent where the version is another's (rename.ts). */
type Brought = Pick<ObjectDraft, 'class' | 'attributes'>;

/**
 * Where a write of an object comes. It is refused where what it ends is locked, when what is then
 * owed for that is too much, or where its class can lose what its lock keeps.
 */
export async function openToReplace(
  tx: Tx,
  at: { bucketId: number; key: string; conditions: WriteConditions; object?: Brought },
  moment: Moment,
): Promise<Outcome<Place>> {
  const opening = await openKey(tx, at, moment);
  if (!opening.ok) return opening;
  const place = await findPlace(tx, opening.result, at, moment);
  const { bucket, ends, keeps } = place;
  const { supersedesSeq } = at.conditions;
  if (supersedesSeq !== undefined && (ends || supersedesSeq !== keeps?.seq)) {
    return refused('PreconditionFailed', { Condition: 'x-bursar-remakes' });
  }
  if (at.object && isOwnClass(at.object.class)) {
    const refusal = await refuseWrittenLock(tx, bucket, at.object, moment);
    if (refusal) return refusal;
  }
  if (ends) {
    const refusal = refuseEnd(bucket, ends, {}, moment);
    if (refusal) return refusal;
    // There may be one under a delete marker, which the conditions do not see.
    if (at.conditions.mustCreate && !ends.isMarker) return refused('AccessDenied');
    const { ended } = removalOf(ends);
    ends.holder = await findHolder(tx, bucket, { key: at.key, sinceSeq: ends.seq });
    // What a snapshot holds is not let go of yet.
    if (ended && ends.holder === null && !(await moment.terms.mayEnd(ended)))
      return refused('QuotaExceeded');
  }
  return { ok: true, storage: noStorage, result: place };
}

/** Why it may not be made in its class, with the lock that the bucket adds; null: it may. */
async function refuseWrittenLock(
  tx: Tx,
  bucket: OpenBucket,
  { class: of, attributes }: Brought,
  { timeMs }: Moment,
): Promise<Outcome<never> | null> {
  const lock = JSON.parse(withDefaultRetention(attributes, bucket.objectLock, timeMs)) as Lock;
  return refuseLossyLock(tx, bucket, of, lock);
}

/** Why a version may not end; null: it may. */
export function refuseEnd(
  { objectLock }: OpenBucket,
  version: FoundVersion,
  asked: { bypassGovernance?: boolean | undefined },
  moment: Moment,
): Outcome<never> | null {
  // Whether the version is locked is said by its row, which cannot be believed.
  if (version.isDamaged) return objectLock === null ? null : refused('BursarIntegrityError');
  const { attributes } = version;
  const isLockable = attributes.includes('"retention"') || attributes.includes('"legalHold"');
  if (!isLockable) return null;
  const lock = JSON.parse(attributes) as Lock;
  return mayEnd(lock, lockMomentOf(asked, moment)) ? null : refused('AccessDenied');
}

export function lockMomentOf(
  { bypassGovernance = false }: { bypassGovernance?: boolean | undefined },
  { timeMs, clockMs }: Moment,
): LockMoment {
  // Records that are in the future end no lock.
  return { timeMs: clockMs ?? timeMs, bypassGovernance };
}

/** Says nothing of a bucket that never had versioning, as S3. */
export function namedIn({ versioning }: OpenBucket, named: NamedVersion): { named?: NamedVersion } {
  return versioning === 'Unversioned' ? {} : { named };
}
