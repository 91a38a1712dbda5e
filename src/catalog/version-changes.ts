// What requests do to versions: put, copy, delete. Unversioned, the version before ends; enabled,
// it is kept as noncurrent; suspended, only S3's `null` version ends. Invariants: everything is
// checked before the first write (version-places.ts); and what a bucket with versioning deletes
// without naming a version is under a marker, and comes back when that is deleted.
// Specification: "How S3 Versioning works" of the Amazon S3 user guide.
import { hash, randomBytes } from 'node:crypto';
import type { Acl } from '../core/acl.ts';
import type { Tx } from '../core/database.ts';
import { sealObject } from './authentic.ts';
import { refuseLossyLock } from './class-locks.ts';
import type { WriteConditions } from './conditions.ts';
import { addReferences, adoptExtents, areIntents, areLive, type InlineExtent } from './extents.ts';
import { mayAmend, type Retention, withDefaultRetention } from './object-lock.ts';
import { noteChange } from './outbox.ts';
import { type Moment, noStorage, type Outcome, refused, type StorageDelta } from './outcome.ts';
import { noteDeletion } from './upload-conflicts.ts';
import {
  examine,
  findPlace,
  lockMomentOf,
  namedIn,
  type OpenBucket,
  type OpenKey,
  openKey,
  openToReplace,
  type Place,
  refuseEnd,
} from './version-places.ts';
import {
  amendRow,
  endReplaced,
  endVersion,
  type FoundVersion,
  insertVersion,
  keepAsNoncurrent,
  makeCurrent,
} from './version-rows.ts';
import {
  type Attributes,
  findNewestNoncurrent,
  holdsExtents,
  type ObjectDraft,
  type Tags,
} from './versions.ts';

export interface PutObject {
  kind: 'putObject';
  bucketId: number;
  key: string;
  conditions: WriteConditions;
  object: ObjectDraft;
  /** Extents written for it, declared before. */
  extentIds: Uint8Array[];
  inline: InlineExtent | null;
  /** Of a class of several legs: by extent the stores that have it; absent: one has all. */
  places?: number[][] | undefined;
}

export async function putObject(tx: Tx, change: PutObject, moment: Moment): Promise<Outcome<null>> {
  const opening = await openToReplace(tx, change, moment);
  if (!opening.ok) return opening;
  if (!(await areIntents(tx, change.extentIds))) return refused('RequestTimeout');
  const { tenant } = change.object;
  const { extentIds: ids, inline, places } = change;
  await adoptExtents(tx, { tenant, ids, inline, places, timeMs: moment.timeMs });
  return replaceCurrent(tx, change, opening.result, moment);
}

export interface CopyObject {
  kind: 'copyObject';
  bucketId: number;
  key: string;
  conditions: WriteConditions;
  /** The version copied from; its row must still be there, current or not. */
  source: { bucketId: number; key: string; seq: number };
  object: ObjectDraft;
}

/** A copy is a row: it shares the source's extents. */
export async function copyObject(
  tx: Tx,
  change: CopyObject,
  moment: Moment,
): Promise<Outcome<null>> {
  const opening = await openToReplace(tx, change, moment);
  if (!opening.ok) return opening;
  const { source, object } = change;
  const isHeld = (await holdsExtents(tx, source)) && (await areLive(tx, object.manifest));
  if (!isHeld) return refused('SlowDown');
  await addReferences(tx, object.manifest);
  return replaceCurrent(tx, change, opening.result, moment);
}

export interface DeleteObject {
  kind: 'deleteObject';
  bucketId: number;
  key: string;
  /** `null` or an id: ends that version. Absent: in a bucket with versioning, adds a marker. */
  versionId?: string | undefined;
  conditions: WriteConditions;
  /** Asked for, and allowed. */
  bypassGovernance?: boolean | undefined;
}

