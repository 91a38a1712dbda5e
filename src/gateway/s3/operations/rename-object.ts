// RenameObject: another key for an object of the bucket, in one commit, whatever its size. Who asks
// needs what a copy and a delete would need: to read and to delete the one key, and to write the
// other. Invariant: what is decided is decided of the very version that is renamed, which the
// commit demands; where another is there by then, all is decided again.
// Specification: "RenameObject" of the Amazon S3 API reference, of directory buckets; here of all.
import { setTimeout } from 'node:timers/promises';
import { findStaying, type Staying } from '../../../catalog/rename.ts';
import { type ClientToken, clientToken, findRename } from '../../../catalog/rename-tokens.ts';
import {
  type EvenlyFound,
  findHead,
  findNamedEvenly,
  type VersionHead,
} from '../../../catalog/versions.ts';
import { monotonicMs } from '../../../core/clock.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { emptyReply, type Reply } from '../../http/reply.ts';
import { madeHeaders, shownId } from '../asked-version.ts';
import {
  checkReplaced,
  checkSourceConditions,
  decideConditions,
  isDated,
  noConditions,
} from '../conditional.ts';
import { tagsOf } from '../objects/object-attributes.ts';
import { reserveRename } from '../objects/rename-budget.ts';
import type { Operation } from '../operation.ts';
import { checkKeyLength, decode, type S3Request } from '../request.ts';
import type { Asked, Reserved } from '../stages.ts';

export const renameObject: Operation<'object', string, Loaded> = {
  name: 'RenameObject',
  action: 's3:PutObject',
  recordedAs: 's3:RenameObject',
  resource: 'object',
  price: 'put',
  parse: async (asked) => readSource(asked),
  admit: decide,
  run,
};

const sourceName = 'x-amz-rename-source';

/** The key that `x-amz-rename-source` names: by itself, or as `/BUCKET/KEY` of this bucket. */
function readSource({ request, askedName, key }: Asked<'object'>): string {
  const text = request.headers[sourceName];
  if (text === undefined) throw invalidArgument(sourceName, '', 'A rename needs its source.');
  let source: string;
  try {
    // Header bytes arrive as Latin-1; a key that was not encoded is UTF-8 underneath.
    source = decode(Buffer.from(text, 'latin1').toString('utf8'));
  } catch {
    throw invalidArgument(sourceName, text, 'Invalid rename source encoding.');
  }
  const place = `/${askedName}/`;
  if (source.startsWith(place)) source = source.slice(place.length);
  if (source === '') throw invalidArgument(sourceName, text, 'Invalid rename source key.');
  checkKeyLength(source);
  if (source === key) {
    const message = 'This rename request is illegal because its source and its target are one key.';
    throw new Refusal('InvalidRequest', { message });
  }
  return source;
}

/** What a decision has read of the source for its tags; undefined: nothing. */
type Loaded = EvenlyFound | undefined;

async function decide(asked: Asked<'object'>, key: string): Promise<Loaded> {
  await asked.authorizeKey('s3:PutObject');
  let loading: Promise<EvenlyFound> | undefined;
  const loadTags = async () => {
    loading ??= asked.bucket
      ? findNamedEvenly(asked.services, asked.bucket, { key })
      : Promise.resolve({ version: undefined, tags: [] });
    return (await loading).tags;
  };
  await asked.authorizeKey('s3:GetObject', { key, loadTags });
  await asked.authorizeKey('s3:DeleteObject', { key, loadTags });
  return loading;
}

/** How long a rename waits for its keys to be still. */
const waitMsMax = 5000;
const waitMs = 10;

async function run(context: Reserved<'object'>, source: string, decided: Loaded): Promise<Reply> {
  const token = readToken(context, source);
  try {
    return await rename(context, { source, decided, token });
  } catch (error) {
    // Where it was done since the token was looked for, what is there now does not fit it.
    if (token && error instanceof Refusal && !context.isRecorded) {
      if (await isRepeated(context, token)) return emptyReply(200);
    }
    throw error;
  }
}

async function rename(
  context: Reserved<'object'>,
  { source, decided, token }: { source: string; decided: Loaded; token: ClientToken | null },
): Promise<Reply> {
  const { services, bucket, asked } = context;
  const endMs = monotonicMs() + waitMsMax;
  let loaded = decided;
  for (;;) {
    if (token && (await isRepeated(context, token))) return emptyReply(200);
    const version = await findSource(context, source, loaded);
    if (version) {
      const { sizeBytes, class: storageClass } = version;
      asked.checkWritten({ storageClass, sizeBytes });
      const stays = await findStaying(services.read, bucket.id, version);
      await reserveRename(context, { source, version, stays });
      const headers = await commit(context, { source, version, stays, token });
      if (headers) return emptyReply(200, headers);
    }
    if (monotonicMs() > endMs) throw new Refusal('SlowDown');
    // Its journal may have to tell of one of the keys before it can tell that this is another's.
    await services.journals.settled(bucket.store);
    await setTimeout(waitMs);
    loaded = await decide(asked, source);
  }
}

