// What the catalog says of objects, authenticated (docs/formats/catalog-macs.md): who edits the
// database behind the gateway's back changes nothing unseen. Each version has a MAC over its
// manifest, made when it is drafted, and one over its row, which binds that to all else that the
// object is and to its place: bucket, key, `seq`, and what it is noncurrent since. Parts and
// uploads have one each. Invariant: nothing of a row is used before these were found right; and a
// row that was put back to where it was before is refused too, since `superseded` remembers all
// that ended, and the current version is newer than all that are kept of its key.
import { IntegrityError } from '../core/errors.ts';
import { KeyedMessage } from '../core/keyed-message.ts';
import type { Keyring } from '../core/keyring.ts';
import type { HeldVersion } from './held-versions.ts';
import type { Part, Upload } from './uploads.ts';
import type { ObjectDraft, Version } from './versions.ts';

/** The names that a row's place is bound to. */
export interface BucketName {
  id: number;
  tenant: string;
  name: string;
}

/** One for the thread, since nothing here waits. */
const message = new KeyedMessage();

/** Completes the draft of an object with its MAC, under the newest epoch. */
export function sealObject(
  keyring: Keyring,
  draft: Omit<ObjectDraft, 'epoch' | 'manifestMac'>,
): ObjectDraft {
  const { tenant, sizeBytes, etag, sha256, owner, attributes, manifest } = draft;
  const epoch = keyring.currentEpoch;
  const manifestMac = describeManifest(keyring, tenant, { sizeBytes, epoch, manifest }).mac();
  // Member by member: spreading takes a hundred times as long.
  return {
    tenant,
    sizeBytes,
    etag,
    sha256,
    class: draft.class,
    owner,
    attributes,
    manifest,
    epoch,
    manifestMac,
  };
}

/** The MAC of a version's row at this place and time. */
export function computeRowMac(
  keyring: Keyring,
  bucket: BucketName,
  place: RowPlace,
  object: RowContent,
): Buffer {
  return describeRow(keyring, bucket, place, object).mac();
}

/**
 * Throws IntegrityError unless the version is what the gateway wrote at this place, and is in the
 * table where it belongs.
 */
export function verifyVersion(keyring: Keyring, bucket: BucketName, version: Version): void {
  if (!describeManifest(keyring, bucket.tenant, version).matches(version.manifestMac)) {
    throw notAuthentic(version);
  }
  verifyListed(keyring, bucket, version);
}

/** What of a version is said besides where a snapshot may hold it. */
type HeldPlace = Pick<HeldVersion, 'endedSeq' | 'endedMs' | 'isImage' | 'heldMac'>;

/**
 * The same for all but the manifest, which listings do not read; of one that a snapshot holds also
 * that it ended when it says.
 */
export function verifyListed(
  keyring: Keyring,
  bucket: BucketName,
  row: Omit<Version, 'bucketId' | 'manifest'> & Partial<HeldPlace>,
): void {
  if (!describeRow(keyring, bucket, row, row).matches(row.rowMac)) throw notAuthentic(row);
  if (isHeldRow(row) && !(row.heldMac && describeHeld(keyring, bucket, row).matches(row.heldMac))) {
    throw notAuthentic(row);
  }
  if (row.isStale) throw new IntegrityError(`version ${row.seq} is not where it belongs any more`);
}

function isHeldRow<R extends Partial<HeldPlace>>(row: R): row is R & HeldPlace {
  return row.endedSeq !== undefined && row.endedSeq !== null;
}

/** The MAC of what is said besides of a version that a snapshot holds. */
export function computeHeldMac(
  keyring: Keyring,
  bucket: BucketName,
  held: Omit<HeldVersion, 'heldMac'>,
): Buffer {
  return describeHeld(keyring, bucket, held).mac();
}

function notAuthentic({ seq }: Pick<Version, 'seq'>): IntegrityError {
  return new IntegrityError(`version ${seq} is not authentic`);
}

/** The MACs of a version that is there, with the place and the attributes that it has now. */
export function sealAgain(
  keyring: Keyring,
  bucket: BucketName,
  version: Version,
): Pick<Version, 'epoch' | 'manifestMac' | 'rowMac'> {
  const { currentEpoch: epoch } = keyring;
  const sealed = { ...version, epoch };
  if (epoch !== version.epoch) {
    sealed.manifestMac = describeManifest(keyring, bucket.tenant, sealed).mac();
  }
  const { manifestMac } = sealed;
  return { epoch, manifestMac, rowMac: describeRow(keyring, bucket, sealed, sealed).mac() };
}

