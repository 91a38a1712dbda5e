// The source of CopyObject and UploadPartCopy: named, found, authorized, and held to its
// conditions. Invariant: what is decided is decided of the very version that is copied.
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { Identity } from '../../authz/identity.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import type { Attributes, EvenlyFound, Version } from '../../catalog/versions.ts';
import type { Transform } from '../../core/customer-key.ts';
import { invalidArgument, Refusal } from '../../core/errors.ts';
import { singlePutBytesMax } from '../../core/limits.ts';
import type { ExtentRun } from '../../core/manifest.ts';
import type { Change } from '../../ledger/commands/index.ts';
import { type ChecksumAlgorithm, createChecksum, loadChecksums } from '../../tiering/checksums.ts';
import type { RequestServices } from '../services.ts';
import { checkVersionId, missingVersion, shownId } from './asked-version.ts';
import { ClientGone } from './body.ts';
import { checkExpectedOwner, lookUpBucket, type NamedBucket, type Namer } from './bucket-lookup.ts';
import { checkPayer } from './buckets/requester-pays.ts';
import { checkSourceConditions } from './conditional.ts';
import { type KnownCustomer, openCustomer, readWith } from './objects/customer-key.ts';
import { aclOf, tagsOf } from './objects/object-attributes.ts';
import { checkRestored, isPaidByRestore } from './objects/restored.ts';
import { noteUsed } from './objects/used-version.ts';
import { shareStore } from './objects/written-class.ts';
import { streamRuns } from './operations/get-object.ts';
import { isShown } from './query-mount.ts';
import { bucketOfHost, checkKeyLength, decode, type S3Request } from './request.ts';
import type { RecordDetail } from './request-record.ts';
import type { Committed } from './reserved.ts';
import { findEvenly } from './snapshot-mount.ts';
import type { Reserved, Resource } from './stages.ts';

/** What a request copies; null: nothing. Throws `Refusal`. */
export async function findSource(
  services: RequestServices,
  request: S3Request,
  { principal: namer }: Identity,
  resource: Resource,
): Promise<SourceName | null> {
  const text = resource === 'copy' ? request.headers[sourceHeader] : undefined;
  if (text === undefined) return null;
  const host = request.headers.host ?? '';
  const named = await nameSource(services, { namer, host }, text);
  const source = await asOfRecord(services, request, named);
  services.sealFaults.checkBucket(source.found.tenant, source.found.name);
  return source;
}

/** The copy is of what the source was when this record was made. */
export const asOfHeader = 'x-bursar-copy-source-as-of';

/**
 * The source as of the record that the request names, if it names one. What is not kept is a key
 * that is not there.
 */
async function asOfRecord(
  { snapshots }: RequestServices,
  { headers }: S3Request,
  source: SourceName,
): Promise<SourceName> {
  const text = headers[asOfHeader];
  if (text === undefined) return source;
  const { found } = source;
  if (!/^\d{1,15}$/.test(text) || found.at || source.versionId !== undefined) {
    const message = 'It must be the index of a record, and the source the bucket itself.';
    throw invalidArgument(asOfHeader, text, message);
  }
  const nothing = { seq: -1, prefix: '' };
  const at = (await snapshots.findAt(found.bucket?.id ?? noBucket, Number(text))) ?? nothing;
  return { ...source, found: { ...found, at } };
}

/** No bucket has it. */
const noBucket = -1;

export interface CopySource {
  bucket: Bucket;
  version: Version;
}

/** How often a source is read that is replaced or deleted while it is copied. */
const triesMax = 3;

/**
 * Gives the source and what `copy` made of it. Where it gives null, the source is not there any
 * more and is read again, if who asks still may, so that a copy has one version or finds none.
 * Throws `Refusal` as `findCopySource` does, or SlowDown for a source that is never still.
 */
