// Receiving a body: de-chunking, back-pressure, and the comparison of every digest that the client
// sent with what arrived. A body of an object goes to a sink as it comes; nothing holds it whole.
// The small XML bodies are collected, within limits: each body's own, and one for all that come in
// at a time.
import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { AwsChunkedDecoder, trailerNames } from '../../authz/aws-chunked.ts';
import { invalidArgument, Refusal } from '../../core/errors.ts';
import { xmlBytesMax } from '../../core/limits.ts';
import { discard } from '../../core/spent-bytes.ts';
import { type ChecksumAlgorithm, computeChecksum, loadChecksums } from '../../tiering/checksums.ts';
import { ShapedIntake } from '../http/shaped-body.ts';
import { SmallBody } from '../http/small-body.ts';
import type { ClaimedChecksum } from './objects/checksum-headers.ts';
import { claimedChecksum, decodeChecksum } from './objects/checksum-headers.ts';
import { openSink, type Upload, type UploadPlace } from './objects/object-upload.ts';
import type { S3Request } from './request.ts';
import type { Asked, Reserved } from './stages.ts';

/** The client went away or fell silent: there is nobody to answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

/**
 * The size of the body after de-chunking, from the headers alone. Throws `Refusal`
 * MissingContentLength, InvalidArgument, EntityTooLarge or MaxMessageLengthExceeded.
 */
export function declaredBodyBytes(request: S3Request, bodyBytesMax = 0): number {
  const decoded = request.headers['x-amz-decoded-content-length'];
  const length = request.headers['content-length'];
  const hasBody = length !== undefined || request.headers['transfer-encoding'] !== undefined;
  if (bodyBytesMax === 0 || !hasBody) return 0;
  // Of frames nothing else tells the length, so what cannot be read is as good as missing.
  const bytes = isChunked(request)
    ? parseLength(/^\d+$/.test(decoded ?? '') ? decoded : undefined)
    : parseLength(length);
  if (bytes <= bodyBytesMax) return bytes;
  if (bodyBytesMax <= xmlBytesMax) throw new Refusal('MaxMessageLengthExceeded');
  const fields = { ProposedSize: String(bytes), MaxSizeAllowed: String(bodyBytesMax) };
  throw new Refusal('EntityTooLarge', { fields });
}

/**
 * What of the body comes in on the wire, with the frames of aws-chunked and the fields of a form,
 * as far as the headers tell; of a body that nobody reads, nothing. Throws `Refusal`
 * InvalidArgument.
 */
export function declaredWireBytes({ raw }: S3Request, bodyBytesMax = 0): number {
  const length = raw.headers['content-length'];
  return bodyBytesMax === 0 || length === undefined ? 0 : parseLength(length);
}

/** Whether the payload is in aws-chunked frames, as its digest header says. */
export function isChunked(request: S3Request): boolean {
  return request.headers['x-amz-content-sha256']?.startsWith('STREAMING-') ?? false;
}

function parseLength(text: string | undefined): number {
  if (text === undefined) throw new Refusal('MissingContentLength');
  if (!/^\d{1,15}$/.test(text)) throw invalidArgument('Content-Length', text);
  return Number(text);
}

/** Takes the bytes that are meant out of those of the body. */
export interface BodyDecoder {
  /** Feeds bytes of the body; calls `emit` with slices of what they hold. Throws `Refusal`. */
  push(bytes: Buffer, emit: (data: Buffer) => void): void;
  /** At the end of the body. Throws `Refusal`. */
  finish(): void;
  /** By lower-case names; complete once `finish` has returned. */
  readonly trailers: ReadonlyMap<string, string>;
}

/** A request whose body may come: while it is decided, or once what it may use is set aside. */
type Receiving = Asked | Reserved;

/**
 * Sends the body into a sink of the request's own, and compares its digests. `fallback`: the
 * checksum that is computed when the client sends none, and beside its own where it `isWanted` in
 * any case; `decoder`: where the object is only a part of the body.
 */
export async function receiveObject(
  context: Reserved<'object'>,
  fallback: { algorithm: ChecksumAlgorithm; isWanted?: true },
  { decoder, ...place }: UploadPlace & { decoder?: BodyDecoder },
): Promise<Upload> {
  const { request } = context;
  // The frames of aws-chunked may come in HTTP chunks: then only the decoded length is known, which
  // is how the AWS SDK for JavaScript sends a stream.
  if (request.headers['content-length'] === undefined && !isChunked(request)) {
    throw new Refusal('MissingContentLength');
  }
  const md5 = claimedMd5(request);
  const claimed = claimedChecksum(request);
  const algorithms = new Set(claimed && [claimed.algorithm]);
  if (!claimed || fallback.isWanted) algorithms.add(fallback.algorithm);
  const named = [...algorithms];
  const { payload } = context.who;
  if (place.customer) {
    place.customer.compared = { md5: md5 !== null, sha256: payload.kind === 'sha256' };
    await loadChecksums(named);
  }
  const sink = openSink(context, { ...place, sizeBytes: context.bodyBytes, checksums: named });
  const trailers = await receive(context, sink, decoder);
  const digests = await sink.digest();
  const sent = place.customer ? { ...digests.sent } : digests;
  if (md5) compareMd5(md5, sent.md5, place.upload ? 'base64' : 'hex');
  if (payload.kind === 'sha256') comparePayload(payload.sha256, sent.sha256);
  if (claimed) compareChecksum(claimed, trailers, digests.checksums[0]);
  const checksums = digests.checksums.map((checksum, i) => ({
    algorithm: named[i] as ChecksumAlgorithm,
    value: checksum.toString('base64'),
  }));
  return { sink, digests, checksums };
}

