// The way of every request for what is stored, in one function. What follows "decide" costs the
// client or the store something, so nothing before it reads the body; what follows the commit must
// succeed.

import type { S3Action } from '../../authz/grants/actions.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import { IntegrityError, isOutOfDescriptors, isUnwritable, Refusal } from '../../core/errors.ts';
import { localStore } from '../../core/manifest.ts';
import type { Metrics } from '../../instruments/metrics.ts';
import type { Charged } from '../../quota/charge.ts';
import type { AccountList } from '../../quota/limited-accounts.ts';
import type { Exchange } from '../http/exchange.ts';
import { type DescribeRefusal, type Reply, sendRefusal, sendReply } from '../http/reply.ts';
import type { RequestServices } from '../services.ts';
import { AskedRequest } from './asked.ts';
import { checkVersionId } from './asked-version.ts';
import { ClientGone, declaredBodyBytes, declaredWireBytes } from './body.ts';
import { checkExpectedOwner, findBucket, type NamedBucket } from './bucket-lookup.ts';
import { chargedHeader, checkPayer, paysAsRequester } from './buckets/requester-pays.ts';
import { type Ask, Budget, payersOf } from './budget.ts';
import { findSource } from './copy-source.ts';
import { LimitAudience } from './limit-refusals.ts';
import { noTags } from './objects/object-attributes.ts';
import { standardClass } from './objects/written-class.ts';
import type { AnyOperation } from './operation.ts';
import { checkReadsQuery } from './query-mount.ts';
import { countCall, enterAtRate } from './rate-gate.ts';
import { isRead, parameter } from './request.ts';
import { ReservedRequest } from './reserved.ts';
import { refuseUnimplemented } from './routes.ts';
import { actionInSnapshot } from './snapshot-mount.ts';
import type { Identified, Recorded } from './stages.ts';

export interface Pipeline {
  services: RequestServices;
  /** Told of each bug, with the request's id. */
  onBug: (error: unknown, requestId: string) => void;
  /** Told of each request that ends because what is stored is not what was written. */
  onIntegrityFailure: (error: IntegrityError, requestId: string) => void;
  /** Told of each request that a limit refused. */
  metrics: Pick<Metrics, 'countRefusal'>;
}

/** How requests of one kind come in; from there on all go the same way. */
export interface Entrance {
  /**
   * Who asks for what. Throws, or rejects with, a Refusal, of which there is no record: nobody is
   * known.
   */
  enter(exchange: Exchange): Promise<Identified>;
  /** How a refusal is told to clients that come in here. */
  describeRefusal: DescribeRefusal;
}

/** Answers one request. Never rejects. Its clock is told, here and where it waits, what for. */
export async function serveRequest(
  pipeline: Pipeline,
  entrance: Entrance,
  exchange: Exchange,
): Promise<void> {
  const { services } = pipeline;
  const { clock } = exchange;
  // What is read from here on to decide by is at least as new.
  const { epoch } = services.ledger.rights;
  // Nothing is recorded of strangers who may do nothing: they could fill the log.
  let recorded: Recorded | null = null;
  let asked: AskedRequest | null = null;
  let reserved: ReservedRequest | null = null;
  try {
    const identified = await entrance.enter(exchange);
    clock.enter('decide');
    const { request, who, receivedBytes = 0 } = identified;
    exchange.know(who);
    exchange.bytesIn = receivedBytes;
    asked = new AskedRequest(services, exchange, identified, epoch);
    if (!who.isAnonymous) recorded = asked;
    let operation: AnyOperation;
    try {
      operation = identified.findOperation(request);
    } catch (error) {
      throw await tellMissing(services, identified, error);
    }
    exchange.operation = operation.name;
    // Also what is refused at once was asked for.
    asked.concern(operation);
    const { response } = exchange;
    if (who.delegation || !services.rates.isEmpty) {
      const counted = countCall(services.rates, who, {
        waits: operation.price === 'free',
        response,
      });
      if (counted) await clock.during('reserve', counted);
    }
    if (identified.refused) throw identified.refused;
    const { input, decided } = await admit(asked, operation);
    recorded = asked;
    // What is written to a log that is not signed could never be proven.
    if (!isRead(request)) services.log.checkWritable();
    clock.enter('reserve');
    const ask = askOf(asked, operation);
    reserved = await enter(asked, operation);
    recorded = reserved;
    if (operation.reserves) reserved.budget.expect(ask);
    else {
      const reserving = reserved.budget.reserve(ask);
      if (reserving) await reserving;
    }
    try {
      // What goes to a store over a network takes none of the disk's room.
      const isOnDisk = operation.stores !== undefined && asked.bucket?.store === localStore;
      const { tenant, requester, bodyBytes } = reserved;
      if (isOnDisk) {
        const wanted = { tenant, principal: requester, bytes: bodyBytes };
        const opening = services.diskRoom.open(wanted);
        reserved.room = opening instanceof Promise ? await opening : opening;
      }
      clock.enter('store');
      const reply = await operation.run(reserved, input, decided);
      if (asked.at) await asked.checkShown();
      if (reserved.confirmation) await clock.during('commit', reserved.confirmation);
      const answering = reserved.isRecorded ? null : reserveAnswer(reserved, reply);
      if (answering) await clock.during('reserve', answering);
      clock.enter('firstByte');
      if (paysAsRequester(asked, asked.bucket)) Object.assign(reply.headers, chargedHeader);
      await sendReply(reserved, reply);
      clock.enter('commit');
      const recording = reserved.isRecorded ? null : reserved.record(reply.status, null);
      if (recording) await recording;
    } catch (error) {
      // What was not committed is nobody's.
      if (reserved.sink) await reserved.sink.abort();
      throw error;
    } finally {
      reserved.room?.close();
    }
  } catch (error) {
    const failure = await chargeable(reserved, error);
    const refusal = await recordFailure(pipeline, recorded, failure, exchange);
    reserved?.budget.void();
    await sendRefusal(exchange, refusal, entrance.describeRefusal);
  } finally {
    reserved?.closeTallies();
    exchange.end();
    // Now, so that no time of an answer tells whether there is such a bucket.
    if (asked?.bucket) services.bucketMetrics.count(asked.bucket, asked.key, exchange);
  }
}