/** Deleting what is not there succeeds, as on S3, unless a condition demands that it is there. */
export async function deleteObject(
  tx: Tx,
  change: DeleteObject,
  moment: Moment,
): Promise<Outcome<null>> {
  const opening = await openKey(tx, change, moment);
  if (!opening.ok) return opening;
  if (change.versionId !== undefined) return deleteVersion(tx, change, opening.result, moment);
  const place = await findPlace(tx, opening.result, change, moment);
  const refusal = place.ends && refuseEnd(place.bucket, place.ends, change, moment);
  if (refusal) return refusal;
  const { bucket, ends, keeps } = place;
  // A version that has an id is kept, whatever the bucket's row says.
  if (bucket.versioning !== 'Unversioned' || keeps) {
    return addMarker(tx, change.key, place, moment);
  }
  if (!ends) return { ok: true, storage: noStorage, result: null };
  const removal = await endVersion(tx, bucket, ends, moment);
  await noteDeletion(tx, change, moment.seq);
  const changed = { store: bucket.store, bucketId: bucket.id, key: change.key };
  await noteChange(tx, { ...changed, versionId: ends.versionId }, moment);
  return { ok: true, storage: { ...removal, supersededSeq: ends.seq }, result: null };
}

/** Ends one version; when it was the current one, the newest of those before it is again. */
async function deleteVersion(
  tx: Tx,
  change: DeleteObject,
  { bucket, found }: OpenKey,
  moment: Moment,
): Promise<Outcome<null>> {
  if (!found) {
    const { versionId } = change;
    const named = { versionId: versionId === 'null' ? null : (versionId ?? null), isMarker: false };
    return { ok: true, storage: { ...noStorage, ...namedIn(bucket, named) }, result: null };
  }
  const refusal = refuseEnd(bucket, found, change, moment);
  if (refusal) return refusal;
  return endNamed(tx, { bucket, found }, moment);
}

/** Ends a version that may end, as `deleteVersion` does. */
export async function endNamed(
  tx: Tx,
  { bucket, found }: { bucket: OpenBucket; found: FoundVersion },
  moment: Moment,
): Promise<Outcome<null>> {
  const isCurrent = found.supersededSeq === null;
  const older = isCurrent && (await findNewestNoncurrent(tx, bucket.id, found.key));
  // As it is now: without a newer one it is not where it belongs.
  const next = older ? examine(bucket, older, moment) : null;
  const removal = await endVersion(tx, bucket, found, moment);
  if (next) await makeCurrent(tx, bucket, next, moment.keyring);
  const { store, id: bucketId } = bucket;
  const { key, versionId, isMarker, seq } = found;
  if (isCurrent) await noteDeletion(tx, { bucketId, key }, moment.seq);
  await noteChange(tx, { store, bucketId, key, versionId }, moment);
  const named = namedIn(bucket, { versionId, isMarker: isMarker === 1 });
  const storage = { ...removal, supersededSeq: seq, ...named };
  return { ok: true, storage, result: null };
}

/** Makes the drafted object the current version. After this point the write must succeed. */
export async function replaceCurrent(
  tx: Tx,
  { key, object }: { key: string; object: ObjectDraft },
  place: Place,
  moment: Moment,
): Promise<Outcome<null>> {
  const { objectLock } = place.bucket;
  const attributes = withDefaultRetention(object.attributes, objectLock, moment.timeMs);
  const locked = attributes === object.attributes ? object : { ...object, attributes };
  return addVersion(tx, { key, isMarker: 0, object: locked }, place, moment);
}

/** Makes a delete marker the current version of the key. */
export function addMarker(
  tx: Tx,
  key: string,
  place: Place,
  moment: Moment,
): Promise<Outcome<null>> {
  const { tenant, owner } = place.bucket;
  const nothing = { sizeBytes: 0, etag: '', sha256: null, class: '', manifest: Buffer.alloc(0) };
  const attributes: Attributes = { headers: {}, metadata: {} };
  const draft = { ...nothing, tenant, owner, attributes: JSON.stringify(attributes) };
  const object = sealObject(moment.keyring, draft);
  return addVersion(tx, { key, isMarker: 1, object }, place, moment);
}

