// PutObject: the body streams into extents while it is hashed, then one commit makes it an object.

import { sealObject } from '../../../catalog/authentic.ts';
import {
  checkWriteConditions,
  isConditional,
  type WriteConditions,
} from '../../../catalog/conditions.ts';
import type { Attributes } from '../../../catalog/versions.ts';
import { findCurrent } from '../../../catalog/versions.ts';
import { Refusal } from '../../../core/errors.ts';
import { singlePutBytesMax } from '../../../core/limits.ts';
import { encodeManifest } from '../../../core/manifest.ts';
import { defaultChecksum } from '../../../tiering/checksums.ts';
import type { Digests, ObjectDescription, WrittenObject } from '../../../tiering/object-writer.ts';
import { emptyReply, quoted, type Reply } from '../../http/reply.ts';
import { madeHeaders } from '../asked-version.ts';
import { receiveObject } from '../body.ts';
import { mayNameAcl, readWrittenAcl } from '../buckets/acl.ts';
import { createsOnly, decideConditions, noConditions } from '../conditional.ts';
import { createCustomer, customerHeaders, sealOf, writeWith } from '../objects/customer-key.ts';
import { plannedHeaders, readEncryption } from '../objects/encryption.ts';
import { writtenExpiration } from '../objects/lifecycle-headers.ts';
import {
  checksumHeaders,
  readAttributes,
  readTags,
  withWriter,
} from '../objects/object-attributes.ts';
import { readLockOfBody } from '../objects/object-lock.ts';
import { storedIds } from '../objects/object-upload.ts';
import { findLost, healVersion, isSameObject, readRemade } from '../objects/remade-version.ts';
import {
  checkLock,
  checkRecipe,
  classHeaders,
  readClass,
  standardClass,
  storeOfClass,
} from '../objects/written-class.ts';
import type { Operation } from '../operation.ts';
import type { Committed } from '../reserved.ts';
import type { Reserved } from '../stages.ts';

export const putObject: Operation<'object'> = {
  name: 'PutObject',
  action: 's3:PutObject',
  resource: 'object',
  price: 'put',
  stores: 'object',
  bodyBytesMax: singlePutBytesMax,
  tags: readTags,
  run,
};

async function run(context: Reserved<'object'>): Promise<Reply> {
  return emptyReply(200, await storeObject(context));
}

/**
 * Makes the body, or the file of a form, the request's object; gives what tells of it in headers.
 * `status`: what is answered then.
 */
export async function storeObject(
  context: Reserved<'object'>,
  status = 200,
): Promise<Record<string, string>> {
  const { form } = context.request;
  const attributes: Attributes = readAttributes(context.request);
  if (context.tags.length > 0) attributes.tags = context.tags;
  if (mayNameAcl(context)) Object.assign(attributes, await readWrittenAcl(context));
  const locking = readLockOfBody(context);
  if (locking) Object.assign(attributes, await locking);
  const creating = createCustomer(context);
  const known = creating && (await creating);
  const customer = known ? writeWith(known) : undefined;
  if (known && customer) Object.assign(attributes, sealOf(known, customer));
  else {
    const encrypting = readEncryption(context);
    Object.assign(attributes, encrypting instanceof Promise ? await encrypting : encrypting);
  }
  const storageClass = readClass(context);
  if (storageClass !== standardClass) {
    checkLock(context.services, context.bucket, storageClass, attributes);
    checkRecipe(context.services, context.bucket, storageClass, attributes);
  }
  const remade = readRemade(context);
  const lost = remade && (await findLost(context, remade));
  const sizeBytes = context.bodyBytes;
  // Of a form that is the most that its file can have.
  context.asked.checkWritten({ storageClass, sizeBytes: form ? 0 : sizeBytes });
  context.writeTo(storeOfClass(context.services, context.bucket, storageClass), storageClass);
  const reserving = context.budget.reserveStorage(storageClass, sizeBytes);
  if (reserving) await reserving;
  const deciding = decideConditions(context);
  const demanded = deciding ? await deciding : noConditions;
  if (deciding) await checkEarly(context, demanded);
  // What is made again otherwise comes after what was lost, which is kept, and after nothing newer.
  const conditions = lost ? { ...demanded, supersedesSeq: lost.seq } : demanded;
  const given = {
    storageClass,
    ...(form && { decoder: form, isAtMost: true as const }),
    ...(customer && { customer }),
  };
  const fallback = { algorithm: defaultChecksum } as const;
  const { sink, digests, checksums } = await receiveObject(context, fallback, given);
  if (form) context.asked.checkWritten({ storageClass, sizeBytes: form.sizeBytes });
  const [checksum] = checksums;
  if (checksum) attributes.checksum = { ...checksum, type: 'FULL_OBJECT' };
  const description = describeObject(context, digests, { storageClass, attributes, conditions });
  const written = await sink.seal(digests, description);
  if (lost && isSameObject(lost, written)) return healVersion(context, lost, written);
  const committed = await commitObject(context, written, description, conditions, status);
  const { timeMs: createdMs, version } = committed;
  const headers: Record<string, string> = {
    etag: quoted(description.etag),
    ...checksumHeaders(attributes),
    ...(known ? customerHeaders(known) : plannedHeaders(attributes, context.services)),
  };
  if (storageClass !== standardClass) {
    Object.assign(headers, classHeaders(context.services, context.bucket.tenant, storageClass));
  }
  if (version) Object.assign(headers, madeHeaders(version.versionId));
  const rules = context.services.lifecycle.find(context.bucket.id);
  if (rules) {
    const made = { key: context.key, sizeBytes: written.sizeBytes, createdMs, attributes };
    Object.assign(headers, await writtenExpiration(rules, made));
  }
  return headers;
}

