// Rows of versions, as changes write them: made, kept as noncurrent, made current again, ended, let
// go of. Invariants: a version is in one of the three tables, and its MAC says in which; what ended
// is remembered in `superseded`; and a row that is not authentic is moved as it is, so that no
// damage is ever sealed.
import type { Tx } from '../core/database.ts';
import type { Keyring } from '../core/keyring.ts';
import { isManifest } from '../core/manifest.ts';
import { isOwnClass } from '../core/own-class.ts';
import {
  type BucketName,
  computeRowMac,
  isAuthentic,
  type RowPlace,
  sealAgain,
  verifyVersion,
} from './authentic.ts';
import { billedBytes } from './billed-bytes.ts';
import { findHolder, holdEnded, holdImage } from './held-versions.ts';
import {
  dropManifest,
  longManifestOf,
  type NamedManifest,
  placeManifest,
} from './long-manifests.ts';
import { forgetLoss } from './lost-versions.ts';
import type { BilledDelta, EndedObject, Moment } from './outcome.ts';
import { forgetRestore } from './restore-rows.ts';
import type { OpenBucket } from './version-places.ts';
import {
  classedSinceMs,
  countedBytes,
  endedColumns,
  type ObjectDraft,
  type StoredVersion,
  type Version,
  wholeColumns,
} from './versions.ts';

/** A version that a change has found. */
export interface FoundVersion extends StoredVersion {
  /** Its row is not authentic. */
  isDamaged: boolean;
  /** The snapshot that is to hold it (`findHolder`), where that was asked already. */
  holder?: number | null;
}

/** All that a row keeps when it moves, in order, before and behind its MACs. */
const keptColumns = `bucket_id, key, seq, version_id, is_marker, size, etag, sha256, class, owner,
  created_ms, manifest, attributes`;

/** The content and the name of a new version. */
export interface NewVersion {
  key: string;
  versionId: string | null;
  /** 1: a delete marker. */
  isMarker: number;
  createdMs: number;
  object: ObjectDraft;
}

/**
 * Adds a current version, and its row's MAC; gives what is billed. It replaces the row of the one
 * before, which was kept or ended.
 */
export async function insertVersion(
  tx: Tx,
  bucket: BucketName,
  version: NewVersion,
  { seq, keyring, terms }: Pick<Moment, 'seq' | 'keyring' | 'terms'>,
): Promise<BilledDelta> {
  const { key, versionId, isMarker, createdMs, object } = version;
  const billed = isMarker ? 0 : billedBytes(tx, bucket.tenant, object, terms);
  const bytes = billed instanceof Promise ? await billed : billed;
  const place: RowPlace = {
    key,
    seq,
    createdMs,
    versionId,
    isMarker,
    supersededSeq: null,
    supersededMs: null,
  };
  await tx.run(
    'INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    bucket.id,
    key,
    seq,
    versionId,
    isMarker,
    object.sizeBytes,
    object.etag,
    object.sha256,
    object.class,
    object.owner,
    createdMs,
    await placeManifest(tx, object.manifest),
    object.attributes,
    object.epoch,
    object.manifestMac,
    computeRowMac(keyring, bucket, place, object),
    bytes,
  );
  return { class: object.class, bytes };
}

/**
 * Makes of a current version that of another key, as `to` says; what was current there was kept or
 * ended. Its own row stays until it is removed. A long manifest stays where it is.
 */
export async function moveCurrent(tx: Tx, from: FoundVersion, to: FoundVersion): Promise<void> {
  await tx.run(
    `INSERT OR REPLACE INTO versions SELECT bucket_id, ?, ?, ?, is_marker, size, etag, sha256,
         class, owner, created_ms, manifest, ?, epoch, manifest_mac, ?, billed
       FROM versions WHERE bucket_id = ? AND key = ?`,
    ...[to.key, to.seq, to.versionId, to.attributes, to.rowMac],
    ...[from.bucketId, from.key],
  );
}

