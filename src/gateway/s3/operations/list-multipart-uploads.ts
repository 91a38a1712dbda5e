// ListMultipartUploads: unfinished ones, by key and then by id.
import { listUploads } from '../../../catalog/listing.ts';
import { s3Time } from '../../../core/clock.ts';
import { principalId } from '../../../core/principal.ts';
import { largeXmlReply, type Reply } from '../../http/reply.ts';
import {
  commonPrefixes,
  listingParameters,
  markerPosition,
  ownerElement,
} from '../buckets/listing-xml.ts';
import type { UploadAttributes } from '../objects/upload-attributes.ts';
import type { Operation } from '../operation.ts';
import { parameter } from '../request.ts';
import type { Reserved } from '../stages.ts';

export const listMultipartUploads: Operation<'listing'> = {
  name: 'ListMultipartUploads',
  action: 's3:ListBucketMultipartUploads',
  resource: 'listing',
  price: 'put',
  run,
};

async function run(context: Reserved<'listing'>): Promise<Reply> {
  const { request, bucket, services } = context;
  const { prefix, delimiter, max, encode, encodingType } = listingParameters(
    request,
    'max-uploads',
  );
  const keyMarker = parameter(request, 'key-marker') ?? '';
  // Without a key marker the id marker means nothing.
  const idMarker = keyMarker === '' ? '' : (parameter(request, 'upload-id-marker') ?? '');
  const owner = ownerElement(principalId(bucket.tenant, bucket.owner));
  const query = {
    bucketId: bucket.id,
    prefix,
    delimiter,
    max,
    after: markerPosition(keyMarker, { prefix, delimiter }),
    afterId: idMarker === '' ? null : idMarker,
  };
  const listing = await listUploads(services.read, query, (upload) => {
    const { checksum } = JSON.parse(upload.attributes) as UploadAttributes;
    return {
      Key: encode(upload.key),
      UploadId: upload.id,
      Initiator: ownerElement(upload.initiator),
      Owner: owner,
      StorageClass: upload.class,
      Initiated: s3Time(upload.createdMs),
      ChecksumAlgorithm: checksum?.algorithm,
      ChecksumType: checksum?.type,
    };
  });
  const { next } = listing;
  return largeXmlReply('ListMultipartUploadsResult', {
    Bucket: context.askedName,
    KeyMarker: encode(keyMarker),
    UploadIdMarker: idMarker,
    NextKeyMarker: next ? encode(next.text) : undefined,
    NextUploadIdMarker: next?.kind === 'key' ? listing.entries.at(-1)?.UploadId : undefined,
    Prefix: encode(prefix),
    Delimiter: delimiter === '' ? undefined : encode(delimiter),
    EncodingType: encodingType,
    MaxUploads: max,
    IsTruncated: next !== null,
    Upload: listing.entries,
    CommonPrefixes: commonPrefixes(listing.prefixes, encode),
  });
}
