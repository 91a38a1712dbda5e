// What a multipart upload was begun with, and its checksum's algorithm and type ("Checking object
// integrity for multipart uploads" of the Amazon S3 user guide).

import type { S3Action } from '../../../authz/grants/actions.ts';
import { findUpload, isInitiator, sumOtherParts, type Upload } from '../../../catalog/uploads.ts';
import type { Attributes, ChecksumType } from '../../../catalog/versions.ts';
import { Refusal } from '../../../core/errors.ts';
import { manifestRunsMax } from '../../../core/limits.ts';
import type { ChecksumAlgorithm } from '../../../tiering/checksums.ts';
import { uploadIdOf } from '../buckets/listing-xml.ts';
import { parameter, type S3Request } from '../request.ts';
import type { Asked, Reserved } from '../stages.ts';
import { parseAlgorithm } from './checksum-headers.ts';
import { parsePartNumber } from './object-parts.ts';

export interface UploadAttributes {
  object: Attributes;
  checksum: { algorithm: ChecksumAlgorithm; type: ChecksumType } | null;
}

export interface OpenUpload {
  upload: Upload;
  attributes: UploadAttributes;
}

/**
 * The upload that the request names, unfinished or completed. Throws `Refusal` NoSuchUpload; and
 * AccessDenied where a token lets its bearer only create: what others have begun is theirs.
 */
export async function findNamedUpload(context: Reserved<'object'>): Promise<OpenUpload> {
  const id = uploadIdOf(context.request);
  const { bucket, key, services } = context;
  const upload = await findUpload(services, bucket, { id, key });
  if (!upload) throw new Refusal('NoSuchUpload', { fields: { UploadId: id } });
  if (upload.initiator !== context.requester && context.asked.mustCreate()) {
    const message = 'The scope of the token lets it use its own uploads only.';
    throw new Refusal('AccessDenied', { message });
  }
  const part = parameter(context.request, 'partNumber');
  const target = part === undefined ? `uploads/${id}` : `uploads/${id}/parts/${part}`;
  context.detail = { ...context.detail, target };
  return { upload, attributes: JSON.parse(upload.attributes) as UploadAttributes };
}

/** The same, but a completed upload is gone. */
export async function findOpenUpload(context: Reserved<'object'>): Promise<OpenUpload> {
  const found = await findNamedUpload(context);
  if (found.upload.completed === null) return found;
  throw new Refusal('NoSuchUpload', { fields: { UploadId: found.upload.id } });
}

/**
 * Admission to what an upload's initiator may do besides those whom rules let: on S3, to list and
 * to abort it.
 */
export async function admitInitiator(asked: Asked<'object'>): Promise<void> {
  const action = asked.action as S3Action;
  const { who, services, key, requester } = asked;
  const [id, bucket] = [uploadIdOf(asked.request), asked.bucket];
  if (who.isAnonymous || (await asked.mayReachKey(action))) return asked.authorizeKey(action);
  // Also where there is no bucket: who may not know is refused by the same work.
  const wanted = { id, key, initiator: requester };
  const isInitiators = await isInitiator(services, bucket ?? nowhere, wanted);
  return asked.authorizeKey(action, { isInitiator: isInitiators });
}

/** Stands for a bucket that is not there; ids begin at 1. */
const nowhere = { id: 0, tenant: '', name: '' };

/**
 * Throws `Refusal` AccessDenied where the credential does not let the upload become an object with
 * this part: who may not complete it must not fill the store with its parts either.
 */
export async function checkPart(
  context: Reserved<'object'>,
  upload: Upload,
  { number, sizeBytes }: { number: number; sizeBytes: number },
): Promise<void> {
  const { delegation } = context.who;
  if (!delegation) return;
  const isBounded = Number.isFinite(delegation.conditions.objectBytesMax);
  const others = isBounded ? await sumOtherParts(context.services.read, upload.id, number) : 0;
  context.asked.checkWritten({ storageClass: upload.class, sizeBytes: others + sizeBytes });
}

/** The type that the request names; null: none. Throws `Refusal` InvalidRequest. */
export function readChecksumType(request: S3Request): ChecksumType | null {
  const type = request.headers['x-amz-checksum-type']?.toUpperCase();
  if (type === undefined) return null;
  if (type === 'FULL_OBJECT' || type === 'COMPOSITE') return type;
  const message = 'Value for x-amz-checksum-type header is invalid.';
  throw new Refusal('InvalidRequest', { message });
}

/** Throws `Refusal` InvalidRequest. */
export function readUploadChecksum(request: S3Request): UploadAttributes['checksum'] {
  const named = request.headers['x-amz-checksum-algorithm'];
  if (named === undefined) {
    if (readChecksumType(request) === null) return null;
    const message =
      'The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.';
    throw new Refusal('InvalidRequest', { message });
  }
  const algorithm = parseAlgorithm(named);
  const fallback = algorithm === 'CRC64NVME' ? 'FULL_OBJECT' : 'COMPOSITE';
  const chosen = readChecksumType(request) ?? fallback;
  const isCrc = algorithm.startsWith('CRC');
  if (
    (chosen === 'FULL_OBJECT' && !isCrc) ||
    (chosen === 'COMPOSITE' && algorithm === 'CRC64NVME')
  ) {
    const message =
      `The ${chosen} checksum type cannot be used with the ${algorithm.toLowerCase()} checksum ` +
      'algorithm.';
    throw new Refusal('InvalidRequest', { message });
  }
  return { algorithm, type: chosen };
}

/** Throws `Refusal` InvalidArgument. */
export function partNumberOf(request: S3Request): number {
  return parsePartNumber(parameter(request, 'partNumber') ?? '');
}

/** Throws `Refusal` InvalidRequest for bytes in more pieces than their number can need. */
export function checkRunCount(runCount: number, sizeBytes: number): void {
  if (runCount <= manifestRunsMax(sizeBytes)) return;
  const message = 'The source is made of too many small pieces; upload the bytes instead.';
  throw new Refusal('InvalidRequest', { message });
}
