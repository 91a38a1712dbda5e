// UploadPartCopy: the part shares the source's extents. Its ETag is the MD5 of its bytes, as for
// any part, so they are read and verified once, but not stored again.
import { sealPart } from '../../catalog/authentic.ts';
import { s3Time } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { singlePutBytesMax } from '../../core/limits.ts';
import { decodeManifest, encodeManifest, joinRuns, sliceRuns } from '../../core/manifest.ts';
import { checksumElement } from '../checksum-headers.ts';
import type { Context, Reply } from '../context.ts';
import { digestRuns, findCopySource } from '../copy-source.ts';
import type { Operation } from '../operation.ts';
import { parseCopyRange } from '../range.ts';
import { quoted, xmlReply } from '../replies.ts';
import { header } from '../request.ts';
import { checkRunCount, findOpenUpload, partNumberOf } from '../upload-attributes.ts';

export const uploadPartCopy: Operation = {
  name: 'UploadPartCopy',
  action: 's3:PutObject',
  resource: 'object',
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  const { request, bucket, rooms } = context;
  const number = partNumberOf(request);
  const { upload, attributes } = await findOpenUpload(context);
  const { version } = await findCopySource(context);
  const rangeText = header(request, 'x-amz-copy-source-range');
  const range = parseCopyRange(rangeText, version.sizeBytes) ?? {
    start: 0,
    end: version.sizeBytes,
  };
  const sizeBytes = range.end - range.start;
  if (sizeBytes > singlePutBytesMax) {
    const message = `The specified copy source is larger than the maximum allowable size for a copy source: ${singlePutBytesMax}`;
    throw new Refusal('InvalidRequest', { message });
  }
  const runs = joinRuns(sliceRuns(decodeManifest(version.manifest), range.start, range.end));
  checkRunCount(runs.length, sizeBytes);
  const algorithm = attributes.checksum?.algorithm ?? null;
  const { md5: etag, checksum } = await digestRuns(context, runs, algorithm);
  const manifest = encodeManifest(runs);
  const place = { tenant: bucket.tenant, uploadId: upload.id };
  const { timeMs } = await context.commit(
    {
      kind: 'putPart',
      ...place,
      part: sealPart(rooms.keyring, place, { number, sizeBytes, etag, checksum, manifest }),
      extentIds: [],
      inline: null,
      source: { bucketId: version.bucketId, key: version.key, seq: version.seq },
    },
    { sizeBytes, etag },
  );
  return xmlReply('CopyPartResult', {
    LastModified: s3Time(timeMs),
    ETag: quoted(etag),
    ...(algorithm && checksum ? { [checksumElement(algorithm)]: checksum } : {}),
  });
}
