// Versions: immutable states of objects. The current one of a key has no `superseded_seq`. Writing
// never changes a version: it supersedes the current one and adds another, in one transaction.
import type { Reader, Tx } from '../core/database.ts';
import type { Keyring } from '../core/keyring.ts';
import { objectBytesMax } from '../core/limits.ts';
import { isManifest } from '../core/manifest.ts';
import {
  type BucketName,
  computeRowMac,
  isAuthentic,
  verifyCurrent,
  verifySuperseded,
} from './authentic.ts';
import { checkWriteConditions, type WriteConditions } from './conditions.ts';
import {
  addReferences,
  adoptExtents,
  areIntents,
  dropReferences,
  type InlineExtent,
} from './extents.ts';
import { noteChange } from './outbox.ts';
import {
  type BilledDelta,
  type EndedObject,
  type Moment,
  noStorage,
  type Outcome,
  refused,
  type StorageDelta,
} from './outcome.ts';

export type ChecksumType = 'COMPOSITE' | 'FULL_OBJECT';

/** Everything about an object that its client gave, besides the bytes. Kept as JSON. */
export interface Attributes {
  /** System headers to give back: content-type, cache-control, content-encoding, … */
  headers: Record<string, string>;
  /** User metadata, names without `x-amz-meta-`. */
  metadata: Record<string, string>;
  checksum?: { algorithm: string; value: string; type: ChecksumType };
  /** Sizes of the parts of a multipart object, in order. */
  partBytes?: number[];
  /** Names and values, in the order in which they came. */
  tags?: Tags;
}

export type Tags = readonly (readonly [string, string])[];

export interface Version {
  bucketId: number;
  key: string;
  seq: number;
  sizeBytes: number;
  etag: string;
  sha256: Uint8Array | null;
  class: string;
  owner: string;
  createdMs: number;
  manifest: Uint8Array;
  /** JSON of `Attributes`. */
  attributes: string;
  /** Of the root key that its MACs are made under. */
  epoch: number;
  manifestMac: Uint8Array;
  rowMac: Uint8Array;
  /** 1 when the catalog remembers that it was superseded. */
  wasSuperseded: number;
}

export type VersionWithBody = Version & { inlineBody: Uint8Array | null };

/** All but the manifest. */
export const listedColumns = `key, seq, size AS sizeBytes, etag, sha256, class, owner,
  created_ms AS createdMs, attributes, epoch, manifest_mac AS manifestMac, row_mac AS rowMac,
  EXISTS(SELECT 1 FROM superseded AS s WHERE s.seq = versions.seq) AS wasSuperseded`;

const columns = `bucket_id AS bucketId, manifest, ${listedColumns}`;

/**
 * The newest version of a key, current or not: however many were superseded, one step of the tree.
 */
const newest = `(SELECT * FROM versions WHERE bucket_id = ? AND key = ? ORDER BY seq DESC LIMIT 1)
  AS versions`;

/** What it takes to read what the catalog says and to believe it. */
export interface Catalog {
  read: Reader;
  keyring: Keyring;
}

/** The current version of a key. Throws IntegrityError when its row is not authentic. */
export async function findCurrent(
  { read, keyring }: Catalog,
  bucket: BucketName,
  key: string,
): Promise<Version | undefined> {
  const version = await readCurrent(read, bucket.id, key);
  if (version) verifyCurrent(keyring, bucket, version);
  return version;
}

/** With what it counts for where storage is charged, which no MAC covers. */
type BilledVersion = Version & { billedBytes: number };

function readCurrent(
  read: Reader,
  bucketId: number,
  key: string,
): Promise<BilledVersion | undefined> {
  const sql = `SELECT ${columns}, billed AS billedBytes FROM ${newest}
    WHERE superseded_seq IS NULL`;
  return read.get<BilledVersion>(sql, bucketId, key);
}

/**
 * The same, with the sealed bytes of its first extent where those are inline: one read for a GET.
 */
