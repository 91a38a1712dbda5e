// UploadPart: a PUT whose extents wait in a part for the upload's completion.
import { Refusal } from '../../core/errors.ts';
import { singlePutBytesMax } from '../../core/limits.ts';
import { encodeManifest } from '../../core/manifest.ts';
import { receiveObject } from '../body.ts';
import { checksumHeader, claimedChecksum } from '../checksum-headers.ts';
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, quoted } from '../replies.ts';
import { findOpenUpload, partNumberOf, type UploadAttributes } from '../upload-attributes.ts';
import { openSink, storedIds } from './put-object.ts';

export const uploadPart: Operation = {
  name: 'UploadPart',
  action: 's3:PutObject',
  resource: 'object',
  bodyBytesMax: singlePutBytesMax,
  run,
};

async function run(context: Context): Promise<Reply> {
  const { request, bucket } = context;
  const number = partNumberOf(request);
  const { upload, attributes } = await findOpenUpload(context);
  checkAlgorithm(context, attributes);
  const { written, checksum } = await receiveObject(
    context,
    (options) => openSink(context, options),
    singlePutBytesMax,
    attributes.checksum?.algorithm ?? null,
  );
  const etag = written.md5.toString('hex');
  const { sizeBytes } = written;
  const part = {
    number,
    sizeBytes,
    etag,
    checksum: attributes.checksum ? (checksum?.value ?? null) : null,
    modifiedMs: 0,
    manifest: encodeManifest(written.runs),
  };
  await context.commit(
    {
      kind: 'putPart',
      tenant: bucket.tenant,
      uploadId: upload.id,
      part,
      extentIds: storedIds(written.runs),
      inline: written.inline,
      source: null,
    },
    { sizeBytes, etag, sha256: written.sha256.toString('hex') },
  );
  const headers: Record<string, string> = { etag: quoted(etag) };
  if (checksum) headers[checksumHeader(checksum.algorithm)] = checksum.value;
  return emptyReply(200, headers);
}

function checkAlgorithm(context: Context, attributes: UploadAttributes): void {
  const claimed = claimedChecksum(context.request);
  const expected = attributes.checksum?.algorithm;
  if (!claimed || !expected || claimed.algorithm === expected) return;
  const message = `Checksum Type mismatch occurred, expected checksum Type: ${expected.toLowerCase()}, actual checksum Type: ${claimed.algorithm.toLowerCase()}`;
  throw new Refusal('InvalidRequest', { message });
}
