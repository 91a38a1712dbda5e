// ListObjectVersions: every version and delete marker, by key and from the newest down.
import { verifyListed } from '../../../catalog/authentic.ts';
import {
  type ListedVersion,
  listVersions,
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
  type ListingParameters,
  listingParameters,
  ownerElement,
} from '../buckets/listing-xml.ts';
import type { Operation } from '../operation.ts';
import { parameter, type S3Request } from '../request.ts';
import type { Reserved } from '../stages.ts';

export const listObjectVersions: Operation<'listing'> = {
  name: 'ListObjectVersions',
  action: 's3:ListBucketVersions',
  resource: 'listing',
  price: 'put',
  run,
};

async function run(context: Reserved<'listing'>): Promise<Reply> {
  const { request, bucket, services } = context;
  const asked = listingParameters(request, 'max-keys');
  const { prefix, delimiter, max, encode, encodingType } = asked;
  const after = readPosition(request);
  const query = { bucketId: bucket.id, prefix, delimiter, max, after };
  const { entries, prefixes, next } = await listVersions(services.read, query, (entry) => {
    verifyListed(services.keyring, bucket, entry);
    return describe(context, entry, asked);
  });
  return largeXmlReply('ListVersionsResult', [
    {
      Name: context.askedName,
      Prefix: encode(prefix),
      KeyMarker: encode(after?.key ?? ''),
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
}

/** Throws `Refusal` InvalidArgument. */
function readPosition(request: S3Request): VersionPosition | null {
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
  return key === '' ? null : { key, versionId };
}

function describe(
  { bucket }: Reserved<'listing'>,
  entry: ListedVersion,
  { encode }: ListingParameters,
): XmlElements {
  const { checksum } = JSON.parse(entry.attributes) as Attributes;
  const place = {
    Key: encode(entry.key),
    VersionId: idOf(entry),
    IsLatest: entry.isLatest === 1,
    LastModified: s3Time(entry.createdMs),
  };
  const Owner = ownerElement(principalId(bucket.tenant, entry.owner));
  if (entry.isMarker) return { DeleteMarker: { ...place, Owner } };
  return {
    Version: {
      ...place,
      ETag: quoted(entry.etag),
      ChecksumAlgorithm: checksum?.algorithm,
      ChecksumType: checksum?.type,
      Size: entry.sizeBytes,
      StorageClass: entry.class,
      Owner,
    },
  };
}
