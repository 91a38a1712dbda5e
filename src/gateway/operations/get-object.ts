// GetObject and HeadObject. Small objects come with the row that names them; others stream, each
// chunk verified before a byte of it is sent.

import { readInlineBody } from '../../catalog/extents.ts';
import {
  type Attributes,
  findCurrent,
  findCurrentWithBody,
  type Version,
  type VersionWithBody,
} from '../../catalog/versions.ts';
import { httpTime } from '../../core/clock.ts';
import { IntegrityError, invalidArgument, Refusal } from '../../core/errors.ts';
import {
  countBytes,
  decodeManifest,
  type ExtentRun,
  inlineStore,
  sliceRuns,
} from '../../core/manifest.ts';
import type { ShapedStream } from '../../quota/rates.ts';
import { ClientGone } from '../body.ts';
import { checkReadConditions, rangeApplies } from '../conditional.ts';
import type { Context, Reply } from '../context.ts';
import { attributeHeaders, checksumHeaders } from '../object-attributes.ts';
import type { Operation } from '../operation.ts';
import { type ByteRange, parseRange } from '../range.ts';
import { emptyReply, quoted } from '../replies.ts';
import { header } from '../request.ts';
import { readInTurns } from '../shaped-body.ts';

export const getObject: Operation = {
  name: 'GetObject',
  action: 's3:GetObject',
  resource: 'object',
  price: 'get',
  reserves: true,
  bodyBytesMax: 0,
  run,
};

async function run(context: Context): Promise<Reply> {
  const { request, rooms, bucket, key } = context;
  const isHead = request.method === 'HEAD';
  const version = isHead
    ? await findCurrent(rooms, bucket, key)
    : await findCurrentWithBody(rooms, bucket, key);
  if (!version) throw await context.missingKey();
  await context.admitVersion(version);
  const attributes = JSON.parse(version.attributes) as Attributes;
  const headers: Record<string, string> = {
    etag: quoted(version.etag),
    'last-modified': httpTime(version.createdMs),
  };
  if (checkReadConditions(request, version) === 'notModified') return emptyReply(304, headers);

  const range = rangeApplies(request, version)
    ? parseRange(header(request, 'range'), version.sizeBytes)
    : null;
  describe(context, headers, version, attributes, range);
  const { tags } = attributes;
  if (tags && (await context.mayReachKey('s3:GetObjectTagging'))) {
    headers['x-amz-tagging-count'] = String(tags.length);
  }
  context.detail = { sizeBytes: version.sizeBytes, etag: version.etag, class: version.class };
  if (version.sha256) context.detail.sha256 = Buffer.from(version.sha256).toString('hex');
  if (range) context.detail.range = `${range.start}-${range.end - 1}`;
  const status = range ? 206 : 200;
  if (isHead) return { status, headers, body: null };
  const egressBytes = range ? range.end - range.start : version.sizeBytes;
  const read = { retrievalBytes: egressBytes, sourceClass: version.class };
  await context.budget.reserve({ egressBytes, ...read });
  return { status, headers, body: await openBody(context, version as VersionWithBody, range) };
}

function describe(
  context: Context,
  headers: Record<string, string>,
  version: Version,
  attributes: Attributes,
  range: ByteRange | null,
): void {
  const { request } = context;
  headers['accept-ranges'] = 'bytes';
  Object.assign(headers, attributeHeaders(attributes));
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
    headers['content-range'] = `bytes ${range.start}-${range.end - 1}/${version.sizeBytes}`;
    headers['content-length'] = String(range.end - range.start);
  } else {
    headers['content-length'] = String(version.sizeBytes);
    if (header(request, 'x-amz-checksum-mode')?.toUpperCase() === 'ENABLED') {
      Object.assign(headers, checksumHeaders(attributes));
    }
  }
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

async function openBody(
  context: Context,
  version: VersionWithBody,
  range: ByteRange | null,
): Promise<Reply['body']> {
  const { rooms, bucket } = context;
  const whole = decodeManifest(version.manifest);
  if (countBytes(whole) !== version.sizeBytes) {
    throw new IntegrityError(
      `a version of ${version.sizeBytes} bytes has extents of other lengths`,
    );
  }
  const runs = range ? sliceRuns(whole, range.start, range.end) : whole;
  const [only] = runs;
  if (!only) return Buffer.alloc(0);
  if (
    runs.length === 1 &&
    only.store === inlineStore &&
    version.inlineBody &&
    only.id.equals(firstId(whole))
  ) {
    return rooms.reader.openInline(bucket.tenant, only, version.inlineBody);
  }
  if (runs.length === 1 && rooms.reader.isSmallRemote(only)) {
    const release = rooms.leases.hold(runs);
    const tally = context.tallyOf(only.store);
    return rooms.reader.openRemote(bucket.tenant, only, tally).finally(release);
  }
  return context.shaped ? streamInTurns(context, context.shaped, runs) : streamRuns(context, runs);
}

function firstId(runs: readonly ExtentRun[]): Uint8Array {
  return (runs[0] as ExtentRun).id;
}

/** The same for who has a rate of bytes; the sweeper spares all of it, while it waits too. */
async function* streamInTurns(
  context: Context,
  shaped: ShapedStream,
  runs: readonly ExtentRun[],
): AsyncGenerator<Buffer, void, void> {
  const release = context.rooms.leases.hold(runs);
  try {
    yield* readInTurns(shaped, runs, (some) => streamRuns(context, some));
  } finally {
    release();
  }
}

/** Verified bytes of `runs`, which the sweeper spares until the stream has ended. */
export async function* streamRuns(
  context: Context,
  runs: readonly ExtentRun[],
): AsyncGenerator<Buffer, void, void> {
  const { rooms, bucket, response } = context;
  const release = rooms.leases.hold(runs);
  const gone = new AbortController();
  const leave = (): void => gone.abort(new ClientGone('the client closed the connection'));
  response.once('close', leave);
  try {
    yield* rooms.reader.read({
      tenant: bucket.tenant,
      runs,
      inlineBody: (id) => readInlineBody(rooms.read, id),
      recall: () => context.cut(),
      signal: gone.signal,
      tallies: context,
    });
  } finally {
    response.off('close', leave);
    release();
  }
}