export async function findCurrentWithBody(
  { read, keyring }: Catalog,
  bucket: BucketName,
  key: string,
): Promise<VersionWithBody | undefined> {
  const version = await read.get<VersionWithBody>(
    `SELECT ${columns},
         (SELECT body FROM extents WHERE id = substr(manifest, 1, 16)) AS inlineBody
       FROM ${newest} WHERE superseded_seq IS NULL`,
    bucket.id,
    key,
  );
  if (version) verifyCurrent(keyring, bucket, version);
  return version;
}

/**
 * One version, current or not. Throws IntegrityError when its row is not authentic, or says that it
 * was superseded and the catalog does not remember it.
 */
export async function findVersion(
  { read, keyring }: Catalog,
  bucket: BucketName,
  { key, seq }: { key: string; seq: number },
): Promise<Version | undefined> {
  const version = await read.get<Version & { isCurrent: number }>(
    `SELECT ${columns}, superseded_seq IS NULL AS isCurrent FROM versions
       WHERE bucket_id = ? AND key = ? AND seq = ?`,
    bucket.id,
    key,
    seq,
  );
  if (version?.isCurrent) verifyCurrent(keyring, bucket, version);
  else if (version) verifySuperseded(keyring, bucket, version);
  return version;
}

/** Current versions of a bucket in order of key, after `afterKey`. */
export async function listCurrent(
  read: Reader,
  wanted: { bucketId: number; afterKey: string; max: number },
): Promise<Version[]> {
  return read.all<Version>(
    `SELECT ${columns} FROM versions
       WHERE bucket_id = ? AND key > ? AND superseded_seq IS NULL ORDER BY key LIMIT ?`,
    wanted.bucketId,
    wanted.afterKey,
    wanted.max,
  );
}

/** What a write makes, apart from where. */
export interface ObjectDraft {
  tenant: string;
  sizeBytes: number;
  etag: string;
  sha256: Uint8Array | null;
  class: string;
  owner: string;
  attributes: string;
  manifest: Uint8Array;
  epoch: number;
  /** From `sealObject`. */
  manifestMac: Uint8Array;
}

export interface PutObject {
  kind: 'putObject';
  bucketId: number;
  key: string;
  conditions: WriteConditions;
  object: ObjectDraft;
  /** Extents written for it, declared before. */
  extentIds: Uint8Array[];
  inline: InlineExtent | null;
}

export async function putObject(tx: Tx, change: PutObject, moment: Moment): Promise<Outcome<null>> {
  const opening = await openToReplace(tx, change, moment);
  if (!opening.ok) return opening;
  if (!(await areIntents(tx, change.extentIds))) return refused('RequestTimeout');
  const { tenant } = change.object;
  const { extentIds: ids, inline } = change;
  await adoptExtents(tx, { tenant, ids, inline, timeMs: moment.timeMs });
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
  const { source } = change;
  const row = await tx.get(
    'SELECT 1 FROM versions WHERE bucket_id = ? AND key = ? AND seq = ?',
    source.bucketId,
    source.key,
    source.seq,
  );
  if (!row) return refused('SlowDown');
  await addReferences(tx, change.object.manifest);
  return replaceCurrent(tx, change, opening.result, moment);
}

export interface DeleteObject {
  kind: 'deleteObject';
  bucketId: number;
  key: string;
  conditions: WriteConditions;
}

/** Deleting what is not there succeeds, as on S3, unless a condition demands that it is there. */
export async function deleteObject(
  tx: Tx,
  change: DeleteObject,
  moment: Moment,
): Promise<Outcome<null>> {
  const opening = await openKey(tx, change, moment);
  if (!opening.ok) return opening;
  const { bucket, current } = opening.result;
  if (!current) return { ok: true, storage: noStorage, result: null };
  await supersede(tx, change, current, moment.seq);
  const { store } = bucket;
  await noteChange(tx, { store, bucketId: change.bucketId, key: change.key }, moment);
  const storage = {
    storedBytes: -current.sizeBytes,
    storedObjects: -1,
    billed: [removalOf(current)],
    ended: endOf(current),
    supersededSeq: current.seq,
  };
  return { ok: true, storage, result: null };
}