async function addVersion(
  tx: Tx,
  { key, isMarker, object }: { key: string; isMarker: number; object: ObjectDraft },
  { bucket, ends, keeps }: Place,
  moment: Moment,
): Promise<Outcome<null>> {
  if (keeps) await keepAsNoncurrent(tx, bucket, keeps, moment);
  const removed = ends && (await (keeps ? endVersion : endReplaced)(tx, bucket, ends, moment));
  const versionId = bucket.versioning === 'Enabled' ? newVersionId() : null;
  const version = { key, versionId, isMarker, createdMs: moment.timeMs, object };
  const added = await insertVersion(tx, bucket, version, moment);
  const { store, id: bucketId } = bucket;
  await noteChange(tx, { store, bucketId, key, versionId }, moment);
  const storage: StorageDelta = {
    storedBytes: object.sizeBytes + (removed?.storedBytes ?? 0),
    storedObjects: (isMarker ? 0 : 1) + (removed?.storedObjects ?? 0),
    billed: [...(isMarker ? [] : [added]), ...(removed?.billed ?? [])],
    ended: removed?.ended ?? null,
    makesVersion: true,
    ...(ends && { supersededSeq: ends.seq }),
    ...namedIn(bucket, { versionId, isMarker: isMarker === 1 }),
  };
  return { ok: true, storage, result: null };
}

/** Says nothing of when or where it was made. */
export function newVersionId(): string {
  return randomBytes(16).toString('hex');
}

// What can be changed of a version that is there: its tags, its list and its lock. Invariants:
// nothing else of it changes, and its MAC is made again only after it was found right; a lock
// becomes less only as object lock allows.

export interface AmendVersion {
  kind: 'amendVersion';
  bucketId: number;
  key: string;
  /** `null` or an id; absent: the current one. */
  versionId?: string | undefined;
  amendment: Amendment;
  /** Asked for, and allowed. */
  bypassGovernance?: boolean | undefined;
}

/** Null: none from now on. */
export type Amendment =
  | { tags: Tags | null }
  | { retention: Retention | null }
  | { legalHold: boolean }
  | { acl: Acl | null };

/** Changes what can change of a version; its MAC is made again. */
export async function amendVersion(
  tx: Tx,
  change: AmendVersion,
  moment: Moment,
): Promise<Outcome<null>> {
  const opening = await openKey(tx, { ...change, conditions: unconditional }, moment);
  if (!opening.ok) return opening;
  const { bucket, found } = opening.result;
  if (!found) return refused(change.versionId === undefined ? 'NoSuchKey' : 'NoSuchVersion');
  if (found.isDamaged) return refused('BursarIntegrityError');
  if (found.isMarker) return refused('MethodNotAllowed');
  const { amendment } = change;
  const isOfLock = 'retention' in amendment || 'legalHold' in amendment;
  if (isOfLock && bucket.objectLock === null) return refused('InvalidRequest');
  const attributes = JSON.parse(found.attributes) as Attributes;
  if ('retention' in amendment) {
    const lockMoment = lockMomentOf(change, moment);
    if (!mayAmend(attributes, amendment.retention, lockMoment)) return refused('AccessDenied');
    const lossy = await refuseLossyLock(tx, bucket, found.class, amend(attributes, amendment));
    if (lossy) return lossy;
  }
  const amended = JSON.stringify(amend(attributes, amendment));
  await amendRow(tx, bucket, found, amended, moment);
  const { store, id: bucketId } = bucket;
  const { key, versionId } = found;
  await noteChange(tx, { store, bucketId, key, versionId }, moment);
  const named = namedIn(bucket, { versionId, isMarker: false });
  const attributesHash = hash('sha256', amended, 'hex');
  const told = { ...named, amended: { seq: found.seq, attributes: attributesHash } };
  return { ok: true, storage: { ...noStorage, ...told }, result: null };
}

const unconditional: WriteConditions = { ifMatch: null, ifNoneMatch: null };

function amend(attributes: Attributes, amendment: Amendment): Attributes {
  if ('legalHold' in amendment) return { ...attributes, legalHold: amendment.legalHold };
  if ('retention' in amendment) {
    const { retention: _, ...others } = attributes;
    return amendment.retention ? { ...others, retention: amendment.retention } : others;
  }
  if ('acl' in amendment) {
    const { acl: _, ...others } = attributes;
    return amendment.acl ? { ...others, acl: amendment.acl } : others;
  }
  const { tags: _, ...others } = attributes;
  return amendment.tags?.length ? { ...others, tags: amendment.tags } : others;
}
