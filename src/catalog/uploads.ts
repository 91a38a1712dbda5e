// Multipart uploads. Parts are manifests of their own; completing joins them and moves no data. A
// completed upload's row stays for a while with its answer, so that completing twice answers the
// same.
import type { Reader, Tx } from '../core/database.ts';
import { Pace } from '../core/pace.ts';
import {
  type BucketName,
  computeUploadMac,
  isAuthentic,
  type PartPlace,
  verifyPart,
  verifyUpload,
} from './authentic.ts';
import { billedParts } from './billed-bytes.ts';
import type { WriteConditions } from './conditions.ts';
import {
  addReferences,
  adoptExtents,
  areIntents,
  areLive,
  dropReferences,
  type InlineExtent,
} from './extents.ts';
import {
  type BilledDelta,
  type Moment,
  noStorage,
  type Outcome,
  refused,
  type StorageDelta,
} from './outcome.ts';
import {
  findConflict,
  forgetDeletion,
  forgetDeletions,
  readBeginning,
} from './upload-conflicts.ts';
import { replaceCurrent } from './version-changes.ts';
import { openToReplace } from './version-places.ts';
import { type Catalog, countedBytes, holdsExtents, type ObjectDraft } from './versions.ts';

export interface Upload {
  id: string;
  bucketId: number;
  key: string;
  /** `tenant/name` of who began it. */
  initiator: string;
  createdMs: number;
  class: string;
  /** JSON of `UploadAttributes`, and of what `readBeginning` says. */
  attributes: string;
  /** JSON of `CompletedUpload` once completed. */
  completed: string | null;
  /** The epoch of the root key under which its MAC is made. */
  epoch: number;
  mac: Uint8Array;
}

export interface Part {
  number: number;
  sizeBytes: number;
  /** MD5, hex. */
  etag: string;
  /** Base64, of the upload's algorithm. */
  checksum: string | null;
  modifiedMs: number;
  manifest: Uint8Array;
  epoch: number;
  /** From `sealPart`. */
  mac: Uint8Array;
}

export interface CompletedUpload {
  etag: string;
  /** The parts asked for then, to tell a repeat from another request. */
  fingerprint: string;
  /** JSON of the object's `Attributes`. */
  attributes: string;
  /** The id of the version that the upload became; absent for the version `null`. */
  versionId?: string | undefined;
}

const columns = `id, bucket_id AS bucketId, key, initiator, created_ms AS createdMs, class,
  attributes, completed, epoch, mac`;
const partColumns =
  'number, size AS sizeBytes, etag, checksum, modified_ms AS modifiedMs, manifest, epoch, mac';

/**
 * The upload of this id, if it belongs to this bucket and key. Throws IntegrityError when its row
 * is not authentic.
 */
export async function findUpload(
  { read, keyring }: Catalog,
  bucket: BucketName,
  wanted: { id: string; key: string },
): Promise<Upload | undefined> {
  const upload = await readUpload(read, bucket.id, wanted);
  if (upload) verifyUpload(keyring, bucket, upload);
  return upload;
}

/**
 * Whether this principal, `tenant/name`, began the upload. For others one that is there is not read
 * any further than one that is not. Throws IntegrityError as `findUpload` does.
 */
export async function isInitiator(
  { read, keyring }: Catalog,
  bucket: BucketName,
  { id, key, initiator }: { id: string; key: string; initiator: string },
): Promise<boolean> {
  const sql = `SELECT ${columns} FROM uploads
    WHERE id = ? AND bucket_id = ? AND key = ? AND initiator = ?`;
  const upload = await read.get<Upload>(sql, id, bucket.id, key, initiator);
  if (upload) verifyUpload(keyring, bucket, upload);
  return upload !== undefined;
}

/** The key of an upload, unfinished or completed; undefined: the bucket has none of this id. */
export async function findUploadKey(
  read: Reader,
  bucketId: number,
  id: string,
): Promise<string | undefined> {
  const sql = 'SELECT key FROM uploads WHERE id = ? AND bucket_id = ?';
  return (await read.get<{ key: string }>(sql, id, bucketId))?.key;
}

/** Unfinished uploads in a tenant's buckets that one principal began, by id, after `after`. */
export function listInitiated(
  read: Reader,
  {
    tenant,
    initiator,
    after,
    max,
  }: Record<'tenant' | 'initiator' | 'after', string> & {
    max: number;
  },
): Promise<{ id: string; bucket: string; key: string }[]> {
  return read.all(
    `SELECT u.id, b.name AS bucket, u.key FROM uploads AS u JOIN buckets AS b ON b.id = u.bucket_id
       WHERE u.initiator = ? AND u.completed IS NULL AND b.tenant = ? AND u.id > ?
       ORDER BY u.id LIMIT ?`,
    ...[initiator, tenant, after, max],
  );
}

