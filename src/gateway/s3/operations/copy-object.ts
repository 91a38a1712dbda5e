// CopyObject: within a store, a row that shares the source's extents, whatever the size; into
// another store, or from another tenant, the bytes are copied.

import { sealObject } from '../../../catalog/authentic.ts';
import type { WriteConditions } from '../../../catalog/conditions.ts';
import type { Lock } from '../../../catalog/object-lock.ts';
import type { Attributes } from '../../../catalog/versions.ts';
import { s3Time } from '../../../core/clock.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { decodeManifest, encodeManifest } from '../../../core/manifest.ts';
import { type ChecksumAlgorithm, defaultChecksum } from '../../../tiering/checksums.ts';
import { quoted, type Reply, xmlReply } from '../../http/reply.ts';
import { idOf, madeHeaders } from '../asked-version.ts';
import { readWrittenAcl } from '../buckets/acl.ts';
import { decideConditions, noConditions } from '../conditional.ts';
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
import { checksumElement, parseAlgorithm } from '../objects/checksum-headers.ts';
import {
  createCustomer,
  customerHeaders,
  type KnownCustomer,
  sealOf,
  writeWith,
} from '../objects/customer-key.ts';
import {
  demandsEncryption,
  encryptionHeaders,
  fitsWanted,
  readEncryption,
} from '../objects/encryption.ts';
import { writtenExpiration } from '../objects/lifecycle-headers.ts';
import { moveData } from '../objects/move-data.ts';
import {
  copiedHeaders,
  noTags,
  readAttributes,
  readRedirect,
  readTags,
  replacesTags,
  withWriter,
} from '../objects/object-attributes.ts';
import { readLock } from '../objects/object-lock.ts';
import { isArchived } from '../objects/restored.ts';
import {
  checkLock,
  checkRecipe,
  classHeaders,
  readClass,
  standardClass,
  storeOfClass,
} from '../objects/written-class.ts';
import type { Operation } from '../operation.ts';
import { copiedFrom } from '../own-copy.ts';
import type { Committed } from '../reserved.ts';
import type { Reserved } from '../stages.ts';
import { checkEarly, commitObject, describeObject } from './put-object.ts';

export const copyObject: Operation<'copy'> = {
  name: 'CopyObject',
  action: 's3:PutObject',
  resource: 'copy',
  price: 'put',
  tags: (request) => (replacesTags(request) ? readTags(request) : noTags),
  run,
};

async function run(context: Reserved<'copy'>): Promise<Reply> {
  const acl = await readWrittenAcl(context);
  const lock = await readLock(context);
  const keepsTags = !replacesTags(context.request);
  const { source, copied } = await copyFrom(context, { keepsTags }, (source) =>
    copy(context, source, { lock, acl, keepsTags }),
  );
  const { checksum } = copied.attributes;
  const { timeMs, version } = copied.committed;
  const reply = xmlReply('CopyObjectResult', {
    LastModified: s3Time(timeMs),
    ETag: quoted(copied.etag),
    ChecksumType: checksum?.type,
    ...(checksum ? { [checksumElement(checksum.algorithm)]: checksum.value } : {}),
  });
  const { versioning } = context.bucket;
  const made = version && versioning !== 'Unversioned' ? idOf(version) : null;
  const { storageClass } = copied;
  if (storageClass !== standardClass) {
    Object.assign(
      reply.headers,
      classHeaders(context.services, context.bucket.tenant, storageClass),
    );
  }
  Object.assign(
    reply.headers,
    madeHeaders(made),
    sourceHeaders(source),
    copied.to
      ? customerHeaders(copied.to)
      : encryptionHeaders(copied.manifest, copied.attributes, context.services),
  );
  const rules = context.services.lifecycle.find(context.bucket.id);
  if (rules) {
    const { sizeBytes } = source.version;
    const { attributes } = copied;
    const made = { key: context.key, sizeBytes, createdMs: timeMs, attributes };
    Object.assign(reply.headers, await writtenExpiration(rules, made));
  }
  return reply;
}