/** null: something else has happened meanwhile, so that it is to be decided again. */
async function commit(
  context: Reserved<'object'>,
  decided: { source: string; version: VersionHead; stays: Staying; token: ClientToken | null },
): Promise<Record<string, string> | null> {
  const { source, version, stays, token } = decided;
  const { bucket, key, asked } = context;
  const replaces = await checkTarget(context);
  const conditions = (await decideConditions(context)) ?? noConditions;
  if (tagsOf(version).length > 0) {
    await asked.authorizeKey('s3:GetObjectTagging', {
      key: source,
      loadTags: async () => tagsOf(version),
    });
    await asked.authorizeTags();
  }
  const { seq, sizeBytes, etag, sha256, class: storageClass, attributes } = version;
  const versionId = shownId(bucket, version);
  const result = await context.tryCommit(
    {
      kind: 'renameObject',
      bucketId: bucket.id,
      key,
      conditions,
      ...(replaces !== undefined && { replaces }),
      source: { key: source, seq, attributes },
      mayStay: stays,
      token,
    },
    {
      ...{ sizeBytes, etag, class: storageClass },
      sha256: sha256 && Buffer.from(sha256).toString('hex'),
      change: {
        renamed: { key: source, version: seq, ...(versionId && { versionId }) },
        ...(token && { clientToken: shownToken(token) }),
      },
    },
  );
  if (result.ok) return madeHeaders(result.version?.versionId);
  if (result.code === 'SlowDown') return null;
  throw context.failureOf(result);
}

/**
 * The version that is renamed. undefined: it is another than the one by whose tags it was decided.
 * Throws `Refusal` AccessDenied, NoSuchKey or PreconditionFailed.
 */
async function findSource(
  context: Reserved<'object'>,
  key: string,
  loaded: Loaded,
): Promise<VersionHead | undefined> {
  const { services, bucket, asked, request } = context;
  const version = await findHead(services, bucket, key);
  if (!version || version.isMarker) {
    const { askedName, found } = asked;
    throw await asked.missingKey({ askedName, found, key });
  }
  const { seq, attributes } = loaded?.version ?? version;
  const isDecided = !loaded || (loaded.version && seq === version.seq);
  if (!isDecided || attributes !== version.attributes) return undefined;
  checkSourceConditions(request, version, sourceName);
  return version;
}

/**
 * Where the request demands something of the time of what it replaces: the number of that version,
 * or null where there is none. Throws `Refusal` AccessDenied or PreconditionFailed.
 */
async function checkTarget(context: Reserved<'object'>): Promise<number | null | undefined> {
  const { services, bucket, key, request, asked } = context;
  if (!isDated(request)) return undefined;
  await asked.authorizeKey('s3:GetObject', { wanted: 'stat' });
  const target = await findHead(services, bucket, key);
  checkReplaced(request, target && !target.isMarker ? target : null);
  return target?.seq ?? null;
}

const tokenForm = /^[!-~]{1,64}$/;
/** What of a request makes it another one. */
const askedHeaders = [
  ...['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since'],
  ...['if-match', 'if-none-match', 'if-modified-since', 'if-unmodified-since'].map(
    (name) => `${sourceName}-${name}`,
  ),
];

/** Throws `Refusal` InvalidArgument. */
function readToken({ request, requester, key }: Reserved<'object'>, source: string) {
  const text = request.headers['x-amz-client-token'];
  if (text === undefined) return null;
  if (!tokenForm.test(text)) throw invalidArgument('x-amz-client-token', text);
  const conditions = askedHeaders.map((name) => headerOf(request, name));
  return clientToken(requester, text, [key, source, ...conditions]);
}

function headerOf({ headers }: S3Request, name: string): string | undefined {
  const value = headers[name];
  return value === undefined ? undefined : String(value);
}

/**
 * Whether this was done before with the same token, which is then recorded. Throws `Refusal`
 * IdempotencyParameterMismatch where something else was.
 */
async function isRepeated(context: Reserved<'object'>, token: ClientToken): Promise<boolean> {
  const done = await findRename(context.services, context.bucket, token, Date.now());
  if (!done) return false;
  if (!Buffer.from(token.request).equals(done.request)) {
    throw new Refusal('IdempotencyParameterMismatch');
  }
  const detail = { change: { clientToken: shownToken(token), repeats: done.seq } };
  const failed = await context.recordNow(200, null, detail);
  if (failed !== null) throw new Refusal(failed);
  return true;
}

/** As records have it: nobody can ask again with what they say. */
function shownToken({ id, request }: ClientToken): { id: string; request: string } {
  return {
    id: Buffer.from(id).toString('hex'),
    request: Buffer.from(request).toString('hex'),
  };
}