/**
 * A small body, whole, with its digests compared. `about: 'object'`: the request's checksum is of
 * the object that the body speaks of, not of the body. Refusal SlowDown when there is no memory for
 * it beside the others that are coming in: mostly before any of it is read.
 */
export async function receiveSmall(
  context: Receiving,
  about: 'body' | 'object' = 'body',
): Promise<Buffer> {
  const { request } = context;
  const md5 = claimedMd5(request);
  const claimed = about === 'body' ? claimedChecksum(request) : null;
  const { body, trailers } = await collect(context);
  if (md5) compareMd5(md5, createHash('md5').update(body).digest());
  const { payload } = context.who;
  if (payload.kind === 'sha256') {
    comparePayload(payload.sha256, createHash('sha256').update(body).digest());
  }
  if (claimed) {
    await loadChecksums([claimed.algorithm]);
    compareChecksum(claimed, trailers, computeChecksum(claimed.algorithm, body));
  }
  return body;
}

async function collect(
  context: Receiving,
): Promise<{ body: Buffer; trailers: ReadonlyMap<string, string> }> {
  const collected = new SmallBody(context.services.smallBodies, context, context.bodyBytes);
  try {
    const received = receive(context, collected);
    const trailers = await Promise.race([received, collected.evicted]);
    return { body: collected.bytes, trailers };
  } finally {
    collected.close();
  }
}

/**
 * Who loses the right to what a body is for while it comes is asked at most this often,
 * milliseconds; the commit asks in any case.
 */
const reconsiderMs = 1000;

const noTrailers: ReadonlyMap<string, string> = new Map();

/** Lets the client send, and feeds what it sends. Resolves with the verified trailers. */
async function receive(
  context: Receiving,
  sink: { write(data: Buffer): Promise<void> | null },
  formDecoder?: BodyDecoder,
): Promise<ReadonlyMap<string, string>> {
  const { request, who, exchange, clock } = context;
  const decoder = formDecoder ?? createDecoder(context);
  const [asked, reserved] =
    'budget' in context ? ([context.asked, context] as const) : ([context, null] as const);
  const before = clock.enter('stream');
  if (request.expectsContinue) exchange.response.writeContinue();
  let plainBytes = 0;
  let isOver = false;
  const store = (data: Buffer): Promise<void> | null => {
    const covering = reserved?.room?.arrive(data.length);
    const writing = covering
      ? covering.then(() => sink.write(data) ?? undefined)
      : sink.write(data);
    return writing && clock.during('store', writing);
  };
  const intake = reserved?.shaped && new ShapedIntake(reserved.shaped, store);
  const put = intake ? (data: Buffer) => intake.write(data) : store;
  const take = (chunk: Buffer): Promise<void> | null => {
    // The client may have left while this was being reserved: then it is neither charged nor kept.
    if (isOver) return null;
    exchange.bytesIn += chunk.length;
    if (!decoder) {
      plainBytes += chunk.length;
      return put(chunk);
    }
    const slices: Buffer[] = [];
    decoder.push(chunk, (data) => slices.push(data));
    return writeAll(slices, 0, put);
  };
  const feed = (chunk: Buffer): Promise<unknown> | null => {
    intake?.count(chunk.length);
    const comeBytes = exchange.bytesIn + chunk.length;
    const isMore = reserved && comeBytes > reserved.budget.ingressBytes;
    const reserving = isMore && reserved.budget.receive(comeBytes);
    const taken = reserving
      ? clock.during('reserve', reserving).then(() => take(chunk) ?? undefined)
      : take(chunk);
    // It has come in whatever is decided: it counts.
    const fed = intake ? intake.after(taken) : taken;
    // What reads a form keeps bytes until it knows whether they begin its end.
    if (!formDecoder) discardAfter(taken, chunk);
    const reconsidered = asked.reconsider(reconsiderMs);
    return reconsidered ? Promise.all([fed, reconsidered]) : fed;
  };
  try {
    await consume(request.raw, feed);
  } finally {
    isOver = true;
  }
  if (intake) await intake.finish();
  clock.enter(before);
  if (decoder) {
    decoder.finish();
    return decoder.trailers;
  }
  if (plainBytes !== context.bodyBytes) throw new Refusal('IncompleteBody');
  if (who.payload.kind === 'signed-chunks' || who.payload.kind === 'unsigned-chunks') {
    throw new Refusal('InvalidRequest', { message: 'The body must be aws-chunked.' });
  }
  return noTrailers;
}