export async function copyFrom<T>(
  context: Reserved<'copy'>,
  reading: { keepsTags: boolean },
  copy: (source: CopySource) => Promise<T | null>,
): Promise<{ source: CopySource; copied: T }> {
  for (let tries = 1; tries <= triesMax; tries++) {
    const source = await findCopySource(context, reading);
    const copied = await copy(source);
    if (copied !== null) return { source, copied };
    await lookAgain(context);
  }
  throw new Refusal('SlowDown');
}

/** Finds the source's bucket as it is now, with the policy that it has now. */
async function lookAgain(context: Reserved<'copy'>): Promise<void> {
  const { services, tags } = context;
  const { source } = context.asked;
  const { tenant, name } = source.found;
  const bucket = await services.buckets.find(tenant, name);
  context.asked.bring(tags, { ...source, found: { ...source.found, bucket } });
}

/** Within a store, and a tenant, whose key its extents are sealed with. Others are copied. */
export function mayShare(
  { bucket, services }: Reserved<'copy'>,
  { bucket: from, version }: CopySource,
  storageClass: string,
): boolean {
  if (from.tenant !== bucket.tenant) return false;
  const [source, target] = [
    { bucket: from, className: version.class },
    { bucket, className: storageClass },
  ] as const;
  return shareStore(services, source, target);
}

/** Commits a change that shares the extents of a source; null: they were let go of meanwhile. */
export async function commitShared(
  context: Reserved<'copy'>,
  change: Change,
  detail: RecordDetail,
): Promise<Committed | null> {
  const result = await context.tryCommit(change, detail);
  if (result.ok) return result;
  if (result.code === 'SlowDown') return null;
  throw context.failureOf(result);
}

/** A source as it was named, and the bucket that this means. */
export interface SourceName {
  askedName: string;
  found: NamedBucket;
  key: string;
  /** Undefined: the newest. */
  versionId: string | undefined;
}

/**
 * What `x-amz-copy-source` names, at the gateway that is called `host`. Throws `Refusal`
 * InvalidArgument.
 */
export async function nameSource(
  services: RequestServices,
  { namer, host }: { namer: Namer; host: string },
  text: string,
): Promise<SourceName> {
  const { bucketName: askedName, key, versionId } = parseSource(text, services.domains, host);
  checkKeyLength(key);
  if (versionId !== undefined) checkVersionId(versionId, sourceHeader);
  try {
    return { askedName, found: await lookUpBucket(services, namer, askedName), key, versionId };
  } catch (error) {
    if (error instanceof Refusal && error.code === 'InvalidBucketName')
      throw noSource('bucket name');
    throw error;
  }
}

/** As S3 says it: what was given is not told. */
function noSource(what: 'bucket name' | 'object key'): Refusal {
  return invalidArgument(sourceHeader, sourceHeader, `Invalid copy source ${what}`);
}

const sourceHeader = 'x-amz-copy-source';

/**
 * Throws `Refusal` AccessDenied, NoSuchBucket, NoSuchKey, NoSuchVersion, InvalidRequest for a
 * delete marker, or PreconditionFailed. `keepsTags`: the copy is to have the source's tags, so they
 * must be its copier's to read, and to write.
 */
async function findCopySource(
  context: Reserved<'copy'>,
  { keepsTags }: { keepsTags: boolean },
): Promise<CopySource> {
  const { services, request } = context;
  const { source } = context.asked;
  const { askedName, found, key, versionId } = source;
  const { bucket } = found;
  let loading: Promise<EvenlyFound> | undefined;
  const load = async () => {
    loading ??= bucket
      ? findEvenly(services, bucket, { key, versionId }, found.at)
      : Promise.resolve({ version: undefined, tags: [] });
    return loading;
  };
  const loadTags = async () => (await load()).tags;
  const loadAcl = async () => aclOf((await load()).version);
  const about = { askedName, found, key, versionId, listPrefix: null, loadTags, loadAcl };
  // As of a snapshot it is a version that is read.
  const isNewest = versionId === undefined && !found.at;
  await context.asked.authorizeOther({
    action: isNewest ? 's3:GetObject' : 's3:GetObjectVersion',
    ...about,
  });
  if (!bucket) throw new Refusal('NoSuchBucket', { fields: { BucketName: askedName } });
  checkExpectedOwner(request, 'x-amz-source-expected-bucket-owner', bucket);
  checkPayer(context.asked, bucket);
  const { version } = await load();
  if (found.at) await context.asked.checkShown();
  if (version?.isMarker && versionId !== undefined) throw markerSource();
  if (!version || version.isMarker || !(await isShown(context.asked, source, version))) {
    throw await missingVersion(context, versionId, source);
  }
  checkSourceConditions(request, version, sourceHeader);
  if (keepsTags && tagsOf(version).length > 0) {
    await context.asked.authorizeOther({
      action: isNewest ? 's3:GetObjectTagging' : 's3:GetObjectVersionTagging',
      ...about,
    });
    await context.asked.authorizeTags();
  }
  noteSource(context, { bucket, version });
  const losing = services.losses.check(bucket.tenant, version);
  if (losing) await losing;
  return { bucket, version };
}

