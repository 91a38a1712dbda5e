// RenameObject: an object gets another key of its bucket, and no byte of it moves. Invariants: what
// comes to the new key and what leaves the old one are one transaction; the version keeps its
// bytes, ETag, time, class and attributes, but for its lock; and a version that object lock holds
// keeps its key. Where the bucket does not keep versions, the row itself moves, and the references
// to its extents with it: nothing is counted, so the price does not grow with what is stored. Where
// it does, the version stays under a delete marker, and the new one shares its extents.
import type { Reader, Tx } from '../core/database.ts';
import { isOwnClass } from '../core/own-class.ts';
import { computeRowMac, isAuthentic, verifyListed } from './authentic.ts';
import { refuseLossyLock } from './class-locks.ts';
import type { WriteConditions } from './conditions.ts';
import { findHolder } from './held-versions.ts';
import { shareManifest } from './long-manifests.ts';
import { renameLost } from './lost-versions.ts';
import { withDefaultRetention } from './object-lock.ts';
import { isPending, noteChange } from './outbox.ts';
import { type Moment, noStorage, type Outcome, refused, type StorageDelta } from './outcome.ts';
import { type ClientToken, isRepeated, noteToken } from './rename-tokens.ts';
import { renameRestore } from './restore-rows.ts';
import { renameUse } from './tiers.ts';
import { noteDeletion } from './upload-conflicts.ts';
import { addMarker, newVersionId } from './version-changes.ts';
import {
  findPlace,
  namedIn,
  type OpenBucket,
  openBucket,
  openToReplace,
  type Place,
  refuseEnd,
} from './version-places.ts';
import {
  endReplaced,
  endVersion,
  type FoundVersion,
  keepAsNoncurrent,
  moveCurrent,
} from './version-rows.ts';
import { type Attributes, readHead, type Version } from './versions.ts';

export interface RenameObject {
  kind: 'renameObject';
  bucketId: number;
  /** The new key. */
  key: string;
  conditions: WriteConditions;
  /** `seq` of what is at the new key, null: nothing; absent: whatever it is. */
  replaces?: number | null;
  /**
   * The version that is renamed: it must still be the current one of this other key, and have these
   * attributes; absent: whatever it has.
   */
  source: { key: string; seq: number; attributes?: string };
  /** What there is room for to stay at the old key; absent: for whatever does. */
  mayStay?: Staying;
  /** null: the request has none. */
  token: ClientToken | null;
}

/**
 * What stays of the version at its old key: nothing; what a snapshot or the undelete window holds,
 * which counts as stored there, too; or the version itself, under a delete marker.
 */
export const stayings = ['nothing', 'held', 'version'] as const;
export type Staying = (typeof stayings)[number];

/** What would stay of the current version of a key if it were renamed now. */
export async function findStaying(
  read: Reader,
  bucketId: number,
  { key, seq, versionId }: Pick<Version, 'key' | 'seq' | 'versionId'>,
): Promise<Staying> {
  const bucket = await openBucket(read, bucketId);
  if (!bucket) return 'nothing';
  if (bucket.versioning === 'Enabled' || versionId !== null) return 'version';
  return (await findHolder(read, bucket, { key, sinceSeq: seq })) === null ? 'nothing' : 'held';
}

/**
 * Refuses SlowDown where it is to be decided again: what it was decided by is not there any more,
 * or the journal must first tell of what was done before. Its outcome has a second record, of the
 * end at the old key, whose index is the next one.
 */
export async function renameObject(
  tx: Tx,
  change: RenameObject,
  moment: Moment,
): Promise<Outcome<null>> {
  const { key, source, token } = change;
  if (key === source.key) return refused('InvalidRequest');
  const opening = await openToReplace(tx, change, moment);
  if (!opening.ok) return opening;
  const { bucket, ends, keeps } = opening.result;
  if (change.replaces !== undefined && change.replaces !== ((keeps ?? ends)?.seq ?? null)) {
    return refused('SlowDown');
  }
  if (token && (await isRepeated(tx, bucket, token, moment))) return refused('SlowDown');
  const found = await readSource(tx, bucket, source, moment);
  if (found?.seq !== source.seq || found.isMarker) return refused('SlowDown');
  if (found.isDamaged) return refused('BursarIntegrityError');
  // Its tags may have been changed since it was decided by them.
  if ((source.attributes ?? found.attributes) !== found.attributes) return refused('SlowDown');
  const locked =
    refuseEnd(bucket, found, {}, moment) ?? (await refuseArrival(tx, bucket, found, moment));
  if (locked) return locked;
  // A journal says what there is when it is asked, which may be later than what it was asked for:
  // if it had still to tell of either key, it could tell of the one and not yet of the other.
  const { id: bucketId, store } = bucket;
  if (await isPending(tx, { store, bucketId, keys: [key, source.key] })) return refused('SlowDown');
  const left = await findPlace(tx, { bucket, found }, source, moment);
  const isEnding = left.ends?.seq === found.seq;
  // What a snapshot has stays where it is, and shares its extents.
  const isMoved =
    isEnding && (await findHolder(tx, bucket, { key: source.key, sinceSeq: found.seq })) === null;
  const stays = isMoved ? 'nothing' : isEnding ? 'held' : 'version';
  if (stayings.indexOf(stays) > stayings.indexOf(change.mayStay ?? 'version')) {
    return refused('SlowDown');
  }
  const arrival = { at: opening.result, found, isMoved, isEnding };
  const arrived = await arrive(tx, change, arrival, moment);
  if (token) await noteToken(tx, bucket, token, moment);
  const leaving = { ...moment, seq: moment.seq + 1 };
  // To the rows a version that moved is like a marker: no bytes end with it.
  const gone = isMoved ? { ...found, isMarker: 1 } : found;
  const also = isEnding
    ? await leave(tx, gone, left, leaving)
    : await leaveShared(tx, source.key, left, leaving);
  return { ok: true, storage: arrived, result: null, also: { key: source.key, storage: also } };
}