/** null: the source is not there any more. */
async function copy(
  context: Reserved<'copy'>,
  source: CopySource,
  { lock, acl, keepsTags }: { lock: Lock; acl: Pick<Attributes, 'acl'>; keepsTags: boolean },
): Promise<Copied | null> {
  const storageClass = readClass(context);
  const conditions = (await decideConditions(context)) ?? noConditions;
  // As on AWS, a condition that fails is told before a copy onto itself that changes nothing.
  if (conditions !== noConditions) await checkEarly(context, conditions);
  const from = openSource(context, source);
  const to = await createCustomer(context);
  const encryption = to ? {} : await readEncryption(context);
  const demandsIt = to !== null || (await demandsEncryption(context));
  const wanted = readWanted(context, source, { keepsTags, isEncrypted: demandsIt });
  Object.assign(wanted.attributes, lock, acl, encryption);
  if (storageClass !== standardClass) {
    checkLock(context.services, context.bucket, storageClass, wanted.attributes);
    checkRecipe(context.services, context.bucket, storageClass, wanted.attributes);
    context.writeTo(storeOfClass(context.services, context.bucket, storageClass), storageClass);
  }
  // Bytes under a customer's key are always written anew, under the key of the copy alone.
  const isShared =
    !from &&
    !to &&
    mayShare(context, source, storageClass) &&
    (fitsWanted(source.version, encryption) || !demandsIt);
  // What is shared within an archive is read by nobody before it is restored there, as before.
  const staysShut =
    isShared &&
    source.version.class === storageClass &&
    !needsDigest(wanted) &&
    isArchived(context.services, context.bucket, { class: storageClass });
  if (!staysShut) await checkSourceRestored(context, source);
  const { sizeBytes } = source.version;
  context.asked.checkWritten({ storageClass, sizeBytes });
  await reserveCopy(context, source, { sizeBytes, storedObjects: 1 });
  await context.budget.reserveStorage(storageClass, sizeBytes);
  const drafted = { ...wanted, storageClass, conditions, from, to };
  return (isShared ? share : move)(context, source, drafted);
}

/** What the copy is to be. */
interface Wanted {
  /** With the source's checksum. */
  attributes: Attributes;
  /** Of the copy's checksum; null: neither the source has one, nor is one asked for. */
  algorithm: ChecksumAlgorithm | null;
  storageClass: string;
  conditions: WriteConditions;
  /** The customers' keys of the source, and of the copy; null: none. */
  from: KnownCustomer | null;
  to: KnownCustomer | null;
}

interface Copied {
  to: KnownCustomer | null;
  attributes: Attributes;
  etag: string;
  manifest: Uint8Array;
  storageClass: string;
  committed: Committed;
}

/** Whether the copy is to have a checksum that its source has not. */
function needsDigest({ attributes, algorithm }: Pick<Wanted, 'attributes' | 'algorithm'>): boolean {
  return algorithm !== null && attributes.checksum?.algorithm !== algorithm;
}

/** The copy as a row of its own that shares the source's extents; null: they are gone. */
async function share(
  context: Reserved<'copy'>,
  source: CopySource,
  wanted: Wanted,
): Promise<Copied | null> {
  const { bucket, key, services } = context;
  const { version } = source;
  const { attributes, algorithm, storageClass, conditions } = wanted;
  if (algorithm && needsDigest(wanted)) {
    const { checksum } = await digestRuns(
      context,
      source,
      decodeManifest(version.manifest),
      algorithm,
    );
    delete attributes.partChecksums;
    if (checksum) attributes.checksum = { algorithm, value: checksum, type: 'FULL_OBJECT' };
  }
  const { sizeBytes, etag, sha256 } = version;
  const committed = await commitShared(
    context,
    {
      kind: 'copyObject',
      bucketId: bucket.id,
      key,
      conditions,
      source: { bucketId: version.bucketId, key: version.key, seq: version.seq },
      object: sealObject(services.keyring, {
        tenant: bucket.tenant,
        sizeBytes,
        etag,
        sha256,
        class: storageClass,
        owner: bucket.owner,
        attributes: withWriter(attributes, context.requester, bucket),
        manifest: version.manifest,
      }),
    },
    {
      sizeBytes,
      etag,
      sha256: sha256 ? Buffer.from(sha256).toString('hex') : null,
      class: storageClass,
    },
  );
  if (!committed) return null;
  return { to: null, attributes, etag, manifest: version.manifest, storageClass, committed };
}