function readUpload(
  read: Reader,
  bucketId: number,
  { id, key }: { id: string; key: string },
): Promise<Upload | undefined> {
  const sql = `SELECT ${columns} FROM uploads WHERE id = ? AND bucket_id = ? AND key = ?`;
  return read.get<Upload>(sql, id, bucketId, key);
}

/** Parts that are read and verified at once: a few milliseconds. */
const sliceParts = 250;

/**
 * Parts in order of number, after `afterNumber`, at most so many; others have their turns
 * meanwhile. Throws IntegrityError when one is not authentic.
 */
export async function listParts(
  { read, keyring }: Catalog,
  upload: PartPlace,
  afterNumber: number,
  max: number,
): Promise<Part[]> {
  const parts: Part[] = [];
  const pace = new Pace();
  for (let last = afterNumber; parts.length < max; ) {
    const asked = Math.min(sliceParts, max - parts.length);
    if (pace.isDue) await pace.wait();
    const slice = await readParts(read, upload.uploadId, last, asked);
    for (const part of slice) verifyPart(keyring, upload, part);
    parts.push(...slice);
    if (slice.length < asked) break;
    last = slice.at(-1)?.number ?? last;
  }
  return parts;
}

/** Bytes of an upload's parts but the one of this number. */
export async function sumOtherParts(
  read: Reader,
  uploadId: string,
  number: number,
): Promise<number> {
  const row = await read.get<{ bytes: number }>(
    'SELECT total(size) AS bytes FROM parts WHERE upload_id = ? AND number <> ?',
    ...[uploadId, number],
  );
  return row?.bytes ?? 0;
}

async function readParts(
  read: Reader,
  uploadId: string,
  afterNumber: number,
  max: number,
): Promise<Part[]> {
  return read.all<Part>(
    `SELECT ${partColumns} FROM parts WHERE upload_id = ? AND number > ? ORDER BY number LIMIT ?`,
    ...[uploadId, afterNumber, max],
  );
}

export interface CreateUpload {
  kind: 'createUpload';
  id: string;
  bucketId: number;
  key: string;
  initiator: string;
  class: string;
  attributes: string;
  /** The newest, for its MAC. */
  epoch: number;
}

export async function createUpload(
  tx: Tx,
  change: CreateUpload,
  moment: Moment,
): Promise<Outcome<null>> {
  const { keyring, timeMs: createdMs } = moment;
  const bucket = await tx.get<BucketName>(
    'SELECT id, tenant, name FROM buckets WHERE id = ?',
    change.bucketId,
  );
  if (!bucket) return refused('NoSuchBucket');
  const beginning = await readBeginning(tx, change, moment.seq);
  const attributes = JSON.stringify({ ...JSON.parse(change.attributes), ...beginning });
  await tx.run(
    'INSERT INTO uploads VALUES (?, ?, ?, ?, ?, ?, ?, NULL, ?, ?)',
    change.id,
    change.bucketId,
    change.key,
    change.initiator,
    createdMs,
    change.class,
    attributes,
    change.epoch,
    computeUploadMac(keyring, bucket, { ...change, attributes, createdMs, completed: null }),
  );
  return { ok: true, storage: noStorage, result: null };
}

export interface TransferUpload {
  kind: 'transferUpload';
  bucketId: number;
  id: string;
  /** `tenant/name`: who began it, and who is to count as that. */
  from: string;
  to: string;
}

/** Has an unfinished upload be another's, who may list and abort it as who began it could. */
export async function transferUpload(
  tx: Tx,
  { bucketId, id, from, to }: TransferUpload,
  { keyring, terms }: Moment,
): Promise<Outcome<null>> {
  const bucket = await tx.get<BucketName>(
    'SELECT id, tenant, name FROM buckets WHERE id = ?',
    bucketId,
  );
  if (!bucket) return refused('NoSuchBucket');
  const open = 'WHERE id = ? AND bucket_id = ? AND initiator = ? AND completed IS NULL';
  const sql = `SELECT ${columns} FROM uploads ${open}`;
  const upload = await tx.get<Upload>(sql, id, bucketId, from);
  if (!upload) return refused('NoSuchUpload');
  if (!isAuthentic(() => verifyUpload(keyring, bucket, upload))) {
    return refused('BursarIntegrityError');
  }
  // What it has is stored by who began it (ledger/stored-triggers.ts).
  const sum = 'SELECT ifnull(sum(size), 0) AS bytes FROM parts WHERE upload_id = ?';
  const { bytes } = (await tx.get<{ bytes: number }>(sum, id)) as { bytes: number };
  if (to !== from && !(await terms.mayHaveWritten(bucket, to, countedBytes(bytes)))) {
    return refused('QuotaExceeded');
  }
  const mac = computeUploadMac(keyring, bucket, { ...upload, initiator: to });
  await tx.run('UPDATE uploads SET initiator = ?, mac = ? WHERE id = ?', to, mac, id);
  return { ok: true, storage: noStorage, result: null };
}

