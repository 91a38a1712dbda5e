// The parts of a multipart upload, sent or copied.
import { sealPart } from '../../../catalog/authentic.ts';
import { s3Time } from '../../../core/clock.ts';
import type { Transform } from '../../../core/customer-key.ts';
import { Refusal } from '../../../core/errors.ts';
import { singlePutBytesMax } from '../../../core/limits.ts';
import { type ExtentRun, encodeManifest, joinRuns, readManifest } from '../../../core/manifest.ts';
import { type ChecksumAlgorithm, defaultChecksum } from '../../../tiering/checksums.ts';
import type { WrittenObject } from '../../../tiering/object-writer.ts';
import { emptyReply, quoted, type Reply, xmlReply } from '../../http/reply.ts';
import { receiveObject } from '../body.ts';
import {
  type CopySource,
  checkCopyBytes,
  checkSourceRestored,
  commitShared,
  copyFrom,
  decryptSource,
  digestRuns,
  mayShare,
  openSource,
  recordRead,
  reserveCopy,
  sourceHeaders,
} from '../copy-source.ts';
import { checksumElement, checksumHeader, claimedChecksum } from '../objects/checksum-headers.ts';
import {
  customerHeaders,
  type KnownCustomer,
  openUploadCustomer,
  writeWith,
} from '../objects/customer-key.ts';
import {
  demandsEncryption,
  encryptionHeaders,
  fitsWanted,
  plannedHeaders,
} from '../objects/encryption.ts';
import { moveData } from '../objects/move-data.ts';
import { storedIds } from '../objects/object-upload.ts';
import {
  checkPart,
  checkRunCount,
  findOpenUpload,
  type OpenUpload,
  partNumberOf,
  type UploadAttributes,
} from '../objects/upload-attributes.ts';
import { reserveForWriter } from '../objects/writer-budget.ts';
import { storeOfClass } from '../objects/written-class.ts';
import type { Operation } from '../operation.ts';
import { parseCopyRange } from '../range.ts';
import type { Reserved } from '../stages.ts';

/** A PUT whose extents wait in a part for the upload's completion. */
export const uploadPart: Operation<'object'> = {
  name: 'UploadPart',
  action: 's3:PutObject',
  resource: 'object',
  price: 'put',
  stores: 'part',
  bodyBytesMax: singlePutBytesMax,
  run,
};

async function run(context: Reserved<'object'>): Promise<Reply> {
  const number = partNumberOf(context.request);
  const { upload, attributes } = await findOpenUpload(context);
  const { request, bucket, services } = context;
  const known = openUploadCustomer(request, attributes.object, bucket, services);
  checkAlgorithm(context, attributes);
  const sizeBytes = context.bodyBytes;
  await checkPart(context, upload, { number, sizeBytes });
  context.writeTo(storeOfClass(context.services, context.bucket, upload.class), upload.class);
  await reserveForWriter(context, upload.initiator, { storedBytes: sizeBytes, storedObjects: 0 });
  const algorithm = partAlgorithm(attributes);
  const received = await receiveObject(
    context,
    { algorithm, isWanted: true },
    {
      upload: { id: upload.id, part: number },
      storageClass: upload.class,
      ...(known && { customer: writeWith(known) }),
    },
  );
  const { sink, digests, checksums } = received;
  const written = await sink.seal(digests, null);
  // A checksum of another algorithm was compared and served its purpose.
  const kept = checksums.find((one) => one.algorithm === algorithm)?.value ?? null;
  await commitPart(context, written, { number, uploadId: upload.id, checksum: kept });
  const headers: Record<string, string> = {
    etag: quoted(digests.md5.toString('hex')),
    ...(known ? customerHeaders(known) : plannedHeaders(attributes.object, services)),
  };
  // Of what nobody asked for, only the whole object's is shown, as on AWS.
  const isAsked = attributes.checksum || claimedChecksum(context.request);
  const [shown] = checksums;
  if (isAsked && shown) headers[checksumHeader(shown.algorithm)] = shown.value;
  return emptyReply(200, headers);
}