const notSuperseded = { supersededSeq: null, supersededMs: null };

/** Keeps the current version as a noncurrent one, from this moment on: another is to replace it. */
export async function keepAsNoncurrent(
  tx: Tx,
  bucket: BucketName,
  version: FoundVersion,
  { seq, timeMs, keyring }: Pick<Moment, 'seq' | 'timeMs' | 'keyring'>,
): Promise<void> {
  const place = { supersededSeq: seq, supersededMs: timeMs };
  const { epoch, manifestMac, rowMac } = sealMoved(keyring, bucket, { ...version, ...place });
  await tx.run(
    // A row that is there is one that somebody has put there.
    `INSERT OR REPLACE INTO noncurrent_versions SELECT ${keptColumns}, ?, ?, ?, billed, ?, ?
       FROM versions WHERE bucket_id = ? AND key = ?`,
    ...[epoch, manifestMac, rowMac, seq, timeMs],
    ...[version.bucketId, version.key],
  );
}

/** Makes a noncurrent version the current one. There must be none of the key. */
export async function makeCurrent(
  tx: Tx,
  bucket: BucketName,
  version: FoundVersion,
  keyring: Keyring,
): Promise<void> {
  const sealed = sealMoved(keyring, bucket, { ...version, ...notSuperseded });
  await tx.run(
    `INSERT INTO versions SELECT ${keptColumns}, ?, ?, ?, billed
       FROM noncurrent_versions WHERE bucket_id = ? AND key = ? AND seq = ?`,
    ...[sealed.epoch, sealed.manifestMac, sealed.rowMac],
    ...[version.bucketId, version.key, version.seq],
  );
  await removeRow(tx, version);
}

function sealMoved(keyring: Keyring, bucket: BucketName, version: FoundVersion) {
  return version.isDamaged ? version : sealAgain(keyring, bucket, version);
}

/**
 * Ends a version for good. Gives what that takes off the counters: of one that a snapshot holds
 * only that it is an object no more.
 */
export async function endVersion(
  tx: Tx,
  bucket: OpenBucket,
  version: FoundVersion,
  moment: Moment,
): Promise<Removal> {
  const removal = await endReplaced(tx, bucket, version, moment);
  await removeRow(tx, version);
  return removal;
}

/** The same of the current one, where another is to replace it. All ends of versions come here. */
export async function endReplaced(
  tx: Tx,
  bucket: OpenBucket,
  version: FoundVersion,
  moment: Moment,
): Promise<Removal> {
  const { bucketId, key, seq } = version;
  // It is there already when somebody has put an old row back.
  await tx.run('INSERT OR IGNORE INTO superseded VALUES (?, ?)', seq, moment.seq);
  const removal = removalOf(version);
  const { holder = await findHolder(tx, bucket, { key, sinceSeq: seq }) } = version;
  if (holder !== null) {
    await holdEnded(tx, bucket, version, holder, moment);
    if (version.isDamaged) return removal;
    return { ...removal, storedBytes: 0, billed: [], ended: null };
  }
  if (isOwnClass(version.class)) {
    await forgetLoss(tx, seq);
    await forgetRestore(tx, seq);
  }
  // The extents that a damaged row names may belong to other objects, so they are not released.
  if (!version.isDamaged && !version.isMarker) {
    const from = isNoncurrent(version)
      ? '* FROM noncurrent_versions'
      : '*, NULL, NULL FROM versions';
    const where = 'WHERE bucket_id = ? AND key = ? AND seq = ?';
    await tx.run(
      `INSERT OR REPLACE INTO ended_versions SELECT ${from} ${where}`,
      bucketId,
      key,
      seq,
    );
  }
  return removal;
}

async function removeRow(tx: Tx, version: FoundVersion): Promise<void> {
  const table = isNoncurrent(version) ? 'noncurrent_versions' : 'versions';
  const sql = `DELETE FROM ${table} WHERE bucket_id = ? AND key = ? AND seq = ?`;
  await tx.run(sql, version.bucketId, version.key, version.seq);
}