/**
 * Conditions are decided for good in the commit; asked here so that a lost body is not sent at all.
 */
export async function checkEarly(
  context: Reserved<'object'>,
  conditions: WriteConditions,
): Promise<void> {
  if (!conditions.ifMatch && !conditions.ifNoneMatch) return;
  const current = await findCurrent(context.services, context.bucket, context.key);
  const refusal = checkWriteConditions(conditions, current?.etag ?? null);
  if (!refusal || refusal.ok) return;
  const { code, fields = {} } = refusal;
  if (code === 'AccessDenied') throw createsOnly();
  throw new Refusal(code, { fields: code === 'NoSuchKey' ? { Key: context.key } : fields });
}

/** What bytes that have come make an object of, when their MD5 is its ETag. */
export function describeObject(
  { bucket, requester }: Reserved<'object'>,
  { md5 }: Digests,
  given: { storageClass: string; attributes: Attributes; conditions: WriteConditions },
): ObjectDescription {
  const { storageClass, attributes } = given;
  // The extents of a class may be in another store than the bucket, whose journal tells of them.
  const isClassed = storageClass !== standardClass;
  const isAsked = isConditional(given.conditions);
  const needsJournal = bucket.versioning !== 'Unversioned' || isAsked || isClassed;
  return {
    etag: md5.toString('hex'),
    class: storageClass,
    owner: bucket.owner,
    attributes: withWriter(attributes, requester, bucket),
    ...(needsJournal ? { needsJournal: true } : {}),
  };
}

/** Makes what was written the current version of the request's key. Throws `Refusal`. */
export function commitObject(
  context: Reserved<'object'>,
  written: WrittenObject,
  description: ObjectDescription,
  conditions: WriteConditions,
  status = 200,
): Promise<Committed> {
  const { bucket, key } = context;
  const { sizeBytes } = written;
  // Of what is stored under a customer's key it would say nothing that anybody can compare.
  const sha256 = written.sent ? null : written.sha256;
  const { etag, owner, attributes } = description;
  return context.commit(
    {
      kind: 'putObject',
      bucketId: bucket.id,
      key,
      conditions,
      object: sealObject(context.services.keyring, {
        tenant: bucket.tenant,
        sizeBytes,
        etag,
        sha256,
        class: description.class,
        owner,
        attributes,
        manifest: encodeManifest(written.runs),
      }),
      extentIds: storedIds(written.runs),
      inline: written.inline,
      places: written.places,
    },
    { status, sizeBytes, etag, sha256: sha256?.toString('hex'), class: description.class },
  );
}
