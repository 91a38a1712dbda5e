// GetObject and HeadObject. Small objects come with the row that names them; others stream, each
// chunk verified before a byte of it is sent.

import { readInlineBody } from '../../../catalog/extents.ts';
import type { Mark } from '../../../catalog/version-marks.ts';
import type { Attributes, Tags, Version } from '../../../catalog/versions.ts';
import { httpTime } from '../../../core/clock.ts';
import { type Transform, transformed } from '../../../core/customer-key.ts';
import { IntegrityError, invalidArgument, Refusal } from '../../../core/errors.ts';
import { type ExtentRun, inlineStore, readManifest } from '../../../core/manifest.ts';
import { Pace } from '../../../core/pace.ts';
import { describeToBrowsers } from '../../http/origins.ts';
import { emptyReply, quoted, type Reply } from '../../http/reply.ts';
import { readInTurns } from '../../http/shaped-body.ts';
import type { ReadVersion } from '../../losses.ts';
import {
  findAsked,
  findAskedWithBody,
  memorized,
  recallAsked,
  versionHeaders,
} from '../asked-version.ts';
import { ClientGone } from '../body.ts';
import { checkReadConditions, rangeApplies } from '../conditional.ts';
import { customerHeaders, openCustomer, readWith } from '../objects/customer-key.ts';
import { encryptionHeaders } from '../objects/encryption.ts';
import { readExpiration } from '../objects/lifecycle-headers.ts';
import { attributeHeaders, checksumHeaders } from '../objects/object-attributes.ts';
import { hasLock, lockHeaders } from '../objects/object-lock.ts';
import type { ObjectName, SmallObject } from '../objects/object-memory.ts';
import { askedPart, type ObjectPart, partChecksumHeaders } from '../objects/object-parts.ts';
import { checkRestored, isArchived, isPaidByRestore, restoreHeaders } from '../objects/restored.ts';
import { noteUsed } from '../objects/used-version.ts';
import { answersAny, classHeaders, standardClass } from '../objects/written-class.ts';
import type { Operation } from '../operation.ts';
import { type ByteRange, parseRange } from '../range.ts';
import type { S3Request } from '../request.ts';
import type { ReservedRequest } from '../reserved.ts';
import type { Reserved } from '../stages.ts';

export const getObject: Operation<'object'> = {
  name: 'GetObject',
  action: 's3:GetObject',
  versionAction: 's3:GetObjectVersion',
  resource: 'object',
  price: 'get',
  reserves: true,
  run,
};

export const headObject: Operation<'object'> = { ...getObject, name: 'HeadObject' };

/**
 * Some thousand extents: with the attributes of as many parts a millisecond's work and more, in
 * which others have their turns.
 */
const longManifestBytes = 32 * 1024;

async function run(context: Reserved<'object'>): Promise<Reply> {
  const { request, bucket } = context;
  const isHead = request.method === 'HEAD';
  const found = await find(context);
  const { version, attributes } = found;
  const losing = context.services.losses.check(bucket.tenant, version);
  if (losing) await losing;
  // Before anything is told of it, as it is whether its bytes come from memory or not.
  const customer = openCustomer(request, 'own', attributes, bucket, context.services);
  const restoring = isHead ? null : checkRestored(context.services, bucket, version);
  if (restoring) await restoring;
  const headers: Record<string, string> = {
    etag: quoted(version.etag),
    'last-modified': httpTime(version.createdMs),
    ...versionHeaders(bucket, version),
  };
  if (checkReadConditions(request, version) === 'notModified') return emptyReply(304, headers);

  const range = askedRange(request, version, attributes);
  describe(context, headers, version, attributes, range);
  if (customer) Object.assign(headers, customerHeaders(customer));
  if (isArchived(context.services, bucket, version)) {
    Object.assign(headers, await restoreHeaders(context.services, bucket, version));
  }
  const { storedPages } = context.services;
  describeToBrowsers(headers, { storedPages, isPresigned: context.who.presigned });
  if (attributes.tags) await countTags(context, headers, attributes.tags);
  if (hasLock(attributes)) Object.assign(headers, await lockHeaders(context, attributes));
  // What a snapshot has does not end by rules.
  const rules = context.asked.at ? null : context.services.lifecycle.find(bucket.id);
  // As on S3, nothing is said of when one expires that was asked for by its id.
  if (rules && context.versionId === undefined) {
    Object.assign(headers, await readExpiration(rules, version));
  }
  const { detail } = context;
  detail.sizeBytes = version.sizeBytes;
  detail.etag = version.etag;
  detail.class = version.class;
  if (found.sha256 !== undefined) detail.sha256 = found.sha256;
  if (range && range.start < range.end) detail.range = `${range.start}-${range.end - 1}`;
  const status = range ? 206 : 200;
  if (isHead) return { status, headers, body: null };
  noteUsed(context, { bucket, version });
  const egressBytes = range ? range.end - range.start : version.sizeBytes;
  context.readFrom(bucket, version.class);
  const isPaid = isPaidByRestore(context.services, bucket, version);
  const read = { retrievalBytes: isPaid ? 0 : egressBytes, sourceClass: version.class };
  const reserving = context.budget.reserve({ egressBytes, ...read });
  if (reserving) await context.clock.during('reserve', reserving);
  const body = await openBody(context, found, range);
  if (!customer) return { status, headers, body };
  const decrypt = readWith(customer, { attributes, sizeBytes: version.sizeBytes }, range?.start);
  return { status, headers, body: decrypted(body, decrypt) };
}