/**
 * Before bytes of a source are read, or come to where they can be read at once. Rejects with
 * `Refusal` InvalidObjectState; null: they can be.
 */
export function checkSourceRestored(
  { services }: Reserved<'copy'>,
  { bucket, version }: CopySource,
): Promise<void> | null {
  return checkRestored(services, bucket, version);
}

/** As `openCustomer`, of a copy's source. */
export function openSource(
  { request, services }: Reserved<'copy'>,
  { bucket, version }: CopySource,
): KnownCustomer | null {
  const attributes = JSON.parse(version.attributes) as Attributes;
  return openCustomer(request, 'source', attributes, bucket, services);
}

/** Decrypts what is read of a source from `start` on. */
export function decryptSource(
  { version }: CopySource,
  customer: KnownCustomer,
  start: number,
): Transform {
  const attributes = JSON.parse(version.attributes) as Attributes;
  return readWith(customer, { attributes, sizeBytes: version.sizeBytes }, start);
}

function markerSource(): Refusal {
  const message =
    'The source of a copy request may not specifically refer to a delete marker by version id.';
  return new Refusal('InvalidRequest', { message });
}

/** The header that says which version was copied. */
export function sourceHeaders({ version }: CopySource): Record<string, string> {
  // As on S3, none of one that was never versioned.
  const { versionId } = version;
  return versionId === null ? {} : { 'x-amz-copy-source-version-id': versionId };
}

/** What is copied is in the record of the copy. */
function noteSource(context: Reserved<'copy'>, { bucket, version }: CopySource): void {
  const { tenant: bucketTenant, name } = bucket;
  const { key, seq } = version;
  const source = {
    bucket: name,
    bucketTenant,
    key,
    version: seq,
    versionId: shownId(bucket, version),
  };
  context.detail = { ...context.detail, change: { ...context.detail.change, source } };
  // A copy of an object onto itself reads nothing of use to anybody.
  if (bucket.id !== context.bucket.id || key !== context.key)
    noteUsed(context, { bucket, version });
}

/**
 * To be called before the source is read to be moved: a tenant that has nothing else to do with the
 * copy gets a record of its own, that its object was read.
 */
export async function recordRead(
  context: Reserved<'copy'>,
  { bucket, version }: CopySource,
): Promise<void> {
  const { tenant: bucketTenant, name } = bucket;
  if (bucketTenant === context.tenant || bucketTenant === context.bucketTenant) return;
  const { key, sizeBytes, etag, sha256 } = version;
  const versionId = shownId(bucket, version);
  await context.recordBesides({
    ...{ action: 's3:GetObject', bucket: name, bucketTenant, key, versionId, sizeBytes, etag },
    ...{ class: version.class, sha256: sha256 && Buffer.from(sha256).toString('hex') },
  });
}

/** Throws `Refusal` InvalidRequest for more than can be copied in one request. */
export function checkCopyBytes(sizeBytes: number): void {
  if (sizeBytes <= singlePutBytesMax) return;
  const message =
    'The specified copy source is larger than the maximum allowable size for a copy source: ' +
    `${singlePutBytesMax}`;
  throw new Refusal('InvalidRequest', { message });
}