/**
 * Why there is no such operation. As on S3, that a bucket is not there is told before that, to who
 * may know it: to the members of its tenant.
 */
async function tellMissing(
  services: RequestServices,
  { request, who }: Identified,
  error: unknown,
): Promise<unknown> {
  if (!(error instanceof Refusal) || error.code !== 'NotImplemented') return error;
  const { isAnonymous, delegation, principal } = who;
  if (isAnonymous || delegation || principal.role === 'auditor') return error;
  let found: NamedBucket | null;
  try {
    found = await findBucket(services, request, who, 'bucket');
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) throw refusal;
    // What cannot be a bucket's name is the path of another operation, such as POST
    // /WriteGetObjectResponse.
    return error;
  }
  if (!found || found.bucket || found.tenant !== principal.tenant) return error;
  return new Refusal('NoSuchBucket', { fields: { BucketName: request.bucketName ?? '' } });
}

/** May who asks do this, and is there such a bucket? In this order: a stranger learns nothing. */
async function admit(
  asked: AskedRequest,
  operation: AnyOperation,
): Promise<{ input: unknown; decided: unknown }> {
  const { request, services, who, exchange } = asked;
  const { resource, tags } = operation;
  const finding = findBucket(services, request, who, resource);
  const found = finding instanceof Promise ? await finding : finding;
  asked.place(found);
  if (found?.where !== undefined) checkReadsQuery(request, operation);
  if (found?.at) asked.action = actionInSnapshot(request, operation);
  if (found) exchange.concern(found, services.stores);
  const source = resource === 'copy' ? await findSource(services, request, who, resource) : null;
  if (source) exchange.touch(source.found.tenant);
  const given = tags?.(request) ?? noTags;
  // Most writes bring neither.
  if (given !== noTags || source) asked.bring(given, source);
  const input = operation.parse ? await parse(asked, operation) : undefined;
  const decided = await (operation.admit?.(asked, input) ?? decide(asked, operation));
  if (tags && asked.tags.length > 0) await asked.authorizeTags();
  refuseUnimplemented(request);
  if (asked.versionId !== undefined) checkVersionId(asked.versionId, 'versionId');
  if (found?.bucket) checkExpectedOwner(request, 'x-amz-expected-bucket-owner', found.bucket);
  if (found && !found.bucket && resource !== 'bucketName') {
    throw new Refusal('NoSuchBucket', { fields: { BucketName: request.bucketName ?? '' } });
  }
  if (resource !== 'bucketName') checkPayer(asked, asked.bucket);
  return { input, decided };
}

/** Reads what the decision depends on. */
function parse(asked: AskedRequest, operation: AnyOperation): Promise<unknown> | undefined {
  asked.bodyBytes = declaredBodyBytes(asked.request, operation.bodyBytesMax);
  return operation.parse?.(asked);
}

function decide(
  asked: AskedRequest,
  { action, versionAction, resource }: AnyOperation,
): Promise<void> {
  const { request, versionId } = asked;
  const isOfVersion = versionAction && versionId !== undefined;
  const wanted = asked.at ? (asked.action as S3Action) : isOfVersion ? versionAction : action;
  if (resource === 'object' || resource === 'copy') {
    return asked.authorizeKey(wanted, request.method === 'HEAD' ? { wanted: 'stat' } : {});
  }
  const isListing = resource === 'listing';
  return asked.authorize(wanted, {
    listPrefix: isListing ? (parameter(request, 'prefix') ?? '') : null,
  });
}