export interface PutPart {
  kind: 'putPart';
  tenant: string;
  uploadId: string;
  part: Omit<Part, 'modifiedMs'>;
  /** Extents written for it; a copied part has none and shares its source's. */
  extentIds: Uint8Array[];
  inline: InlineExtent | null;
  /** As those of `PutObject`. */
  places?: number[][] | undefined;
  /** The version a copied part comes from. */
  source: { bucketId: number; key: string; seq: number } | null;
}

export async function putPart(tx: Tx, change: PutPart, moment: Moment): Promise<Outcome<null>> {
  const upload = await tx.get<Pick<Upload, 'completed' | 'class'>>(
    'SELECT completed, class FROM uploads WHERE id = ?',
    change.uploadId,
  );
  if (!upload || upload.completed !== null) return refused('NoSuchUpload');
  const { source, part } = change;
  if (source) {
    const isHeld = (await holdsExtents(tx, source)) && (await areLive(tx, part.manifest));
    if (!isHeld) return refused('SlowDown');
  } else if (!(await areIntents(tx, change.extentIds))) {
    return refused('RequestTimeout');
  }
  if (source) await addReferences(tx, part.manifest);
  else {
    const { tenant, extentIds: ids, inline, places } = change;
    await adoptExtents(tx, { tenant, ids, inline, places, timeMs: moment.timeMs });
  }
  const [replaced] = await tx.all<Part>(
    `SELECT ${partColumns} FROM parts WHERE upload_id = ? AND number = ?`,
    ...[change.uploadId, part.number],
  );
  if (replaced) await dropPart(tx, change, replaced, moment);
  await tx.run(
    'INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
    change.uploadId,
    part.number,
    part.sizeBytes,
    part.etag,
    part.checksum,
    moment.timeMs,
    part.manifest,
    part.epoch,
    part.mac,
  );
  const bytes = part.sizeBytes - countedBytes(replaced?.sizeBytes ?? 0);
  const storage = await partsAdded(tx, change, [{ class: upload.class, bytes }]);
  return { ok: true, storage, result: null };
}

export interface CompleteUpload {
  kind: 'completeUpload';
  bucketId: number;
  key: string;
  uploadId: string;
  conditions: WriteConditions;
  /**
   * The parts that the object was composed of, in its order, and how much of its manifest is each
   * one's: each must still be the same. Numbers alone cross threads in no time, however many there
   * are.
   */
  parts: { numbers: Uint32Array; manifestBytes: Uint32Array };
  fingerprint: string;
  object: ObjectDraft;
}

/**
 * Refuses with SlowDown when a part changed since `parts` was read, or the upload was completed:
 * read again and retry.
 */
export async function completeUpload(
  tx: Tx,
  change: CompleteUpload,
  moment: Moment,
): Promise<Outcome<null>> {
  const { bucketId, key, uploadId: id } = change;
  const upload = await readUpload(tx, bucketId, { id, key });
  // Before the conditions: they were for the completion that has already been.
  if (!upload) return refused('NoSuchUpload');
  if (upload.completed !== null) return refused('SlowDown');
  const opening = await openToReplace(tx, change, moment);
  if (!opening.ok) return opening;
  const { bucket } = opening.result;
  const { keyring } = moment;
  if (!isAuthentic(() => verifyUpload(keyring, bucket, upload))) {
    return refused('BursarIntegrityError');
  }
  const conflict = await findConflict(tx, upload, change, opening.result);
  if (conflict) return conflict;
  const stored = new Map<number, Part>();
  for (const part of await readParts(tx, id, 0, -1)) stored.set(part.number, part);
  const { numbers, manifestBytes } = change.parts;
  let at = 0;
  for (const [i, number] of numbers.entries()) {
    const part = stored.get(number);
    const manifest = change.object.manifest.subarray(at, at + (manifestBytes[i] as number));
    at += manifest.length;
    if (!part || Buffer.compare(part.manifest, manifest) !== 0) return refused('SlowDown');
  }

  let partBytes = 0;
  for (const part of stored.values()) partBytes += countedBytes(part.sizeBytes);
  for (const number of numbers) stored.delete(number);
  const place = { tenant: bucket.tenant, uploadId: id };
  for (const unused of stored.values()) await dropPart(tx, place, unused, moment);
  await tx.run('DELETE FROM parts WHERE upload_id = ?', id);
  const outcome = await replaceCurrent(tx, change, opening.result, moment);
  if (!outcome.ok) return outcome;
  const { storage } = outcome;
  const done: CompletedUpload = {
    etag: change.object.etag,
    fingerprint: change.fingerprint,
    attributes: change.object.attributes,
    versionId: storage.named?.versionId ?? undefined,
  };
  const completed = JSON.stringify(done);
  const mac = computeUploadMac(keyring, bucket, { ...upload, completed });
  await tx.run('UPDATE uploads SET completed = ?, mac = ? WHERE id = ?', completed, mac, id);
  const parts = await partsAdded(tx, bucket, [{ class: upload.class, bytes: -partBytes }]);
  const storedBytes = storage.storedBytes + parts.storedBytes;
  const billed = [...storage.billed, ...parts.billed];
  return { ...outcome, storage: { ...storage, storedBytes, billed } };
}