function decrypted(body: OpenedBody, decrypt: Transform): OpenedBody {
  return Buffer.isBuffer(body) ? decrypt(body) : transformed(body, decrypt);
}

/** What was found: the whole of a small object, from memory, or its row. */
type Found = SmallObject | StoredObject;

interface StoredObject extends Omit<SmallObject, 'body'> {
  body: null;
  /** The sealed bytes of its first extent, where those are inline. */
  inlineBody: Uint8Array | null;
  /** As what it may be kept, and when it was read; null: it may not be. */
  kept: { name: ObjectName; mark: Mark } | null;
}

async function find(context: Reserved<'object'>): Promise<Found> {
  const recalled = await recallAsked(context);
  if (recalled) return recalled;
  const isHead = context.request.method === 'HEAD';
  const name = isHead ? null : memorized(context);
  const mark = name && context.services.objectMemory.mark(name);
  const kept = name && mark && { name, mark };
  const version: Version & { inlineBody?: Uint8Array | null } = await (isHead
    ? findAsked(context)
    : findAskedWithBody(context));
  if (version.manifest.length > longManifestBytes) await new Pace().rest();
  const attributes = JSON.parse(version.attributes) as Attributes;
  const sha256 = version.sha256 ? Buffer.from(version.sha256).toString('hex') : undefined;
  const inlineBody = version.inlineBody ?? null;
  return { version, attributes, sha256, body: null, inlineBody, kept };
}

/** The part or the range that is asked for; null: the whole object. */
function askedRange(
  request: S3Request,
  version: Version,
  attributes: Attributes,
): ObjectPart | ByteRange | null {
  const { sizeBytes } = version;
  const part = request.query.length === 0 ? null : askedPart(request, attributes, sizeBytes);
  // No range names the bytes of an object that has none.
  if (part) return part.count === null && sizeBytes === 0 ? null : part;
  const { range } = request.headers;
  if (range === undefined || !rangeApplies(request, version)) return null;
  return parseRange(range, sizeBytes);
}

async function countTags(
  context: Reserved<'object'>,
  headers: Record<string, string>,
  tags: Tags,
): Promise<void> {
  if (tags.length === 0) return;
  const action =
    context.versionId === undefined && !context.asked.at
      ? 's3:GetObjectTagging'
      : 's3:GetObjectVersionTagging';
  if (await context.asked.mayReachKey(action)) headers['x-amz-tagging-count'] = String(tags.length);
}

function describe(
  context: Reserved<'object'>,
  headers: Record<string, string>,
  version: Version,
  attributes: Attributes,
  range: ObjectPart | ByteRange | null,
): void {
  const { request } = context;
  headers['accept-ranges'] = 'bytes';
  if (version.class !== standardClass) {
    Object.assign(headers, classHeaders(context.services, context.bucket.tenant, version.class));
  }
  Object.assign(headers, attributeHeaders(attributes));
  Object.assign(headers, encryptionHeaders(version.manifest, attributes, context.services));
  for (const [name, value] of request.query) {
    const overridden = overrides.get(name);
    if (!overridden) continue;
    // As on S3: who publishes an object says what it is, not who makes a link to it.
    if (context.who.isAnonymous) {
      const message =
        'Request specific response headers cannot be used for anonymous GET requests.';
      throw new Refusal('InvalidRequest', { message });
    }
    if (unfitForHeader.test(value)) throw invalidArgument(name, value);
    headers[overridden] = value;
  }
  if (range) {
    const { start, end } = range;
    if (start < end) headers['content-range'] = `bytes ${start}-${end - 1}/${version.sizeBytes}`;
    headers['content-length'] = String(end - start);
  } else headers['content-length'] = String(version.sizeBytes);
  const part = range && 'number' in range ? range : null;
  if (part && part.count !== null) headers['x-amz-mp-parts-count'] = String(part.count);
  if (request.headers['x-amz-checksum-mode']?.toUpperCase() !== 'ENABLED') return;
  // Of a range that is neither a part nor the whole, nobody knows one.
  const isWhole = !range || range.end - range.start === version.sizeBytes;
  if (part) Object.assign(headers, partChecksumHeaders(attributes, part));
  else if (isWhole) Object.assign(headers, checksumHeaders(attributes));
}