interface Current extends EndedObject {
  seq: number;
  sizeBytes: number;
  /** Its row is not authentic. */
  isDamaged: boolean;
}

function removalOf({ class: storageClass, billedBytes }: Current): BilledDelta {
  return { class: storageClass, bytes: -billedBytes };
}

/** Nothing is owed for what a damaged row says. */
function endOf({ isDamaged, class: storageClass, billedBytes, createdMs }: Current) {
  return isDamaged ? null : { class: storageClass, billedBytes, createdMs };
}

/** A key that a change is about to be made of. */
export interface OpenKey {
  bucket: BucketName & { store: number };
  /** Null when there is no current version. */
  current: Current | null;
}

/** The bucket is there and the conditions hold: gives what the change begins from. */
export async function openKey(
  tx: Tx,
  at: { bucketId: number; key: string; conditions: WriteConditions },
  moment: Moment,
): Promise<Outcome<OpenKey>> {
  const { bucketId, key, conditions } = at;
  const bucket = await tx.get<OpenKey['bucket']>(
    'SELECT id, tenant, name, store FROM buckets WHERE id = ?',
    bucketId,
  );
  if (!bucket) return refused('NoSuchBucket');
  const row = await readCurrent(tx, bucketId, key);
  const isDamaged = row && !isAuthentic(() => verifyCurrent(moment.keyring, bucket, row));
  // Without a condition it may be replaced or deleted: that is how damage is cleared away.
  if (isDamaged && (conditions.ifMatch || conditions.ifNoneMatch)) {
    return refused('BursarIntegrityError');
  }
  const refusal = checkWriteConditions(conditions, row?.etag ?? null);
  if (refusal) return refusal;
  const current = row ? currentOf(row, isDamaged === true) : null;
  return { ok: true, storage: noStorage, result: { bucket, current } };
}

function currentOf(row: BilledVersion, isDamaged: boolean): Current {
  return {
    seq: row.seq,
    sizeBytes: countedBytes(row.sizeBytes),
    billedBytes: countedBytes(row.billedBytes),
    class: row.class,
    createdMs: row.createdMs,
    isDamaged,
  };
}

/** The same for a write, which is refused when what is then owed for the current one is too much. */
export async function openToReplace(
  tx: Tx,
  at: Parameters<typeof openKey>[1],
  moment: Moment,
): Promise<Outcome<OpenKey>> {
  const opening = await openKey(tx, at, moment);
  const ended = opening.ok && opening.result.current && endOf(opening.result.current);
  return ended && !(await moment.terms.mayEnd(ended)) ? refused('QuotaExceeded') : opening;
}

/** The size that a row says, for counters: a damaged one may say anything. */
export function countedBytes(sizeBytes: number): number {
  const isSize = Number.isSafeInteger(sizeBytes) && sizeBytes >= 0 && sizeBytes <= objectBytesMax;
  return isSize ? sizeBytes : 0;
}

/** Supersedes the current version by the drafted object. After this point the write must succeed. */
export async function replaceCurrent(
  tx: Tx,
  change: { bucketId: number; key: string; object: ObjectDraft },
  { bucket, current }: OpenKey,
  moment: Moment,
): Promise<Outcome<null>> {
  const { object, key } = change;
  const { seq, timeMs } = moment;
  if (current) await supersede(tx, change, current, seq);
  const added = await insertVersion(tx, bucket, { key, createdMs: timeMs, object }, moment);
  await noteChange(tx, { store: bucket.store, bucketId: change.bucketId, key }, moment);
  const storage: StorageDelta = {
    storedBytes: object.sizeBytes - (current?.sizeBytes ?? 0),
    storedObjects: current ? 0 : 1,
    billed: current ? [added, removalOf(current)] : [added],
    ended: current && endOf(current),
    makesVersion: true,
    ...(current && { supersededSeq: current.seq }),
  };
  return { ok: true, storage, result: null };
}