/** Why its class may not have the lock that it would get at its new key; null: it may. */
async function refuseArrival(
  tx: Tx,
  bucket: OpenBucket,
  found: FoundVersion,
  moment: Moment,
): Promise<Outcome<never> | null> {
  const lock = JSON.parse(attributesOf(found, bucket, moment)) as Attributes;
  return refuseLossyLock(tx, bucket, found.class, lock);
}

/** The current version of the old key, without its manifest, which can be large. */
async function readSource(
  tx: Tx,
  bucket: OpenBucket,
  { key }: RenameObject['source'],
  { keyring }: Moment,
): Promise<FoundVersion | undefined> {
  const row = await readHead(tx, bucket.id, key);
  if (!row) return undefined;
  const isDamaged = !isAuthentic(() => verifyListed(keyring, bucket, row));
  return { ...row, manifest: noManifest, isDamaged };
}

const noManifest = Buffer.alloc(0);

interface Arrival {
  at: Place;
  found: FoundVersion;
  isMoved: boolean;
  /** It ends at its old key, so that there is not one object more. */
  isEnding: boolean;
}

/** Makes the version the current one of its new key. After this point the write must succeed. */
async function arrive(
  tx: Tx,
  { key }: RenameObject,
  { at: { bucket, ends, keeps }, found, isMoved, isEnding }: Arrival,
  moment: Moment,
): Promise<StorageDelta> {
  if (keeps) await keepAsNoncurrent(tx, bucket, keeps, moment);
  const removed = ends && (await (keeps ? endVersion : endReplaced)(tx, bucket, ends, moment));
  const versionId = bucket.versioning === 'Enabled' ? newVersionId() : null;
  const attributes = attributesOf(found, bucket, moment);
  const moved = { ...found, key, seq: moment.seq, versionId, attributes };
  const rowMac = computeRowMac(moment.keyring, bucket, moved, moved);
  await moveCurrent(tx, found, { ...moved, rowMac });
  if (isOwnClass(found.class)) {
    await renameLost(tx, found, moved);
    await renameRestore(tx, found, moved);
    await renameUse(tx, found, moved);
  }
  if (!isMoved) await shareManifest(tx, await readColumn(tx, bucket, key));
  const { store, id: bucketId } = bucket;
  await noteChange(tx, { store, bucketId, key, versionId }, moment);
  const added = { class: found.class, bytes: found.billedBytes };
  return {
    storedBytes: (isMoved ? 0 : found.sizeBytes) + (removed?.storedBytes ?? 0),
    storedObjects: (isEnding ? 0 : 1) + (removed?.storedObjects ?? 0),
    billed: [...(isMoved ? [] : [added]), ...(removed?.billed ?? [])],
    ended: removed?.ended ?? null,
    makesVersion: true,
    ...(ends && { supersededSeq: ends.seq }),
    ...namedIn(bucket, { versionId, isMarker: false }),
  };
}

/** Those that it had, without its lock, which is over; and when it came to its key. */
function attributesOf(
  { attributes }: FoundVersion,
  { objectLock }: OpenBucket,
  { timeMs }: Moment,
): string {
  const { retention: _, legalHold: _2, ...kept } = JSON.parse(attributes) as Attributes;
  const renamed: Attributes = { ...kept, renamedMs: timeMs };
  return withDefaultRetention(JSON.stringify(renamed), objectLock, timeMs);
}

async function readColumn(tx: Tx, { id }: OpenBucket, key: string): Promise<Uint8Array | number> {
  const sql = 'SELECT manifest FROM versions WHERE bucket_id = ? AND key = ?';
  const row = await tx.get<{ manifest: Uint8Array | number }>(sql, id, key);
  return row?.manifest ?? noManifest;
}

/** Its row is at the new key, or is held: here the version ends, and lets go of nothing. */
async function leave(
  tx: Tx,
  gone: FoundVersion,
  { bucket, keeps }: Place,
  moment: Moment,
): Promise<StorageDelta> {
  const { key, seq } = gone;
  if (bucket.versioning !== 'Unversioned') {
    const outcome = await addMarker(tx, key, { bucket, ends: gone, keeps }, moment);
    // What it takes off the counters was taken off where it arrived.
    return outcome.ok ? { ...outcome.storage, storedObjects: 0 } : noStorage;
  }
  await endVersion(tx, bucket, gone, moment);
  const { id: bucketId, store } = bucket;
  await noteDeletion(tx, { bucketId, key }, moment.seq);
  await noteChange(tx, { store, bucketId, key, versionId: gone.versionId }, moment);
  return { ...noStorage, supersededSeq: seq };
}

/** The version is kept, under a marker. */
async function leaveShared(
  tx: Tx,
  key: string,
  left: Place,
  moment: Moment,
): Promise<StorageDelta> {
  const outcome = await addMarker(tx, key, left, moment);
  return outcome.ok ? outcome.storage : noStorage;
}