/** The algorithm of the checksum that is kept of each part. */
function partAlgorithm({ checksum }: UploadAttributes): ChecksumAlgorithm {
  return checksum?.algorithm ?? defaultChecksum;
}

/** Makes what was written a part of an open upload. Throws `Refusal`. */
async function commitPart(
  context: Reserved<'object'>,
  written: WrittenObject,
  { number, uploadId, checksum }: { number: number; uploadId: string; checksum: string | null },
): Promise<{ timeMs: number }> {
  const etag = written.md5.toString('hex');
  const { sizeBytes } = written;
  const { services, bucket } = context;
  const place = { tenant: bucket.tenant, uploadId };
  return context.commit(
    {
      kind: 'putPart',
      ...place,
      part: sealPart(services.keyring, place, {
        number,
        sizeBytes,
        etag,
        checksum,
        manifest: encodeManifest(written.runs),
      }),
      extentIds: storedIds(written.runs),
      inline: written.inline,
      places: written.places,
      source: null,
    },
    { sizeBytes, etag, sha256: written.sent ? undefined : written.sha256.toString('hex') },
  );
}

function checkAlgorithm(context: Reserved<'object'>, attributes: UploadAttributes): void {
  const claimed = claimedChecksum(context.request);
  const expected = attributes.checksum?.algorithm;
  if (!claimed || !expected || claimed.algorithm === expected) return;
  const message =
    `Checksum Type mismatch occurred, expected checksum Type: ${expected.toLowerCase()}, ` +
    `actual checksum Type: ${claimed.algorithm.toLowerCase()}`;
  throw new Refusal('InvalidRequest', { message });
}

/**
 * Within a store, the part shares the source's extents. Its ETag is the MD5 of its bytes, as for
 * any part, so they are read and verified once, but not stored again. Into another store, or from
 * another tenant, they are copied.
 */
export const uploadPartCopy: Operation<'copy'> = {
  name: 'UploadPartCopy',
  action: 's3:PutObject',
  resource: 'copy',
  price: 'put',
  run: copyPart,
};

/** The part as it is to be. */
interface Wanted {
  number: number;
  uploadId: string;
  runs: ExtentRun[];
  sizeBytes: number;
  algorithm: ChecksumAlgorithm;
  /** Of the upload. */
  storageClass: string;
  /** Of the upload, too. */
  customer: KnownCustomer | null;
  /** Of the source, where a customer's key encrypts it. */
  decrypt?: Transform;
}

interface Copied {
  etag: string;
  checksum: string | null;
  timeMs: number;
  manifest: Uint8Array;
}

async function copyPart(context: Reserved<'copy'>): Promise<Reply> {
  const number = partNumberOf(context.request);
  const { upload, attributes } = await findOpenUpload(context);
  const algorithm = partAlgorithm(attributes);
  const { request, bucket, services } = context;
  const customer = openUploadCustomer(request, attributes.object, bucket, services);
  const { source, copied } = await copyFrom(context, { keepsTags: false }, (source) =>
    copy(context, source, { number, upload, attributes, algorithm, customer }),
  );
  const { etag, checksum, timeMs, manifest } = copied;
  const reply = xmlReply('CopyPartResult', {
    LastModified: s3Time(timeMs),
    ETag: quoted(etag),
    ...(attributes.checksum && checksum ? { [checksumElement(algorithm)]: checksum } : {}),
  });
  Object.assign(
    reply.headers,
    sourceHeaders(source),
    customer
      ? customerHeaders(customer)
      : encryptionHeaders(manifest, attributes.object, context.services),
  );
  return reply;
}

