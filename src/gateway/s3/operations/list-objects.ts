// ListObjects and ListObjectsV2: one listing, two dialects of paging; and ListObjectVersions.
import { verifyListed } from '../../../catalog/authentic.ts';
import type { Bucket } from '../../../catalog/buckets.ts';
import {
  type ListedObject,
  type ListedVersion,
  type Listing,
  listVersions,
  type Position,
  listObjects as readObjects,
  type VersionPosition,
} from '../../../catalog/listing.ts';
import type { Attributes } from '../../../catalog/versions.ts';
import { s3Time } from '../../../core/clock.ts';
import { invalidArgument } from '../../../core/errors.ts';
import { principalId } from '../../../core/principal.ts';
import { largeXmlReply, quoted, type Reply } from '../../http/reply.ts';
import type { XmlElements } from '../../http/xml.ts';
import { checkVersionId, idOf } from '../asked-version.ts';
import {
  commonPrefixes,
  decodeToken,
  encodeToken,
  type ListingParameters,
  listingParameters,
  markerPosition,
  ownerElement,
  startPosition,
} from '../buckets/listing-xml.ts';
import { ListedRestores } from '../objects/listed-restores.ts';
import { shownClass } from '../objects/written-class.ts';
import type { Operation } from '../operation.ts';
import { listShown } from '../query-mount.ts';
import { parameter, type S3Request } from '../request.ts';
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
  // As on S3, who is nobody is not told whose objects these are.
  const withOwner = !context.who.isAnonymous;
  const listing = await list(context, asked, markerPosition(marker, asked), withOwner);
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
    token === undefined ? startPosition(startAfter ?? '', asked) : decodeToken(token);
  const withOwner = parameter(request, 'fetch-owner') === 'true';
  const listing = await list(context, asked, position, withOwner);
  const { encode } = asked;
  return largeXmlReply('ListBucketResult', {
    Name: context.askedName,
    Prefix: encode(asked.prefix),
    // As on S3, where a token counts the start does not.
    StartAfter: token === undefined && startAfter ? encode(startAfter) : undefined,
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

async function list(
  context: Reserved<'listing'>,
  asked: ListingParameters,
  after: Position | null,
  withOwner: boolean,
): Promise<Listing<XmlElements>> {
  const { prefix, delimiter, max } = asked;
  const { bucket, services } = context;
  const restores = new ListedRestores(context);
  const take = (entry: ListedObject) =>
    restores.note(entry, contents(context, entry, asked, withOwner));
  const query = { bucketId: bucket.id, prefix, delimiter, max, after, ...spanOf(context) };
  const listing = await (context.asked.where
    ? // What it gives was found authentic.
      listShown(context, asked, after, take)
    : readObjects(services.read, query, (entry) => {
        verifyListed(services.keyring, bucket, entry);
        return take(entry);
      }));
  await restores.tell();
  return listing;
}

/** Of a mount of a snapshot: as of when, and of which keys. */
function spanOf({ asked: { at } }: Reserved<'listing'>): { at?: number; within?: string } {
  return at ? { at: at.seq, within: at.prefix } : {};
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
    Owner: withOwner ? ownerOf(context.bucket) : undefined,
    StorageClass: shownClass(context.services, context.bucket.tenant, entry.class),
  };
}

/** Objects are the bucket's owner's, whoever it was when they were written (decision 90). */
function ownerOf({ tenant, owner }: Bucket): XmlElements {
  return ownerElement(principalId(tenant, owner));
}

/** Every version and delete marker, by key and from the newest down. */
export const listObjectVersions: Operation<'listing'> = {
  name: 'ListObjectVersions',
  action: 's3:ListBucketVersions',
  resource: 'listing',
  price: 'put',
  async run(context) {
    const { request, bucket, services } = context;
    const asked = listingParameters(request, 'max-keys');
    const { prefix, delimiter, max, encode, encodingType } = asked;
    const after = readPosition(request, asked);
    const query = { bucketId: bucket.id, prefix, delimiter, max, after, ...spanOf(context) };
    const restores = new ListedRestores(context);
    const { entries, prefixes, next } = await listVersions(services.read, query, (entry) => {
      verifyListed(services.keyring, bucket, entry);
      return describe(context, entry, asked, restores);
    });
    await restores.tell();
    return largeXmlReply('ListVersionsResult', [
      {
        Name: context.askedName,
        Prefix: encode(prefix),
        KeyMarker: encode(parameter(request, 'key-marker') ?? ''),
        VersionIdMarker: after?.versionId ?? '',
        NextKeyMarker: next ? encode(next.key) : undefined,
        NextVersionIdMarker: next?.versionId,
        MaxKeys: max,
        Delimiter: delimiter === '' ? undefined : encode(delimiter),
        EncodingType: encodingType,
        IsTruncated: next !== null,
      },
      ...entries,
      { CommonPrefixes: commonPrefixes(prefixes, encode) },
    ]);
  },
};

/** Throws `Refusal` InvalidArgument. */
function readPosition(request: S3Request, asked: ListingParameters): VersionPosition | null {
  const key = parameter(request, 'key-marker') ?? '';
  // Behind a folded prefix there is no version, and clients send an empty one back.
  const versionId = parameter(request, 'version-id-marker') || null;
  if (versionId !== null) {
    checkVersionId(versionId, 'version-id-marker');
    if (key === '') {
      const message = 'A version-id marker cannot be specified without a key marker.';
      throw invalidArgument('version-id-marker', versionId, message);
    }
  }
  const position = versionId === null ? markerPosition(key, asked) : null;
  return key === '' ? null : { key: position?.text ?? key, versionId };
}

function describe(
  { bucket, services }: Reserved<'listing'>,
  entry: ListedVersion,
  { encode }: ListingParameters,
  restores: ListedRestores,
): XmlElements {
  const { checksum } = JSON.parse(entry.attributes) as Attributes;
  const place = {
    Key: encode(entry.key),
    VersionId: idOf(entry),
    IsLatest: entry.isLatest === 1,
    LastModified: s3Time(entry.createdMs),
  };
  const Owner = ownerOf(bucket);
  if (entry.isMarker) return { DeleteMarker: { ...place, Owner } };
  return {
    Version: restores.note(entry, {
      ...place,
      ETag: quoted(entry.etag),
      ChecksumAlgorithm: checksum?.algorithm,
      ChecksumType: checksum?.type,
      Size: entry.sizeBytes,
      StorageClass: shownClass(services, bucket.tenant, entry.class),
      Owner,
    }),
  };
}
