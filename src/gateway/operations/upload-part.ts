// UploadPart: a PUT whose extents wait in a part for the upload's completion.
import { sealPart } from '../../catalog/authentic.ts';
import { Refusal } from '../../core/errors.ts';
import { singlePutBytesMax } from '../../core/limits.ts';
import { encodeManifest } from '../../core/manifest.ts';
import type { WrittenObject } from '../../tiering/object-writer.ts';
import { declaredBodyBytes, type ReceivedChecksum, receiveObject } from '../body.ts';
import { checksumHeader, claimedChecksum } from '../checksum-headers.ts';
import type { Context, Reply } from '../context.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, quoted } from '../replies.ts';
import {
  checkPart,
  findOpenUpload,
  partNumberOf,
  type UploadAttributes,
} from '../upload-attributes.ts';
import { openSink, storedIds } from './put-object.ts';

export const uploadPart: Operation = {
  name: 'UploadPart',
  action: 's3:PutObject',
  resource: 'object',
  price: 'put',
  stores: 'part',
  bodyBytesMax: singlePutBytesMax,
  run,
};

async function run(context: Context): Promise<Reply> {
  const number = partNumberOf(context.request);
  const { upload, attributes } = await findOpenUpload(context);
  checkAlgorithm(context, attributes);
  const sizeBytes = declaredBodyBytes(context.request, singlePutBytesMax);
  await checkPart(context, upload, { number, sizeBytes });
  const place = { upload: { id: upload.id, part: number } };
  let checksum: ReceivedChecksum | null = null;
  const { md5 } = await receiveObject(context, {
    bodyBytesMax: singlePutBytesMax,
    fallback: attributes.checksum?.algorithm ?? null,
    open: (options) => openSink(context, { ...options, ...place }),
    describe: (_digests, received) => {
      checksum = received;
      return null;
    },
    commit: (written) => {
      // A checksum of another algorithm was compared and served its purpose.
      const value = attributes.checksum ? (checksum?.value ?? null) : null;
      return commitPart(context, written, { number, uploadId: upload.id, checksum: value });
    },
  });
  const headers: Record<string, string> = { etag: quoted(md5.toString('hex')) };
  // What a callback has set, the compiler does not see.
  const sent = checksum as ReceivedChecksum | null;
  if (sent) headers[checksumHeader(sent.algorithm)] = sent.value;
  return emptyReply(200, headers);
}

/** Makes what was written a part of an open upload. Throws `Refusal`. */
export async function commitPart(
  context: Context,
  written: WrittenObject,
  { number, uploadId, checksum }: { number: number; uploadId: string; checksum: string | null },
): Promise<{ timeMs: number }> {
  const etag = written.md5.toString('hex');
  const { sizeBytes } = written;
  const { rooms, bucket } = context;
  const place = { tenant: bucket.tenant, uploadId };
  return context.commit(
    {
      kind: 'putPart',
      ...place,
      part: sealPart(rooms.keyring, place, {
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

function checkAlgorithm(context: Context, attributes: UploadAttributes): void {
  const claimed = claimedChecksum(context.request);
  const expected = attributes.checksum?.algorithm;
  if (!claimed || !expected || claimed.algorithm === expected) return;
  const message = `Checksum Type mismatch occurred, expected checksum Type: ${expected.toLowerCase()}, actual checksum Type: ${claimed.algorithm.toLowerCase()}`;
  throw new Refusal('InvalidRequest', { message });
}