/**
 * The copy as a new object of its own bytes, written in one piece: so it has the ETag and the
 * checksum of one, whatever the source was written in.
 */
async function move(
  context: Reserved<'copy'>,
  source: CopySource,
  wanted: Wanted,
): Promise<Copied> {
  const { version } = source;
  const { attributes, storageClass, conditions, from, to } = wanted;
  const customer = to && writeWith(to);
  const algorithm = wanted.algorithm ?? defaultChecksum;
  const { sizeBytes } = version;
  checkCopyBytes(sizeBytes);
  await checkEarly(context, conditions);
  await recordRead(context, source);
  const { sink, digests } = await moveData(context, {
    of: source,
    runs: decodeManifest(version.manifest),
    sizeBytes,
    checksums: [algorithm],
    storageClass,
    ...(customer && { customer }),
    ...(from && { decrypt: decryptSource(source, from, 0) }),
  });
  delete attributes.partBytes;
  delete attributes.partChecksums;
  delete attributes.checksum;
  if (to && customer) Object.assign(attributes, sealOf(to, customer));
  const [checksum] = digests.checksums;
  if (checksum) {
    attributes.checksum = { algorithm, value: checksum.toString('base64'), type: 'FULL_OBJECT' };
  }
  const description = describeObject(context, digests, { storageClass, attributes, conditions });
  const written = await sink.seal(digests, description);
  const committed = await commitObject(context, written, description, conditions);
  const manifest = encodeManifest(written.runs);
  return { to, attributes, etag: description.etag, manifest, storageClass, committed };
}

/** The source's attributes or the request's own, and the checksum that the copy shall have. */
function readWanted(
  context: Reserved<'copy'>,
  { version }: CopySource,
  { keepsTags, isEncrypted }: { keepsTags: boolean; isEncrypted: boolean },
): Pick<Wanted, 'attributes' | 'algorithm'> {
  const { request } = context;
  const replaces = parseDirective(request.headers['x-amz-metadata-directive']);
  const { versionId, found } = context.asked.source;
  // A version that is named, or of a snapshot, is brought back by a copy onto its own key.
  const isNewest = versionId === undefined && !found.at;
  const isSame = version.bucketId === context.bucket.id && version.key === context.key;
  const redirect = readRedirect(request);
  const isChanged =
    replaces ||
    !keepsTags ||
    Object.keys(redirect).length > 0 ||
    request.headers['x-amz-storage-class'] !== undefined ||
    // As on AWS, also where the bucket's encryption was set, whether that changes anything or not.
    isEncrypted;
  if (!isChanged && isSame && isNewest) {
    const message =
      'This copy request is illegal because it is trying to copy an object to itself without ' +
      "changing the object's metadata, storage class, website redirect location or " +
      'encryption attributes.';
    throw new Refusal('InvalidRequest', { message });
  }
  // A copy is locked, and lets in, as it itself is asked to.
  const {
    retention: _,
    legalHold: _2,
    acl: _5,
    encryption: _6,
    customer: _9,
    copied: _3,
    renamedMs: _4,
    classedMs: _8,
    writer: _7,
    ...kept
  } = JSON.parse(version.attributes) as Attributes;
  const asked = request.headers['x-amz-checksum-algorithm'] ?? kept.checksum?.algorithm;
  const headers = { ...copiedHeaders(kept), ...redirect };
  const attributes: Attributes = { ...kept, headers, ...(replaces && readAttributes(request)) };
  const copied = copiedFrom(context.asked);
  if (copied) attributes.copied = copied;
  if (!keepsTags) {
    delete attributes.tags;
    if (context.tags.length > 0) attributes.tags = context.tags;
  }
  return {
    attributes,
    algorithm: asked === undefined ? null : parseAlgorithm(asked),
  };
}

function parseDirective(text: string | undefined): boolean {
  if (text === undefined || text === 'COPY') return false;
  if (text === 'REPLACE') return true;
  throw invalidArgument('x-amz-metadata-directive', text, 'Unknown metadata directive.');
}