/** Which table a row was read from. */
function isNoncurrent({ supersededSeq }: Pick<Version, 'supersededSeq'>): boolean {
  return supersededSeq !== null;
}

/**
 * Changes what may change of a version that is authentic: its attributes. Where a snapshot has it
 * as it is, an image of that is held.
 */
export async function amendRow(
  tx: Tx,
  bucket: OpenBucket,
  version: FoundVersion,
  attributes: string,
  moment: Moment,
): Promise<void> {
  await holdImage(tx, bucket, version, moment);
  const amended = { ...version, attributes };
  const { epoch, manifestMac, rowMac } = sealAgain(moment.keyring, bucket, amended);
  const table = isNoncurrent(version) ? 'noncurrent_versions' : 'versions';
  await tx.run(
    `UPDATE ${table} SET attributes = ?, epoch = ?, manifest_mac = ?, row_mac = ?
       WHERE bucket_id = ? AND key = ? AND seq = ?`,
    ...[attributes, epoch, manifestMac, rowMac],
    ...[version.bucketId, version.key, version.seq],
  );
}

/** What is taken off the counters. */
export interface Removal {
  storedBytes: number;
  storedObjects: number;
  billed: BilledDelta[];
  ended: EndedObject | null;
}

/** Returns what a version that ends takes off the counters, which is nothing for a marker. */
export function removalOf(version: FoundVersion): Removal {
  if (version.isMarker) return { storedBytes: 0, storedObjects: 0, billed: [], ended: null };
  const { class: storageClass, isDamaged } = version;
  const billedBytes = countedBytes(version.billedBytes);
  return {
    storedBytes: -countedBytes(version.sizeBytes),
    storedObjects: -1,
    billed: [{ class: storageClass, bytes: -billedBytes }],
    // Nothing is owed for the storage that a damaged row names.
    ended: isDamaged
      ? null
      : { class: storageClass, billedBytes, sinceMs: classedSinceMs(version) },
  };
}

/** Some 1,000 runs: a few milliseconds in which nobody else can commit. */
const purgedManifestBytesMax = 36 * 1024;

/**
 * Removes up to `max` versions that ended, and lets go of their bytes; fewer where they are of very
 * many runs. Gives how many it removed: 0 when there are no more.
 */
export async function purgeEnded(
  tx: Tx,
  max: number,
  { keyring, timeMs }: Pick<Moment, 'keyring' | 'timeMs'>,
): Promise<number> {
  let purged = 0;
  // One at a time, since a manifest may have megabytes.
  for (let bytes = 0; purged < max && bytes <= purgedManifestBytesMax; purged++) {
    const row = await tx.get<EndedVersion>(oldestEndedSql);
    if (!row) break;
    bytes += row.manifest.length;
    await tx.run('DELETE FROM ended_versions WHERE seq = ?', row.seq);
    if (mayLetGo(keyring, row)) await dropManifest(tx, row, timeMs);
  }
  return purged;
}

const oldestEndedSql = `SELECT ${endedColumns}, ${wholeColumns}, ${longManifestOf('v')},
    (SELECT tenant FROM buckets WHERE id = bucket_id) AS tenant,
    (SELECT name FROM buckets WHERE id = bucket_id) AS bucketName
  FROM ended_versions AS v ORDER BY seq LIMIT 1`;

/** With the names of its bucket, unless that is gone. */
type EndedVersion = Version & NamedManifest & EndedPlace;

interface EndedPlace {
  tenant: string | null;
  bucketName: string | null;
}

/** Whether the extents that an ended row names are its own, as far as can be known. */
function mayLetGo(keyring: Keyring, row: EndedVersion): boolean {
  const { bucketId: id, tenant, bucketName: name, manifest } = row;
  if (tenant === null || name === null) return isManifest(manifest);
  return isAuthentic(() => verifyVersion(keyring, { id, tenant, name }, row));
}
