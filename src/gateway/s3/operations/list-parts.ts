// ListParts.
import { listParts as readParts } from '../../../catalog/uploads.ts';
import { s3Time } from '../../../core/clock.ts';
import { listKeysMax } from '../../../core/limits.ts';
import { Pace } from '../../../core/pace.ts';
import { principalId } from '../../../core/principal.ts';
import { largeXmlReply, quoted, type Reply } from '../../http/reply.ts';
import { listingParameters, ownerElement, parseCount } from '../buckets/listing-xml.ts';
import { checksumElement } from '../objects/checksum-headers.ts';
import { abortHeaders } from '../objects/lifecycle-headers.ts';
import { admitInitiator, findOpenUpload } from '../objects/upload-attributes.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const listParts: Operation<'object'> = {
  name: 'ListParts',
  action: 's3:ListMultipartUploadParts',
  resource: 'object',
  price: 'get',
  admit: admitInitiator,
  run,
};

async function run(context: Reserved<'object'>): Promise<Reply> {
  const { request, services, bucket, key } = context;
  const { upload } = await findOpenUpload(context);
  const { encode } = listingParameters(request, 'max-parts');
  const max = Math.min(parseCount(request, 'max-parts', listKeysMax), listKeysMax);
  const marker = parseCount(request, 'part-number-marker', 0);
  const place = { tenant: bucket.tenant, uploadId: upload.id };
  const found = await readParts(services, place, marker, max + 1);
  await new Pace().rest();
  // Still: what was read in slices are not the parts that a completion has left.
  const { attributes } = await findOpenUpload(context);
  const parts = found.slice(0, max);
  const last = parts.at(-1);
  const algorithm = attributes.checksum?.algorithm;
  const reply = await largeXmlReply('ListPartsResult', {
    Bucket: context.askedName,
    Key: encode(key),
    UploadId: upload.id,
    PartNumberMarker: marker,
    NextPartNumberMarker: last?.number ?? marker,
    MaxParts: max,
    // A page of nothing has none after it, or pages would never end.
    IsTruncated: max > 0 && found.length > max,
    Part: parts.map((part) => ({
      PartNumber: part.number,
      LastModified: s3Time(part.modifiedMs),
      ETag: quoted(part.etag),
      Size: part.sizeBytes,
      ...(algorithm && part.checksum ? { [checksumElement(algorithm)]: part.checksum } : {}),
    })),
    Initiator: ownerElement(upload.initiator),
    Owner: ownerElement(principalId(bucket.tenant, bucket.owner)),
    StorageClass: upload.class,
    ChecksumAlgorithm: algorithm,
    ChecksumType: attributes.checksum?.type,
  });
  Object.assign(reply.headers, await abortHeaders(context, upload));
  return reply;
}
