// The way of every request for what is stored, in one function. What follows "decide" costs the
// client or the store something, so nothing before it reads the body; what follows the commit must
// succeed.
import type { S3Action } from '../authz/grants/actions.ts';
import type { Identity } from '../authz/identity.ts';
import { IntegrityError, isOutOfDescriptors, isUnwritable, Refusal } from '../core/errors.ts';
import { localStore } from '../core/manifest.ts';
import type { Metrics } from '../instruments/metrics.ts';
import type { Places } from './asked-rights.ts';
import { checkVersionId } from './asked-version.ts';
import { ClientGone, declaredBodyBytes, declaredWireBytes } from './body.ts';
import { lookUpBucket, type NamedBucket, publicBucketName } from './bucket-lookup.ts';
import type { Ask } from './budget.ts';
import { Context, type Reply } from './context.ts';
import { nameSource } from './copy-source.ts';
import type { Exchange } from './exchange.ts';
import { checkExpectedOwner } from './expected-owner.ts';
import { standardClass } from './object-attributes.ts';
import { noTags } from './object-tags.ts';
import type { Operation } from './operation.ts';
import { countCall } from './rate-gate.ts';
import { type DescribeRefusal, sendRefusal, sendReply } from './reply.ts';
import { header, parameter, type S3Request } from './request.ts';
import type { Rooms } from './rooms.ts';
import { refuseUnimplemented } from './routes.ts';

export interface Pipeline {
  rooms: Rooms;
  /** Told of each bug, with the request's id. */
  onBug: (error: unknown, requestId: string) => void;
  /** Told of each request that ends because what is stored is not what was written. */
  onIntegrityFailure: (error: IntegrityError, requestId: string) => void;
  /** Told of each request that a limit refused. */
  metrics: Pick<Metrics, 'countRefusal'>;
}

/** How requests of one kind come in; from there on all go the same way. */
export interface Entrance {
  /** Who asks for what. Throws a Refusal, of which there is no record: nobody is known. */
  enter(exchange: Exchange): Promise<Entered>;
  /** How a refusal is told to clients that come in here. */
  describeRefusal: DescribeRefusal;
}

export interface Entered {
  request: S3Request;
  who: Identity;
  /** Why who asks is refused whatever it is; null: they are not. */
  refused: Refusal | null;
  /** Of the body, what had to be read to know that. */
  receivedBytes?: number;
  /** Throws a Refusal. */
  findOperation(request: S3Request): Operation;
  /**
   * Who asks, where they were authenticated at `atMs`, as things are now (`Authenticator.renew`).
   * Throws a Refusal where the credential is good no more.
   */
  renew(atMs: number): Promise<Identity>;
}

/** Answers one request. Never rejects. Its clock is told, here and where it waits, what for. */
export async function serveRequest(
  pipeline: Pipeline,
  entrance: Entrance,
  exchange: Exchange,
): Promise<void> {
  const { rooms } = pipeline;
  const { clock } = exchange;
  let context: Context | null = null;
  // What is read from here on to decide by is at least as new.
  const { epoch } = rooms.ledger.rights;
  try {
    const entered = await entrance.enter(exchange);
    clock.enter('decide');
    const { request, who, receivedBytes = 0 } = entered;
    exchange.know(who);
    exchange.bytesIn = receivedBytes;
    const findAgain = async () => {
      const now = await entered.renew(asked.askedMs);
      return { who: now, ...(await findPlaces(asked, operation)) };
    };
    const asked = new Context({ rooms, request, exchange, who, epoch, findAgain });
    // Nothing is recorded of strangers who may do nothing: they could fill the log.
    if (!who.isAnonymous) context = asked;
    const operation = entered.findOperation(request);
    exchange.operation = operation.name;
    // Also what is refused at once was asked for.
    asked.concern(actionOf(operation, request), null);
    const { response } = exchange;
    const counted = countCall(rooms.rates, who, { waits: operation.price === 'free', response });
    if (counted) await clock.during('reserve', counted);
    if (entered.refused) throw entered.refused;
    await admit(asked, operation);
    context = asked;
    // What is written to a log that is not signed could never be proven.
    if (request.method !== 'GET' && request.method !== 'HEAD') rooms.log.checkWritable();
    clock.enter('reserve');
    const release = await reserve(context, operation);
    try {
      clock.enter('store');
      const reply = await operation.run(context);
      if (context.confirmation) await clock.during('commit', context.confirmation);
      if (!context.isRecorded) await clock.during('reserve', reserveAnswer(context, reply));
      clock.enter('firstByte');
      await sendReply(context, reply);
      clock.enter('commit');
      if (!context.isRecorded) await context.record(reply.status, null);
    } finally {
      release();
    }
  } catch (error) {
    const failure = await chargeable(context, error);
    const refusal = await recordFailure(pipeline, context, failure, exchange.id);
    context?.closeBudget();
    await sendRefusal(exchange, refusal, entrance.describeRefusal);
  } finally {
    context?.closeTallies();
    exchange.end();
  }
}

