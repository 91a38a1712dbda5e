// What a multipart upload was begun with, and its checksum's algorithm and type ("Checking object
// integrity for multipart uploads" of the Amazon S3 user guide).

import { findUpload, type Upload } from '../catalog/uploads.ts';
import type { Attributes, ChecksumType } from '../catalog/versions.ts';
import { invalidArgument, Refusal } from '../core/errors.ts';
import { manifestRunsMax, partCountMax } from '../core/limits.ts';
import type { ChecksumAlgorithm } from '../tiering/checksums.ts';
import { parseAlgorithm } from './checksum-headers.ts';
import type { Context } from './context.ts';
import { uploadIdOf } from './listing-xml.ts';
import { header, parameter, type S3Request } from './request.ts';

export interface UploadAttributes {
  object: Attributes;
  checksum: { algorithm: ChecksumAlgorithm; type: ChecksumType } | null;
}

export interface OpenUpload {
  upload: Upload;
  attributes: UploadAttributes;
}

/** The upload that the request names, unfinished or completed. Throws `Refusal` NoSuchUpload. */
export async function findNamedUpload(context: Context): Promise<OpenUpload> {
  const id = uploadIdOf(context.request);
  const { bucket, key, rooms } = context;
  const upload = await findUpload(rooms, bucket, { id, key });
  if (!upload) throw new Refusal('NoSuchUpload', { fields: { UploadId: id } });
  return { upload, attributes: JSON.parse(upload.attributes) as UploadAttributes };
}

/** The same, but a completed upload is gone. */
export async function findOpenUpload(context: Context): Promise<OpenUpload> {
  const found = await findNamedUpload(context);
  if (found.upload.completed === null) return found;
  throw new Refusal('NoSuchUpload', { fields: { UploadId: found.upload.id } });
}

/** Throws `Refusal` InvalidArgument or InvalidRequest. */
export function readUploadChecksum(request: S3Request): UploadAttributes['checksum'] {
  const named = header(request, 'x-amz-checksum-algorithm');
  const type = header(request, 'x-amz-checksum-type')?.toUpperCase();
  if (named === undefined) {
    if (type === undefined) return null;
    const message =
      'The x-amz-checksum-type header can only be used with the x-amz-checksum-algorithm header.';
    throw new Refusal('InvalidRequest', { message });
  }
  const algorithm = parseAlgorithm(named, 'x-amz-checksum-algorithm');
  const fallback = algorithm === 'CRC64NVME' ? 'FULL_OBJECT' : 'COMPOSITE';
  const chosen = type ?? fallback;
  if (chosen !== 'FULL_OBJECT' && chosen !== 'COMPOSITE') {
    throw invalidArgument(
      'x-amz-checksum-type',
      chosen,
      'Value for x-amz-checksum-type header is invalid.',
    );
  }
  const isCrc = algorithm.startsWith('CRC');
  if (
    (chosen === 'FULL_OBJECT' && !isCrc) ||
    (chosen === 'COMPOSITE' && algorithm === 'CRC64NVME')
  ) {
    const message = `The ${chosen} checksum type cannot be used with the ${algorithm.toLowerCase()} checksum algorithm.`;
    throw new Refusal('InvalidRequest', { message });
  }
  return { algorithm, type: chosen };
}

/** Throws `Refusal` InvalidArgument. */
export function partNumberOf(request: S3Request): number {
  const text = parameter(request, 'partNumber') ?? '';
  const number = Number(text);
  if (/^\d{1,5}$/.test(text) && number >= 1 && number <= partCountMax) return number;
  const message = `Part number must be an integer between 1 and ${partCountMax}, inclusive`;
  throw invalidArgument('partNumber', text, message);
}

/** Throws `Refusal` InvalidRequest for bytes in more pieces than their number can need. */
export function checkRunCount(runCount: number, sizeBytes: number): void {
  if (runCount <= manifestRunsMax(sizeBytes)) return;
  const message = 'The source is made of too many small pieces; upload the bytes instead.';
  throw new Refusal('InvalidRequest', { message });
}