/** Bytes whose writing failed are left alone: who writes may not have ended. */
function discardAfter(taken: Promise<unknown> | null, chunk: Buffer): void {
  if (!taken) discard(chunk);
  else {
    taken.then(
      () => discard(chunk),
      () => {},
    );
  }
}

function createDecoder(context: Receiving): AwsChunkedDecoder | null {
  const { payload } = context.who;
  if (payload.kind !== 'signed-chunks' && payload.kind !== 'unsigned-chunks') return null;
  const signed = payload.kind === 'signed-chunks';
  return new AwsChunkedDecoder({
    decodedBytes: context.bodyBytes,
    seed: signed ? payload.seed : null,
    trailer: signed ? payload.trailer : true,
    trailerNames: trailerNames(context.request.headers),
  });
}

function writeAll(
  slices: Buffer[],
  from: number,
  write: (data: Buffer) => Promise<void> | null,
): Promise<void> | null {
  for (let i = from; i < slices.length; i++) {
    const waiting = write(slices[i] as Buffer);
    if (waiting) return waiting.then(() => writeAll(slices, i + 1, write) ?? undefined);
  }
  return null;
}

/** Reads a message to its end; `feed` may ask to wait. Never destroys the message. */
export function consume(
  raw: IncomingMessage,
  feed: (chunk: Buffer) => Promise<unknown> | null,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let isWaiting = false;
    let hasEnded = false;
    const settle = (error: unknown): void => {
      raw.off('data', onData);
      raw.off('end', onEnd);
      raw.off('close', onClose);
      raw.off('error', onClose);
      if (error === null) resolve();
      else {
        raw.pause();
        reject(error);
      }
    };
    const onData = (chunk: Buffer): void => {
      let waiting: Promise<unknown> | null;
      try {
        waiting = feed(chunk);
      } catch (error) {
        settle(error);
        return;
      }
      if (!waiting) return;
      raw.pause();
      isWaiting = true;
      waiting.then(goOn, settle);
    };
    const goOn = (): void => {
      isWaiting = false;
      if (hasEnded) settle(null);
      else raw.resume();
    };
    // A message that is paused ends all the same when its last chunk was given out.
    const onEnd = (): void => {
      hasEnded = true;
      if (!isWaiting) settle(null);
    };
    // It is closed, too, once it has ended.
    const onClose = (): void => {
      if (!hasEnded) settle(new ClientGone('the client closed the connection'));
    };
    raw.on('data', onData);
    raw.on('end', onEnd);
    raw.on('close', onClose);
    raw.on('error', onClose);
    if (raw.readableEnded) onEnd();
    else if (raw.destroyed) onClose();
    // Of a form the beginning was read already, and the message was paused then.
    else raw.resume();
  });
}

function claimedMd5(request: S3Request): Buffer | null {
  const text = request.headers['content-md5'];
  if (text === undefined) return null;
  const md5 = Buffer.from(text, 'base64');
  if (md5.length !== 16 || md5.toString('base64') !== text.trim()) throw invalidMd5(text);
  return md5;
}

function invalidMd5(text: string): Refusal {
  const message = 'The Content-MD5 you specified was invalid.';
  return new Refusal('InvalidDigest', { message, fields: { 'Content-MD5': text } });
}

/** `shown`: as S3 gives the claim back, in hexadecimal, but base64 of a part. */
function compareMd5(
  claimed: Buffer,
  actual: Buffer | undefined,
  shown: 'hex' | 'base64' = 'hex',
): void {
  if (!actual) throw new Error('the body was not digested');
  if (claimed.equals(actual)) return;
  const fields = {
    ExpectedDigest: claimed.toString(shown),
    CalculatedDigest: actual.toString('base64'),
  };
  const message = 'The Content-MD5 you specified did not match what we received.';
  throw new Refusal('BadDigest', { message, fields });
}

function comparePayload(signed: Buffer, actual: Buffer | undefined): void {
  if (!actual) throw new Error('the body was not digested');
  if (timingSafeEqual(signed, actual)) return;
  const fields = {
    ClientComputedContentSHA256: signed.toString('hex'),
    S3ComputedContentSHA256: actual.toString('hex'),
  };
  throw new Refusal('XAmzContentSHA256Mismatch', { fields });
}

function compareChecksum(
  claimed: ClaimedChecksum,
  trailers: ReadonlyMap<string, string>,
  actual: Buffer | undefined,
): void {
  const text = claimed.value ?? trailers.get(claimed.headerName);
  if (text === undefined)
    throw new Refusal('InvalidRequest', { message: 'The checksum trailer is missing.' });
  const expected = decodeChecksum(claimed.algorithm, text);
  if (actual?.equals(expected)) return;
  const message = `The ${claimed.algorithm} you specified did not match the calculated checksum.`;
  throw new Refusal('BadDigest', { message });
}