/** Adds a current version, and its row's MAC; gives what is billed. There must be none of the key. */
export async function insertVersion(
  tx: Tx,
  bucket: BucketName,
  version: { key: string; createdMs: number; object: ObjectDraft },
  { seq, keyring, terms }: Moment,
): Promise<BilledDelta> {
  const { key, createdMs, object } = version;
  const bytes = terms.billedBytes(object.class, object.sizeBytes);
  await tx.run(
    'INSERT INTO versions VALUES (?, ?, ?, NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    bucket.id,
    key,
    seq,
    object.sizeBytes,
    object.etag,
    object.sha256,
    object.class,
    object.owner,
    createdMs,
    object.manifest,
    object.attributes,
    object.epoch,
    object.manifestMac,
    computeRowMac(keyring, bucket, { key, seq, createdMs }, object),
    bytes,
  );
  return { class: object.class, bytes };
}

async function supersede(
  tx: Tx,
  { bucketId, key }: { bucketId: number; key: string },
  { seq, isDamaged }: Current,
  bySeq: number,
): Promise<void> {
  await tx.run(
    'UPDATE versions SET superseded_seq = ? WHERE bucket_id = ? AND key = ? AND seq = ?',
    bySeq,
    bucketId,
    key,
    seq,
  );
  // It is there already when somebody has put an old row back.
  await tx.run('INSERT OR IGNORE INTO superseded VALUES (?, ?)', seq, bySeq);
  if (!isDamaged) return;
  // What a damaged row names may be the extents of other objects: they are not let go of.
  const sql = "UPDATE versions SET manifest = x'' WHERE bucket_id = ? AND key = ? AND seq = ?";
  await tx.run(sql, bucketId, key, seq);
}

/**
 * Removes up to `max` superseded versions, oldest first, and lets go of their bytes; fewer where
 * they are of very many runs. Gives how many there were.
 */
export async function purgeSuperseded(
  tx: Tx,
  max: number,
  { keyring, timeMs }: Pick<Moment, 'keyring' | 'timeMs'>,
): Promise<number> {
  const rows = await tx.all<SupersededVersion>(
    `SELECT ${columns}, (SELECT tenant FROM buckets WHERE id = bucket_id) AS tenant,
         (SELECT name FROM buckets WHERE id = bucket_id) AS bucketName
       FROM versions WHERE superseded_seq IS NOT NULL ORDER BY superseded_seq LIMIT ?`,
    max,
  );
  let manifestBytes = 0;
  for (const row of rows) {
    if (manifestBytes > purgedManifestBytesMax) break;
    manifestBytes += row.manifest.length;
    await tx.run(
      'DELETE FROM versions WHERE bucket_id = ? AND key = ? AND seq = ?',
      row.bucketId,
      row.key,
      row.seq,
    );
    if (mayLetGo(keyring, row)) await dropReferences(tx, row.manifest, timeMs);
  }
  return rows.length;
}

/** With the names of its bucket, unless that is gone. */
type SupersededVersion = Version & { tenant: string | null; bucketName: string | null };

/** Whether the extents that a superseded row names are its own, as far as can be known. */
function mayLetGo(keyring: Keyring, row: SupersededVersion): boolean {
  const { bucketId: id, tenant, bucketName: name, manifest } = row;
  if (tenant === null || name === null) return isManifest(manifest);
  return isAuthentic(() => verifySuperseded(keyring, { id, tenant, name }, row));
}

/** Some 1,000 runs: a few milliseconds in which nobody else can commit. */
const purgedManifestBytesMax = 36 * 1024;
