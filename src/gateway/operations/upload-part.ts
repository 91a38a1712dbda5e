// UploadPart: a PUT whose extents wait in a part for the upload's completion.
import { sealPart } from '../../catalog/authentic.ts';
import { Refusal } from '../../core/errors.ts';
import { singlePutBytesMax } from '../../core/limits.ts';
import { encodeManifest } from '../../core/manifest.ts';
import { type ReceivedObject, receiveObject } from '../body.ts';
import { checksumHeader, claimedChecksum } from '../checksum-headers.ts';
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, quoted } from '../replies.ts';
import {
  findOpenUpload,
  type OpenUpload,
  partNumberOf,
  type UploadAttributes,
} from '../upload-attributes.ts';
import { openSink, storedIds } from './put-object.ts';

export const uploadPart: Operation = {
  name: 'UploadPart',
  action: 's3:PutObject',
  resource: 'object',
  bodyBytesMax: singlePutBytesMax,
  run,
};

async function run(context: Context): Promise<Reply> {
  const number = partNumberOf(context.request);
  const { upload, attributes } = await findOpenUpload(context);
  checkAlgorithm(context, attributes);
  const { written, checksum } = await receiveObject(context, {
    bodyBytesMax: singlePutBytesMax,
    fallback: attributes.checksum?.algorithm ?? null,
    open: (options) => openSink(context, options),
    commit: (received) => commit(context, received, { number, upload, attributes }),
  });
  const headers: Record<string, string> = { etag: quoted(written.md5.toString('hex')) };
  if (checksum) headers[checksumHeader(checksum.algorithm)] = checksum.value;
  return emptyReply(200, headers);
}

async function commit(
  context: Context,
  { written, checksum }: ReceivedObject,
  { number, upload, attributes }: OpenUpload & { number: number },
): Promise<void> {
  const etag = written.md5.toString('hex');
  const { sizeBytes } = written;
  const { rooms, bucket } = context;
  const place = { tenant: bucket.tenant, uploadId: upload.id };
  await context.commit(
    {
      kind: 'putPart',
      ...place,
      part: sealPart(rooms.keyring, place, {
        number,
        sizeBytes,
        etag,
        // A checksum of another algorithm was compared and served its purpose.
        checksum: attributes.checksum ? (checksum?.value ?? null) : null,
        manifest: encodeManifest(written.runs),
      }),
      extentIds: storedIds(written.runs),
      inline: written.inline,
      source: null,
    },
    { sizeBytes, etag, sha256: written.sha256.toString('hex') },
  );
}

function checkAlgorithm(context: Context, attributes: UploadAttributes): void {
  const claimed = claimedChecksum(context.request);
  const expected = attributes.checksum?.algorithm;
  if (!claimed || !expected || claimed.algorithm === expected) return;
  const message = `Checksum Type mismatch occurred, expected checksum Type: ${expected.toLowerCase()}, actual checksum Type: ${claimed.algorithm.toLowerCase()}`;
  throw new Refusal('InvalidRequest', { message });
}