/** null: the source is not there any more. */
async function copy(
  context: Reserved<'copy'>,
  source: CopySource,
  {
    number,
    upload,
    attributes,
    algorithm,
    customer,
  }: Pick<Wanted, 'number' | 'algorithm' | 'customer'> & OpenUpload,
): Promise<Copied | null> {
  const { version } = source;
  const sourceCustomer = openSource(context, source);
  await checkSourceRestored(context, source);
  const rangeText = context.request.headers['x-amz-copy-source-range'];
  const range = parseCopyRange(rangeText, version.sizeBytes) ?? {
    start: 0,
    end: version.sizeBytes,
  };
  const sizeBytes = range.end - range.start;
  checkCopyBytes(sizeBytes);
  await checkPart(context, upload, { number, sizeBytes });
  const { id: uploadId, class: storageClass } = upload;
  context.writeTo(storeOfClass(context.services, context.bucket, storageClass), storageClass);
  await reserveCopy(context, source, { sizeBytes, storedObjects: 0 });
  await reserveForWriter(context, upload.initiator, { storedBytes: sizeBytes, storedObjects: 0 });
  const runs = joinRuns(readManifest(version.manifest, range.start, range.end).runs);
  const wanted: Wanted = { number, uploadId, runs, sizeBytes, algorithm, storageClass, customer };
  if (sourceCustomer) wanted.decrypt = decryptSource(source, sourceCustomer, range.start);
  const manifest = encodeManifest(runs);
  const part = { manifest, attributes: version.attributes };
  const isShared =
    !customer &&
    !sourceCustomer &&
    mayShare(context, source, upload.class) &&
    (fitsWanted(part, attributes.object) || !(await mustEncrypt(context, attributes)));
  return (isShared ? share : move)(context, wanted, source);
}

/** Whether the object is to be encrypted that the part becomes, whatever it is copied from. */
async function mustEncrypt(
  context: Reserved<'copy'>,
  { object }: UploadAttributes,
): Promise<boolean> {
  return object.encryption !== undefined || (await demandsEncryption(context));
}

/** As a part that shares the source's extents; null: they are gone. */
async function share(
  context: Reserved<'copy'>,
  wanted: Wanted,
  source: CopySource,
): Promise<Copied | null> {
  const { version } = source;
  const { number, uploadId, runs, sizeBytes, algorithm } = wanted;
  checkRunCount(runs.length, sizeBytes);
  const { md5: etag, checksum } = await digestRuns(context, source, runs, algorithm);
  const place = { tenant: context.bucket.tenant, uploadId };
  const manifest = encodeManifest(runs);
  const committed = await commitShared(
    context,
    {
      kind: 'putPart',
      ...place,
      part: sealPart(context.services.keyring, place, {
        number,
        sizeBytes,
        etag,
        checksum,
        manifest,
      }),
      extentIds: [],
      inline: null,
      source: { bucketId: version.bucketId, key: version.key, seq: version.seq },
    },
    { sizeBytes, etag },
  );
  return committed && { etag, checksum, timeMs: committed.timeMs, manifest };
}

async function move(
  context: Reserved<'copy'>,
  wanted: Wanted,
  source: CopySource,
): Promise<Copied> {
  const { number, uploadId, runs, sizeBytes, algorithm, storageClass, customer, decrypt } = wanted;
  const upload = { id: uploadId, part: number };
  await recordRead(context, source);
  const { sink, digests } = await moveData(context, {
    of: source,
    runs,
    sizeBytes,
    checksums: [algorithm],
    upload,
    storageClass,
    ...(customer && { customer: writeWith(customer) }),
    ...(decrypt && { decrypt }),
  });
  const written = await sink.seal(digests, null);
  const checksum = digests.checksums[0]?.toString('base64') ?? null;
  const { timeMs } = await commitPart(context, written, { number, uploadId, checksum });
  const manifest = encodeManifest(written.runs);
  return { etag: digests.md5.toString('hex'), checksum, timeMs, manifest };
}
