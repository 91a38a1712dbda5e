// Multipart uploads, but for their parts (upload-part.ts) and their end
// (complete-multipart-upload.ts).

import { listUploads } from '../../../catalog/listing.ts';
import { findUploadKey, listParts as readParts } from '../../../catalog/uploads.ts';
import { s3Time } from '../../../core/clock.ts';
import { invalidArgument } from '../../../core/errors.ts';
import { newUploadId } from '../../../core/ids.ts';
import { listKeysMax } from '../../../core/limits.ts';
import { Pace } from '../../../core/pace.ts';
import { principalId } from '../../../core/principal.ts';
import { emptyReply, largeXmlReply, quoted, xmlReply } from '../../http/reply.ts';
import { mayNameAcl, readWrittenAcl } from '../buckets/acl.ts';
import {
  commonPrefixes,
  initiatorElement,
  listingParameters,
  markerPosition,
  ownerElement,
  parseCount,
  uploadIdOf,
} from '../buckets/listing-xml.ts';
import { checksumElement } from '../objects/checksum-headers.ts';
import { createCustomer, customerHeaders } from '../objects/customer-key.ts';
import { plannedHeaders, readEncryption } from '../objects/encryption.ts';
import { abortHeaders } from '../objects/lifecycle-headers.ts';
import { readAttributes, readTags } from '../objects/object-attributes.ts';
import { readLock } from '../objects/object-lock.ts';
import {
  admitInitiator,
  findOpenUpload,
  readUploadChecksum,
  type UploadAttributes,
} from '../objects/upload-attributes.ts';
import { checkLock, checkRecipe, readClass, shownClass } from '../objects/written-class.ts';
import type { Operation } from '../operation.ts';
import { parameter } from '../request.ts';
import type { Reserved } from '../stages.ts';

export const createMultipartUpload: Operation<'object'> = {
  name: 'CreateMultipartUpload',
  action: 's3:PutObject',
  resource: 'object',
  price: 'put',
  tags: readTags,
  async run(context) {
    const { request, bucket, key, services } = context;
    const checksum = readUploadChecksum(request);
    const attributes: UploadAttributes = { object: readAttributes(request), checksum };
    if (context.tags.length > 0) attributes.object.tags = context.tags;
    if (mayNameAcl(context)) Object.assign(attributes.object, await readWrittenAcl(context));
    Object.assign(attributes.object, await readLock(context));
    const customer = await createCustomer(context);
    if (customer) attributes.object.customer = customer.seal;
    else Object.assign(attributes.object, await readEncryption(context));
    const storageClass = readClass(context);
    checkLock(services, bucket, storageClass, attributes.object);
    checkRecipe(services, bucket, storageClass, attributes.object);
    context.asked.checkWritten({ storageClass, sizeBytes: 0 });
    const id = newUploadId();
    const { timeMs: createdMs } = await context.commit(
      {
        kind: 'createUpload',
        id,
        bucketId: bucket.id,
        key,
        initiator: context.requester,
        class: storageClass,
        attributes: JSON.stringify(attributes),
        epoch: services.keyring.currentEpoch,
      },
      { target: `uploads/${id}` },
    );
    const reply = xmlReply('InitiateMultipartUploadResult', {
      Bucket: context.askedName,
      Key: key,
      UploadId: id,
    });
    Object.assign(reply.headers, await abortHeaders(context, { key, createdMs }));
    Object.assign(
      reply.headers,
      customer ? customerHeaders(customer) : plannedHeaders(attributes.object, services),
    );
    if (checksum) {
      reply.headers['x-amz-checksum-algorithm'] = checksum.algorithm;
      reply.headers['x-amz-checksum-type'] = checksum.type;
    }
    return reply;
  },
};

