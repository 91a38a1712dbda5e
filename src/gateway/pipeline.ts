// The way of every S3 request, in one function. What follows "decide" costs the client or the store
// something, so nothing before it reads the body; what follows the commit must succeed.
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authenticator } from '../authz/authenticate.ts';
import { decide } from '../authz/decide.ts';
import type { Bucket } from '../catalog/buckets.ts';
import { IntegrityError, Refusal } from '../core/errors.ts';
import { xmlBytesMax } from '../core/limits.ts';
import { localStore } from '../core/manifest.ts';
import type { Reservation } from '../quota/reservations.ts';
import { ClientGone, declaredBodyBytes } from './body.ts';
import { checkBucketName } from './bucket-name.ts';
import { Context, type Rooms } from './context.ts';
import { checkExpectedOwner } from './expected-owner.ts';
import type { Operation } from './operation.ts';
import { sendRefusal, sendReply } from './reply.ts';
import { beginRequest, parseRequest, type S3Request } from './request.ts';
import { findOperation } from './routes.ts';

export interface Pipeline {
  rooms: Rooms;
  authenticator: Authenticator;
  /** Told of each bug, with the request's id. */
  onBug: (error: unknown, requestId: string) => void;
  /** Told of each request that ends because what is stored is not what was written. */
  onIntegrityFailure: (error: IntegrityError, requestId: string) => void;
}

/** Answers one S3 request. Never rejects. */
export async function serveRequest(
  pipeline: Pipeline,
  raw: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const { rooms, authenticator } = pipeline;
  const begun = beginRequest(raw);
  let context: Context | null = null;
  try {
    const request = parseRequest(raw, begun, rooms.domains);
    const who = await authenticator.authenticate(request);
    if (who === null) {
      // Says so where it is the gateway that lacks something, not the client.
      findOperation(request);
      throw new Refusal('AccessDenied');
    }
    context = new Context({ rooms, request, response, who });
    const operation = findOperation(request);
    await admit(context, operation);
    const reservation = reserve(context, operation);
    try {
      const reply = await operation.run(context);
      if (context.confirmation) await context.confirmation;
      await sendReply(context, reply);
      reservation.post();
      if (context.index === null) await context.record(reply.status, null);
    } finally {
      reservation.void();
    }
  } catch (error) {
    await answerFailure(pipeline, { raw, response, requestId: begun.id, context }, error);
  }
}

/** May who asks do this, and is there such a bucket? In this order: a stranger learns nothing. */
async function admit(context: Context, operation: Operation): Promise<void> {
  const { request, who, rooms } = context;
  const { tenant } = who.principal;
  const bucket = await findNamedBucket(rooms, request, tenant);
  context.concern(operation.action, bucket);
  const resource = bucket ?? { tenant, owner: null };
  const decision = decide(who.principal, operation.action, resource);
  if (!decision.allowed) throw new Refusal('AccessDenied', { cause: decision.reason });
  if (bucket) checkExpectedOwner(request, 'x-amz-expected-bucket-owner', bucket);
  if (!bucket && (operation.resource === 'bucket' || operation.resource === 'object')) {
    throw new Refusal('NoSuchBucket', { fields: { BucketName: request.bucketName ?? '' } });
  }
}

async function findNamedBucket(
  rooms: Rooms,
  request: S3Request,
  tenant: string,
): Promise<Bucket | undefined> {
  if (request.bucketName === null) return undefined;
  checkBucketName(request.bucketName);
  return rooms.buckets.find(tenant, request.bucketName);
}

function reserve(context: Context, operation: Operation): Reservation {
  const bodyBytes = declaredBodyBytes(context.request, operation.bodyBytesMax);
  // Documents are not stored: a full disk must still take the one that empties it. Neither does what
  // goes to a store over a network take its room.
  const isStored = operation.bodyBytesMax > xmlBytesMax && context.bucket.store === localStore;
  const ingressBytes = isStored ? bodyBytes : 0;
  return context.rooms.reservations.reserve(context.requester, { ingressBytes, egressBytes: 0 });
}

async function answerFailure(
  pipeline: Pipeline,
  request: {
    raw: IncomingMessage;
    response: ServerResponse;
    requestId: string;
    context: Context | null;
  },
  error: unknown,
): Promise<void> {
  const { context, requestId } = request;
  const refusal = refusalOf(error);
  if (refusal.code === 'InternalError') pipeline.onBug(error, requestId);
  if (error instanceof IntegrityError) pipeline.onIntegrityFailure(error, requestId);
  if (context && context.index === null) await context.record(refusal.status, refusal.code);
  await sendRefusal(request, refusal);
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  if (error instanceof IntegrityError) return new Refusal('BursarIntegrityError', { cause: error });
  if (error instanceof ClientGone) return new Refusal('RequestTimeout', { cause: error });
  return new Refusal('InternalError', { cause: error });
}