/** May who asks do this, and is there such a bucket? In this order: a stranger learns nothing. */
async function admit(context: Context, operation: Operation): Promise<void> {
  const { request, rooms } = context;
  const { resource, tags } = operation;
  const { found, source } = await findPlaces(context, operation, (bucket) => {
    context.concern(actionOf(operation, request), bucket);
    if (bucket) context.exchange.concern(bucket, rooms.stores);
  });
  if (source) context.exchange.touch(source.found.tenant);
  const given = tags?.(request) ?? noTags;
  // Most writes bring neither.
  if (given !== noTags || source) context.bring(given, source);
  await (operation.admit ?? decide)(context, operation);
  if (tags && context.tags.length > 0) await context.authorizeTags();
  refuseUnimplemented(request);
  if (context.versionId !== undefined) checkVersionId(context.versionId, 'versionId');
  if (found?.bucket) checkExpectedOwner(request, 'x-amz-expected-bucket-owner', found.bucket);
  if (found && !found.bucket && resource !== 'bucketName') {
    throw new Refusal('NoSuchBucket', { fields: { BucketName: request.bucketName ?? '' } });
  }
}

/** What the names mean now. `onFound`: told of the bucket before its source is looked for. */
async function findPlaces(
  { request, who, rooms }: Context,
  { resource, copies }: Operation,
  onFound: (found: NamedBucket | null) => void = () => {},
): Promise<Places> {
  const { tenant } = who.principal;
  const bucketName = who.isAnonymous
    ? publicBucketName(request, rooms.domains)
    : request.bucketName;
  const isNew = resource === 'bucketName';
  const found = bucketName === null ? null : await lookUpBucket(rooms, tenant, bucketName, isNew);
  if (found) rooms.distrust.checkBucket(found.tenant, found.name);
  onFound(found);
  const text = copies ? header(request, 'x-amz-copy-source') : undefined;
  const source = text === undefined ? null : await nameSource(rooms, tenant, text);
  if (source) rooms.distrust.checkBucket(source.found.tenant, source.found.name);
  return { found, source };
}

function actionOf({ action, versionAction }: Operation, request: S3Request): S3Action {
  return versionAction && parameter(request, 'versionId') !== undefined ? versionAction : action;
}

function decide(context: Context, operation: Operation): Promise<void> {
  const { request } = context;
  const { resource } = operation;
  const action = actionOf(operation, request);
  if (resource === 'object') {
    return context.authorizeKey(action, request.method === 'HEAD' ? { wanted: 'stat' } : {});
  }
  const isListing = resource === 'listing';
  return context.authorize(action, {
    listPrefix: isListing ? (parameter(request, 'prefix') ?? '') : null,
  });
}

/** Sets aside what the operation may use, as far as its headers tell; gives what ends that. */
async function reserve(context: Context, operation: Operation): Promise<() => void> {
  const { rooms, tenant, requester, request } = context;
  const bodyBytes = declaredBodyBytes(request, operation.bodyBytesMax);
  const { stores } = operation;
  const ask: Ask = {
    requests: 1,
    ingressBytes: Math.max(bodyBytes, declaredWireBytes(request, operation.bodyBytesMax)),
  };
  if (stores) {
    ask.storedBytes = bodyBytes;
    ask.storedObjects = stores === 'object' ? 1 : 0;
  }
  // What an object that is there, or an upload, costs to use is not known yet.
  if (stores || operation.resource !== 'object') ask.storageClass = standardClass;
  await context.openBudget(operation, ask);
  // What goes to a store over a network takes none of the disk's room.
  const isOnDisk = stores !== undefined && context.bucket.store === localStore;
  try {
    const room = rooms.diskRoom.open(tenant, requester, isOnDisk ? bodyBytes : 0);
    context.room = room;
    return () => room?.close();
  } catch (error) {
    context.closeBudget();
    throw error;
  }
}

function reserveAnswer({ request, budget }: Context, { body }: Reply): Promise<void> | null {
  if (request.method === 'HEAD' || body === null) return budget.reserveExpected();
  if (typeof body === 'string') return budget.reserveAnswer(Buffer.byteLength(body));
  return Buffer.isBuffer(body) ? budget.reserveAnswer(body.length) : budget.reserveExpected();
}

/** The error, or why there is not budget enough to answer with it. */
async function chargeable(context: Context | null, error: unknown): Promise<unknown> {
  if (context === null || context.isRecorded || refusalOf(error).status >= 500) return error;
  try {
    await context.reserveExpected();
    return error;
  } catch (refused) {
    return refused;
  }
}

/** What an error is answered with, once that is recorded. */
async function recordFailure(
  pipeline: Pipeline,
  context: Context | null,
  error: unknown,
  requestId: string,
): Promise<Refusal> {
  const refusal = refusalOf(error);
  if (refusal.code === 'InternalError') pipeline.onBug(error, requestId);
  const { Limit: meter, Window: window } = refusal.fields;
  if (refusal.code === 'QuotaExceeded' && meter !== undefined && window !== undefined) {
    pipeline.metrics.countRefusal(meter, window);
  }
  if (error instanceof IntegrityError) pipeline.onIntegrityFailure(error, requestId);
  if (!context || context.isRecorded) return refusal;
  const { method } = context.request;
  if ((method === 'GET' || method === 'HEAD') && !context.isStrictRead) {
    await context.record(refusal.status, refusal.code);
    return refusal;
  }
  const failed = await context.recordNow(refusal.status, refusal.code);
  // An answer without its record is not given.
  return failed === null ? refusal : new Refusal(failed);
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof IntegrityError) return new Refusal('BursarIntegrityError', { cause: error });
  if (error instanceof ClientGone) return new Refusal('RequestTimeout', { cause: error });
  if (isOutOfDescriptors(error) || isUnwritable(error)) {
    return new Refusal('ServiceUnavailable', { cause: error });
  }
  return new Refusal('InternalError', { cause: error });
}