/** Before a copy begins: it is read from the source's class, and stored. Throws `Refusal`. */
export function reserveCopy(
  context: Reserved<'copy'>,
  { version, bucket }: CopySource,
  { sizeBytes, storedObjects }: { sizeBytes: number; storedObjects: number },
): Promise<void> | null {
  context.readFrom(bucket, version.class, { isCopy: true });
  const isPaid = isPaidByRestore(context.services, bucket, version);
  const read = { retrievalBytes: isPaid ? 0 : sizeBytes, sourceClass: version.class };
  return context.budget.reserve({ ...read, storedBytes: sizeBytes, storedObjects });
}

/**
 * `/bucket/key?versionId=…`, percent-encoded, with or without the first slash; as on S3 also as a
 * URL of this gateway.
 */
function parseSource(
  text: string,
  domains: readonly string[],
  host: string,
): {
  bucketName: string;
  key: string;
  versionId: string | undefined;
} {
  const mark = text.lastIndexOf(versionMark);
  const versionId =
    mark < 0 ? undefined : decodeSource(text.slice(mark + versionMark.length), text);
  // Header bytes arrive as Latin-1; a key that was not encoded is UTF-8 underneath.
  const bytes = Buffer.from(mark < 0 ? text : text.slice(0, mark), 'latin1').toString('utf8');
  const path = decodeSource(pathOf(bytes, domains, host), text).replace(/^\//, '');
  const slash = path.indexOf('/');
  if (slash <= 0 || slash === path.length - 1) throw noSource('object key');
  return { bucketName: path.slice(0, slash), key: path.slice(slash + 1), versionId };
}

const versionMark = '?versionId=';
const urlForm = /^https?:\/\/([^/]*)/i;

/** `/bucket/key` of a URL in either style; what is no URL as it is. */
function pathOf(source: string, domains: readonly string[], host: string): string {
  const [origin, named = ''] = urlForm.exec(source) ?? [];
  if (origin === undefined) return source;
  const path = source.slice(origin.length);
  const bucket = bucketOfHost(named, domains);
  if (bucket !== null) return `/${bucket}${path}`;
  const isHere = [host, ...domains].some((one) => hostOnly(one) === hostOnly(named));
  if (!isHere) throw noSource('bucket name');
  return path;
}

function hostOnly(host: string): string {
  return host.replace(/:\d+$/, '').toLowerCase();
}

function decodeSource(part: string, text: string): string {
  try {
    // As on S3, a plus is a space here, too.
    return decode(part.replaceAll('+', ' '));
  } catch {
    throw invalidArgument(sourceHeader, text, 'Invalid copy source encoding.');
  }
}

/**
 * Chunks hashed before others get their turn: inline runs come without ever waiting for anything.
 */
const chunksPerTurn = 4;

/**
 * MD5, and the asked checksum, of what `runs` hold: read and verified, not moved. Throws
 * `ClientGone` when nobody waits for the answer any more: hashing is the most costly thing that a
 * head can ask for.
 */
export async function digestRuns(
  context: Reserved<'copy'>,
  of: CopySource,
  runs: readonly ExtentRun[],
  algorithm: ChecksumAlgorithm | null,
): Promise<{ md5: string; checksum: string | null }> {
  const md5 = createHash('md5');
  if (algorithm) await loadChecksums([algorithm]);
  const checksum = algorithm ? createChecksum(algorithm) : null;
  const { socket } = context.request.raw;
  let chunks = 0;
  for await (const chunk of streamRuns(context, runs, of)) {
    md5.update(chunk);
    checksum?.update(chunk);
    // The system tells of a client that left only in a turn of the event loop.
    if (++chunks % chunksPerTurn === 0) await setImmediate();
    if (socket.destroyed) throw new ClientGone('the client closed the connection');
  }
  return {
    md5: md5.digest('hex'),
    checksum: checksum ? checksum.digest().toString('base64') : null,
  };
}
