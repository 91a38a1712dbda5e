// ListObjects and ListObjectsV2: one listing, two dialects of paging.
import { verifyListed } from '../../../catalog/authentic.ts';
import {
  type ListedObject,
  type Listing,
  type Position,
  listObjects as readObjects,
} from '../../../catalog/listing.ts';
import type { Attributes } from '../../../catalog/versions.ts';
import { s3Time } from '../../../core/clock.ts';
import { principalId } from '../../../core/principal.ts';
import { largeXmlReply, quoted, type Reply } from '../../http/reply.ts';
import type { XmlElements } from '../../http/xml.ts';
import {
  commonPrefixes,
  decodeToken,
  encodeToken,
  type ListingParameters,
  listingParameters,
  markerPosition,
  ownerElement,
} from '../buckets/listing-xml.ts';
import type { Operation } from '../operation.ts';
import { parameter } from '../request.ts';
import type { Reserved } from '../stages.ts';

const common = {
  action: 's3:ListBucket',
  resource: 'listing',
  price: 'put',
} as const;

export const listObjects: Operation<'listing'> = { name: 'ListObjects', ...common, run: runV1 };
export const listObjectsV2: Operation<'listing'> = { name: 'ListObjectsV2', ...common, run: runV2 };

async function runV1(context: Reserved<'listing'>): Promise<Reply> {
  const asked = listingParameters(context.request, 'max-keys');
  const marker = parameter(context.request, 'marker') ?? '';
  const listing = await list(context, asked, markerPosition(marker, asked), true);
  const { encode } = asked;
  return largeXmlReply('ListBucketResult', {
    Name: context.askedName,
    // As on S3, this version alone gives the prefix as it is: its clients do not decode it.
    Prefix: asked.prefix,
    Marker: encode(marker),
    NextMarker: listing.next && asked.delimiter !== '' ? encode(listing.next.text) : undefined,
    MaxKeys: asked.max,
    Delimiter: asked.delimiter === '' ? undefined : encode(asked.delimiter),
    EncodingType: asked.encodingType,
    IsTruncated: listing.next !== null,
    Contents: listing.entries,
    CommonPrefixes: commonPrefixes(listing.prefixes, encode),
  });
}

async function runV2(context: Reserved<'listing'>): Promise<Reply> {
  const { request } = context;
  const asked = listingParameters(request, 'max-keys');
  const token = parameter(request, 'continuation-token');
  const startAfter = parameter(request, 'start-after');
  const position =
    token === undefined ? markerPosition(startAfter ?? '', asked) : decodeToken(token);
  const withOwner = parameter(request, 'fetch-owner') === 'true';
  const listing = await list(context, asked, position, withOwner);
  const { encode } = asked;
  return largeXmlReply('ListBucketResult', {
    Name: context.askedName,
    Prefix: encode(asked.prefix),
    StartAfter: startAfter === undefined ? undefined : encode(startAfter),
    ContinuationToken: token,
    NextContinuationToken: listing.next ? encodeToken(listing.next) : undefined,
    KeyCount: listing.entries.length + listing.prefixes.length,
    MaxKeys: asked.max,
    Delimiter: asked.delimiter === '' ? undefined : encode(asked.delimiter),
    EncodingType: asked.encodingType,
    IsTruncated: listing.next !== null,
    Contents: listing.entries,
    CommonPrefixes: commonPrefixes(listing.prefixes, encode),
  });
}

function list(
  context: Reserved<'listing'>,
  asked: ListingParameters,
  after: Position | null,
  withOwner: boolean,
): Promise<Listing<XmlElements>> {
  const { prefix, delimiter, max } = asked;
  const { bucket, services } = context;
  const query = { bucketId: bucket.id, prefix, delimiter, max, after };
  return readObjects(services.read, query, (entry) => {
    verifyListed(services.keyring, bucket, entry);
    return contents(context, entry, asked, withOwner);
  });
}

function contents(
  context: Reserved<'listing'>,
  entry: ListedObject,
  { encode }: ListingParameters,
  withOwner: boolean,
): XmlElements {
  const { checksum } = JSON.parse(entry.attributes) as Attributes;
  return {
    Key: encode(entry.key),
    LastModified: s3Time(entry.createdMs),
    ETag: quoted(entry.etag),
    ChecksumAlgorithm: checksum?.algorithm,
    ChecksumType: checksum?.type,
    Size: entry.sizeBytes,
    Owner: withOwner ? ownerElement(principalId(context.bucket.tenant, entry.owner)) : undefined,
    StorageClass: entry.class,
  };
}