/** The parts are let go of in one commit. */
export const abortMultipartUpload: Operation<'object'> = {
  name: 'AbortMultipartUpload',
  action: 's3:AbortMultipartUpload',
  resource: 'object',
  price: 'free',
  admit: admitInitiator,
  async run(context) {
    const { bucket, key, request } = context;
    // Of others a token that lets its bearer only create must not abort any.
    if (context.asked.mustCreate()) await findOpenUpload(context);
    const uploadId = uploadIdOf(request);
    const place = { tenant: bucket.tenant, bucketId: bucket.id, key, uploadId };
    const target = `uploads/${uploadId}`;
    await context.commit({ kind: 'abortUpload', ...place }, { status: 204, target });
    return emptyReply(204);
  },
};

export const listParts: Operation<'object'> = {
  name: 'ListParts',
  action: 's3:ListMultipartUploadParts',
  resource: 'object',
  price: 'get',
  admit: admitInitiator,
  async run(context) {
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
      NextPartNumberMarker: last?.number ?? 0,
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
      Initiator: initiatorElement(upload.initiator),
      Owner: ownerElement(principalId(bucket.tenant, bucket.owner)),
      StorageClass: shownClass(services, bucket.tenant, upload.class),
      ChecksumAlgorithm: algorithm,
      ChecksumType: attributes.checksum?.type,
    });
    Object.assign(reply.headers, await abortHeaders(context, upload));
    return reply;
  },
};

/** The unfinished ones, by key and then as they began, which their ids say. */
export const listMultipartUploads: Operation<'listing'> = {
  name: 'ListMultipartUploads',
  action: 's3:ListBucketMultipartUploads',
  resource: 'listing',
  price: 'put',
  async run(context) {
    const { request, bucket, services } = context;
    const { prefix, delimiter, max, encode, encodingType } = listingParameters(
      request,
      'max-uploads',
    );
    const keyMarker = parameter(request, 'key-marker') ?? '';
    // Without a key marker the id marker means nothing.
    const idMarker = keyMarker === '' ? '' : (parameter(request, 'upload-id-marker') ?? '');
    const owner = ownerElement(principalId(bucket.tenant, bucket.owner));
    let lastKey: string | undefined;
    const query = {
      bucketId: bucket.id,
      prefix,
      delimiter,
      max,
      after: markerPosition(keyMarker, { prefix, delimiter }),
      afterId: idMarker === '' ? null : idMarker,
    };
    if (idMarker !== '') await checkMarker(context, keyMarker, idMarker);
    const listing = await listUploads(services.read, query, (upload) => {
      const { checksum } = JSON.parse(upload.attributes) as UploadAttributes;
      lastKey = upload.key;
      return {
        Key: encode(upload.key),
        UploadId: upload.id,
        Initiator: initiatorElement(upload.initiator),
        Owner: owner,
        StorageClass: shownClass(services, bucket.tenant, upload.class),
        Initiated: s3Time(upload.createdMs),
        ChecksumAlgorithm: checksum?.algorithm,
        ChecksumType: checksum?.type,
      };
    });
    const { next, entries } = listing;
    const last = entries.at(-1);
    // As on S3 there are markers whether there is more or not; and behind a folded prefix, where S3
    // has none and nobody could go on, the prefix.
    const nextMarker = next ? next.text : (lastKey ?? '');
    return largeXmlReply('ListMultipartUploadsResult', {
      Bucket: context.askedName,
      KeyMarker: encode(keyMarker),
      UploadIdMarker: idMarker,
      NextKeyMarker: encode(nextMarker),
      NextUploadIdMarker: next?.kind === 'prefix' ? '' : (last?.UploadId ?? ''),
      Prefix: prefix === '' ? undefined : encode(prefix),
      Delimiter: delimiter === '' ? undefined : encode(delimiter),
      EncodingType: encodingType,
      MaxUploads: max,
      IsTruncated: next !== null,
      Upload: entries,
      CommonPrefixes: commonPrefixes(listing.prefixes, encode),
    });
  },
};

/** Throws `Refusal` InvalidArgument for the id of another key's upload. */
async function checkMarker(
  { services, bucket }: Reserved<'listing'>,
  key: string,
  id: string,
): Promise<void> {
  const marked = await findUploadKey(services.read, bucket.id, id);
  if (marked === undefined || marked === key) return;
  throw invalidArgument('upload-id-marker', id, 'Invalid uploadId marker');
}