const unfitForHeader = /[^\t\u0020-\u007e\u0080-\u00ff]/;

const overrides: ReadonlyMap<string, string> = new Map(
  ['type', 'language', 'disposition', 'encoding'].map((name) => [
    `response-content-${name}`,
    `content-${name}`,
  ]),
)
  .set('response-cache-control', 'cache-control')
  .set('response-expires', 'expires');

type OpenedBody = Buffer | AsyncGenerator<Buffer, void, void>;

async function openBody(
  context: Reserved<'object'>,
  found: Found,
  range: ByteRange | null,
): Promise<OpenedBody> {
  const { services, bucket } = context;
  const { version } = found;
  const { start, end } = range ?? { start: 0, end: version.sizeBytes };
  if (found.body) return found.body.subarray(start, end);
  const { inlineBody, kept } = found;
  const { manifest } = version;
  const { runs, sizeBytes } = readManifest(manifest, start, end);
  if (sizeBytes !== version.sizeBytes) {
    throw new IntegrityError(
      `a version of ${version.sizeBytes} bytes has extents of other lengths`,
    );
  }
  const [only] = runs;
  if (!only) return Buffer.alloc(0);
  // What lies in the row is the bytes of the first run.
  const isInline = runs.length === 1 && only.store === inlineStore && startsWith(manifest, only);
  if (isInline && inlineBody) {
    const body = services.reader.openInline(bucket.tenant, only, inlineBody);
    if (kept && body.length === version.sizeBytes) {
      const { attributes, sha256 } = found;
      services.objectMemory.keep(kept.mark, kept.name, { version, attributes, sha256, body });
    }
    return body;
  }
  if (runs.length === 1 && services.reader.isSmallRemote(only)) {
    const release = services.leases.hold(runs);
    return services.reader
      .openRemote(bucket.tenant, only, {
        tallies: context,
        isAnyCopy: answersAny(services, bucket.tenant, version.class),
      })
      .catch(async (error: unknown) => {
        throw await services.losses.explain({ bucket, version }, error);
      })
      .finally(release);
  }
  const of = { bucket, version };
  return context.shaped
    ? streamInTurns(context, context.shaped, runs, of)
    : streamRuns(context, runs, of);
}

function startsWith(manifest: Uint8Array, { id }: ExtentRun): boolean {
  return id.equals(manifest.subarray(0, id.length));
}

/** The same for who has a rate of bytes; the sweeper spares all of it, while it waits too. */
async function* streamInTurns(
  context: Reserved<'object'>,
  shaped: NonNullable<ReservedRequest['shaped']>,
  runs: readonly ExtentRun[],
  of: ReadVersion,
): AsyncGenerator<Buffer, void, void> {
  const release = context.services.leases.hold(runs);
  try {
    yield* readInTurns(shaped, runs, (some) => streamRuns(context, some, of));
  } finally {
    release();
  }
}

/**
 * Verified bytes of `runs`, which the sweeper spares until the stream has ended. `of`: the version
 * that has them.
 */
export async function* streamRuns(
  context: Reserved<'object'>,
  runs: readonly ExtentRun[],
  of: ReadVersion,
): AsyncGenerator<Buffer, void, void> {
  const { services, response } = context;
  const release = services.leases.hold(runs);
  const gone = new AbortController();
  const leave = (): void => gone.abort(new ClientGone('the client closed the connection'));
  response.once('close', leave);
  try {
    yield* services.reader.read({
      tenant: of.bucket.tenant,
      runs,
      inlineBody: (id) => readInlineBody(services.read, id),
      party: { tenant: context.tenant, principal: context.requester },
      recall: () => context.cut(),
      signal: gone.signal,
      tallies: context,
      isAnyCopy: answersAny(services, of.bucket.tenant, of.version.class),
    });
  } catch (error) {
    throw await services.losses.explain(of, error);
  } finally {
    response.off('close', leave);
    release();
  }
}