/** What the operation may use, as far as its headers tell. Throws `Refusal`. */
function askOf(asked: AskedRequest, { bodyBytesMax, stores, resource }: AnyOperation): Ask {
  const { request } = asked;
  const bodyBytes = declaredBodyBytes(request, bodyBytesMax);
  asked.bodyBytes = bodyBytes;
  const ask: Ask = {
    requests: 1,
    ingressBytes: Math.max(bodyBytes, declaredWireBytes(request, bodyBytesMax)),
  };
  if (stores) {
    ask.storedBytes = bodyBytes;
    ask.storedObjects = stores === 'object' ? 1 : 0;
  }
  // What an object that is there, or an upload, costs to use is not known yet.
  const isOfObject = resource === 'object' || resource === 'copy';
  if (stores || !isOfObject) ask.storageClass = standardClass;
  return ask;
}

/**
 * Lets in who may do it, at the rates of all who pay: from here on it costs. Rejects with `Refusal`
 * SlowDown.
 */
async function enter(
  asked: AskedRequest,
  { price, resource }: AnyOperation,
): Promise<ReservedRequest> {
  const { services, who, exchange } = asked;
  // Who asks for a new bucket by a name that is taken asks nothing of the bucket that has it.
  const bucket = resource === 'bucketName' ? null : asked.bucket;
  const book = services.bookOf(bucket?.store ?? localStore);
  const { delegation, principal } = who;
  for (const { name, limits, expiresAtMs } of delegation?.accounts ?? []) {
    if (!limits) continue;
    const { tenant, name: principalName } = principal;
    services.leaseHolder.introduce(name, { tenant, principal: principalName, expiresAtMs, limits });
  }
  const charged = payersOf(who, asked.tenant, bucket, limitedOf(asked, bucket, price));
  const audience = () => new LimitAudience(who, bucket, asked.askedName);
  const terms = { who, waits: price === 'free', audience, exchange };
  const entered = services.rates.isEmpty ? null : await enterAtRate(services.rates, charged, terms);
  // Their rates are asked of all, but who reads in the owner's place pays alone.
  const payers = isRead(asked.request) ? readersOf(asked, bucket, charged) : charged;
  const budget = new Budget(services.leaseHolder, { payers, price, book, audience });
  return new ReservedRequest(asked, budget, entered);
}

/** The prefixes with limits that its key begins with, and who asks, if that is to write. */
function limitedOf(
  { services: { limitedAccounts }, key, requester }: AskedRequest,
  bucket: Bucket | null,
  price: AnyOperation['price'],
): AccountList | undefined {
  if (limitedAccounts.isEmpty || !bucket || key === null) return undefined;
  const writer = price === 'put' ? requester : null;
  return limitedAccounts.of({ tenant: bucket.tenant, bucket: bucket.name, key, writer });
}

/** Who pays for a read. */
function readersOf(asked: AskedRequest, bucket: Bucket | null, charged: Charged): Charged {
  if (paysAsRequester(asked, bucket)) return payersOf(asked.who, asked.tenant, null);
  if (!bucket?.publicAccess?.tenantPays || !charged.bucket) return charged;
  return { ...charged, bucket: { ...charged.bucket, payer: 'tenant' } };
}

function reserveAnswer(
  { request, budget }: ReservedRequest,
  { body }: Reply,
): Promise<void> | null {
  if (request.method === 'HEAD' || body === null) return budget.reserveExpected();
  if (typeof body === 'string') return budget.reserveAnswer(Buffer.byteLength(body));
  return Buffer.isBuffer(body) ? budget.reserveAnswer(body.length) : budget.reserveExpected();
}

/** The error, or why there is not budget enough to answer with it. */
async function chargeable(reserved: ReservedRequest | null, error: unknown): Promise<unknown> {
  if (!reserved || reserved.isRecorded || refusalOf(error).status >= 500) return error;
  try {
    await reserved.budget.reserveExpected();
    return error;
  } catch (refused) {
    return refused;
  }
}

/** What an error is answered with, once that is recorded. */
async function recordFailure(
  pipeline: Pipeline,
  recorded: Recorded | null,
  error: unknown,
  { id: requestId, method }: Exchange,
): Promise<Refusal> {
  const refusal = refusalOf(error);
  if (refusal.code === 'InternalError') pipeline.onBug(error, requestId);
  const { Limit: meter, Window: window } = refusal.fields;
  if (refusal.code === 'QuotaExceeded' && meter !== undefined && window !== undefined) {
    pipeline.metrics.countRefusal(meter, window);
  }
  const damage = refusal.code === 'BursarObjectLost' ? refusal.cause : error;
  if (damage instanceof IntegrityError) pipeline.onIntegrityFailure(damage, requestId);
  if (!recorded || recorded.isRecorded) return refusal;
  if (isRead({ method }) && !recorded.isStrictRead) {
    await recorded.record(refusal.status, refusal.code);
    return refusal;
  }
  const failed = await recorded.recordNow(refusal.status, refusal.code);
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
