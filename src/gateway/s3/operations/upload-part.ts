// UploadPart: a PUT whose extents wait in a part for the upload's completion.
import { sealPart } from '../../../catalog/authentic.ts';
import { Refusal } from '../../../core/errors.ts';
import { singlePutBytesMax } from '../../../core/limits.ts';
import { encodeManifest } from '../../../core/manifest.ts';
import type { WrittenObject } from '../../../tiering/object-writer.ts';
import { emptyReply, quoted, type Reply } from '../../http/reply.ts';
import { receiveObject } from '../body.ts';
import { checksumHeader, claimedChecksum } from '../objects/checksum-headers.ts';
import { storedIds } from '../objects/object-upload.ts';
import {
  checkPart,
  findOpenUpload,
  partNumberOf,
  type UploadAttributes,
} from '../objects/upload-attributes.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const uploadPart: Operation<'object'> = {
  name: 'UploadPart',
  action: 's3:PutObject',
  resource: 'object',
  price: 'put',
  stores: 'part',
  bodyBytesMax: singlePutBytesMax,
  run,
};

async function run(context: Reserved<'object'>): Promise<Reply> {
  const number = partNumberOf(context.request);
  const { upload, attributes } = await findOpenUpload(context);
  checkAlgorithm(context, attributes);
  const sizeBytes = context.bodyBytes;
  await checkPart(context, upload, { number, sizeBytes });
  const part = { id: upload.id, part: number };
  const fallback = attributes.checksum?.algorithm ?? null;
  const { sink, digests, checksum } = await receiveObject(context, fallback, { upload: part });
  const written = await sink.seal(digests, null);
  // A checksum of another algorithm was compared and served its purpose.
  const kept = attributes.checksum ? (checksum?.value ?? null) : null;
  await commitPart(context, written, { number, uploadId: upload.id, checksum: kept });
  const headers: Record<string, string> = { etag: quoted(digests.md5.toString('hex')) };
  if (checksum) headers[checksumHeader(checksum.algorithm)] = checksum.value;
  return emptyReply(200, headers);
}

/** Makes what was written a part of an open upload. Throws `Refusal`. */
export async function commitPart(
  context: Reserved<'object'>,
  written: WrittenObject,
  { number, uploadId, checksum }: { number: number; uploadId: string; checksum: string | null },
): Promise<{ timeMs: number }> {
  const etag = written.md5.toString('hex');
  const { sizeBytes } = written;
  const { services, bucket } = context;
  const place = { tenant: bucket.tenant, uploadId };
  return context.commit(
    {
      kind: 'putPart',
      ...place,
      part: sealPart(services.keyring, place, {
        number,
        sizeBytes,
        etag,
        checksum,
        manifest: encodeManifest(written.runs),
      }),
      extentIds: storedIds(written.runs),
      inline: written.inline,
      source: null,
    },
    { sizeBytes, etag, sha256: written.sha256.toString('hex') },
  );
}

function checkAlgorithm(context: Reserved<'object'>, attributes: UploadAttributes): void {
  const claimed = claimedChecksum(context.request);
  const expected = attributes.checksum?.algorithm;
  if (!claimed || !expected || claimed.algorithm === expected) return;
  const message =
    `Checksum Type mismatch occurred, expected checksum Type: ${expected.toLowerCase()}, ` +
    `actual checksum Type: ${claimed.algorithm.toLowerCase()}`;
  throw new Refusal('InvalidRequest', { message });
}