export interface AbortUpload {
  kind: 'abortUpload';
  /** Of the bucket. */
  tenant: string;
  bucketId: number;
  key: string;
  uploadId: string;
}

export async function abortUpload(
  tx: Tx,
  change: AbortUpload,
  moment: Moment,
): Promise<Outcome<null>> {
  const { uploadId: id, bucketId, key } = change;
  // Whether its row is authentic or not: that is how damage is cleared away.
  const upload = await readUpload(tx, bucketId, { id, key });
  if (!upload || upload.completed !== null) return refused('NoSuchUpload', { UploadId: id });
  const bytes = -(await discardUpload(tx, change, moment));
  await forgetDeletion(tx, change);
  const storage = await partsAdded(tx, change, [{ class: upload.class, bytes }]);
  return { ok: true, storage, result: null };
}

/** Discards all uploads of a bucket; gives what their parts held. */
export async function discardUploads(
  tx: Tx,
  { id, tenant }: { id: number; tenant: string },
  moment: Moment,
): Promise<StorageDelta> {
  const parts: BilledDelta[] = [];
  const sql = 'SELECT id, class FROM uploads WHERE bucket_id = ?';
  for (const { id: uploadId, class: of } of await tx.all<Pick<Upload, 'id' | 'class'>>(sql, id)) {
    parts.push({ class: of, bytes: -(await discardUpload(tx, { tenant, uploadId }, moment)) });
  }
  await forgetDeletions(tx, id);
  return partsAdded(tx, { tenant }, parts);
}

/** `parts`: how many bytes more there are of a class, or fewer. */
async function partsAdded(
  read: Reader,
  { tenant }: { tenant: string },
  parts: readonly BilledDelta[],
): Promise<StorageDelta> {
  const billed: BilledDelta[] = [];
  let storedBytes = 0;
  for (const { class: of, bytes } of parts) {
    storedBytes += bytes;
    billed.push({
      class: of,
      bytes: await billedParts(read, tenant, { class: of, sizeBytes: bytes }),
    });
  }
  return { storedBytes, storedObjects: 0, billed, ended: null };
}

/** Forgets up to `max` uploads that were completed before `beforeMs`. */
export async function forgetCompleted(tx: Tx, beforeMs: number, max: number): Promise<number> {
  const forgotten = await tx.all<{ bucketId: number; key: string }>(
    `DELETE FROM uploads WHERE id IN (
       SELECT id FROM uploads WHERE completed IS NOT NULL AND created_ms < ? LIMIT ?)
       RETURNING bucket_id AS bucketId, key`,
    ...[beforeMs, max],
  );
  for (const upload of forgotten) await forgetDeletion(tx, upload);
  return forgotten.length;
}

async function discardUpload(tx: Tx, place: PartPlace, moment: Moment): Promise<number> {
  let bytes = 0;
  for (const part of await readParts(tx, place.uploadId, 0, -1)) {
    bytes += countedBytes(part.sizeBytes);
    await dropPart(tx, place, part, moment);
  }
  await tx.run('DELETE FROM parts WHERE upload_id = ?', place.uploadId);
  await tx.run('DELETE FROM uploads WHERE id = ?', place.uploadId);
  return bytes;
}

/** Lets go of a part's extents; not of a damaged one's, which may be those of other objects. */
async function dropPart(
  tx: Tx,
  place: PartPlace,
  part: Part,
  { keyring, timeMs }: Moment,
): Promise<void> {
  if (!isAuthentic(() => verifyPart(keyring, place, part))) return;
  await dropReferences(tx, part.manifest, timeMs);
}