/** Completes a part with its MAC, under the newest epoch. */
export function sealPart(
  keyring: Keyring,
  upload: PartPlace,
  draft: Omit<Part, 'modifiedMs' | 'epoch' | 'mac'>,
): Omit<Part, 'modifiedMs'> {
  const part = { ...draft, epoch: keyring.currentEpoch };
  return { ...part, mac: describePart(keyring, upload, part).mac() };
}

/** Throws IntegrityError unless the part is what was uploaded for this upload under its number. */
export function verifyPart(keyring: Keyring, upload: PartPlace, part: Part): void {
  if (describePart(keyring, upload, part).matches(part.mac)) return;
  throw new IntegrityError(`part ${part.number} of an upload is not authentic`);
}

/** The upload that a part belongs to. */
export interface PartPlace {
  tenant: string;
  uploadId: string;
}

/** The MAC of an upload's row. */
export function computeUploadMac(
  keyring: Keyring,
  bucket: BucketName,
  upload: Omit<Upload, 'mac'>,
): Buffer {
  return describeUpload(keyring, bucket, upload).mac();
}

/** Throws IntegrityError unless the upload is what was begun, or completed, at this place. */
export function verifyUpload(keyring: Keyring, bucket: BucketName, upload: Upload): void {
  if (describeUpload(keyring, bucket, upload).matches(upload.mac)) return;
  throw new IntegrityError('a multipart upload is not authentic');
}

/** Returns whether a verification passes, for callers that answer a damaged row with a value. */
export function isAuthentic(verify: () => void): boolean {
  try {
    verify();
    return true;
  } catch (error) {
    if (error instanceof IntegrityError) return false;
    throw error;
  }
}

/** The place of a version and its name. */
export type RowPlace = Pick<
  Version,
  'key' | 'seq' | 'createdMs' | 'versionId' | 'isMarker' | 'supersededSeq' | 'supersededMs'
>;
type RowContent = Omit<ObjectDraft, 'tenant' | 'manifest'>;

function describeManifest(
  keyring: Keyring,
  tenant: string,
  object: Pick<ObjectDraft, 'sizeBytes' | 'epoch' | 'manifest'>,
): KeyedMessage {
  return message
    .begin(keyring.manifestKey(tenant, object.epoch), 'bursar/manifest/v1')
    .number(object.sizeBytes)
    .number(object.epoch)
    .bytes(object.manifest);
}

function describeRow(
  keyring: Keyring,
  bucket: BucketName,
  place: RowPlace,
  object: RowContent,
): KeyedMessage {
  return message
    .begin(keyring.rowKey(object.epoch), 'bursar/row/v1')
    .text(bucket.tenant)
    .number(bucket.id)
    .text(bucket.name)
    .text(place.key)
    .number(place.seq)
    .text(place.versionId)
    .number(place.isMarker)
    .number(place.supersededSeq)
    .number(place.supersededMs)
    .number(place.createdMs)
    .number(object.sizeBytes)
    .text(object.etag)
    .bytes(object.sha256)
    .text(object.class)
    .text(object.owner)
    .text(object.attributes)
    .bytes(object.manifestMac);
}

function describeHeld(
  keyring: Keyring,
  bucket: BucketName,
  held: Pick<HeldVersion, 'epoch' | 'key' | 'seq' | 'endedSeq' | 'endedMs' | 'isImage' | 'rowMac'>,
): KeyedMessage {
  return message
    .begin(keyring.rowKey(held.epoch), 'bursar/held/v1')
    .text(bucket.tenant)
    .number(bucket.id)
    .text(held.key)
    .number(held.seq)
    .number(held.endedSeq)
    .number(held.endedMs)
    .number(held.isImage)
    .bytes(held.rowMac);
}

function describePart(
  keyring: Keyring,
  { tenant, uploadId }: PartPlace,
  part: Omit<Part, 'modifiedMs' | 'mac'>,
): KeyedMessage {
  return message
    .begin(keyring.manifestKey(tenant, part.epoch), 'bursar/part/v1')
    .text(uploadId)
    .number(part.number)
    .number(part.sizeBytes)
    .text(part.etag)
    .text(part.checksum)
    .number(part.epoch)
    .bytes(part.manifest);
}

function describeUpload(
  keyring: Keyring,
  bucket: BucketName,
  upload: Omit<Upload, 'mac'>,
): KeyedMessage {
  return message
    .begin(keyring.rowKey(upload.epoch), 'bursar/upload/v1')
    .text(bucket.tenant)
    .number(bucket.id)
    .text(bucket.name)
    .text(upload.key)
    .text(upload.id)
    .text(upload.initiator)
    .number(upload.createdMs)
    .text(upload.class)
    .text(upload.attributes)
    .text(upload.completed);
}
