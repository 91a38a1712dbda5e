// What operations answer with, and sending it. A stream's first chunk is verified before the status
// line goes out, so damage found there is a clean 500; damage found later cuts the connection, so
// no client takes the body for whole.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Refusal } from '../../core/errors.ts';
import { ClientGone } from '../s3/body.ts';
import type { Reserved } from '../s3/stages.ts';
import { challengeOf } from './challenge.ts';
import type { Exchange } from './exchange.ts';
import { hasBody } from './message-body.ts';
import { sendInTurns } from './shaped-body.ts';
import {
  renderErrorXml,
  renderLargeXml,
  renderXml,
  type XmlContent,
  type XmlElements,
} from './xml.ts';

/** An answer. A generator gives verified bytes that are valid until the next is asked for. */
export interface Reply {
  status: number;
  headers: Record<string, string>;
  body: string | Buffer | AsyncGenerator<Buffer, void, void> | null;
}

const xmlHeaders = { 'content-type': 'application/xml' };

/** 200 with an S3 document. */
export function xmlReply(root: string, content: XmlContent): Reply {
  return { status: 200, headers: { ...xmlHeaders }, body: renderXml(root, content) };
}

/** The same of what may have many elements, in which others have their turns. */
export async function largeXmlReply(
  root: string,
  content: XmlElements | readonly XmlElements[],
): Promise<Reply> {
  return { status: 200, headers: { ...xmlHeaders }, body: await renderLargeXml(root, content) };
}

/** A status and headers without a body. */
export function emptyReply(status: number, headers: Record<string, string> = {}): Reply {
  return { status, headers, body: null };
}

/** An entity tag as headers and documents have it. */
export function quoted(etag: string): string {
  return `"${etag}"`;
}

/**
 * How much of a refused body is read and thrown away, and for how long, so the answer is not lost:
 * a client that is busy sending sees it late, and never if the connection was reset before.
 */
const lingerBytesMax = 32 * 1024 * 1024;
const lingerMs = 3000;

/**
 * Sends a reply to its end; counts the body bytes in the context. Throws when the client is gone.
 */
export async function sendReply(context: Reserved<'service'>, reply: Reply): Promise<void> {
  const { request, response, exchange } = context;
  const { headers, body } = reply;
  const withBody = request.method !== 'HEAD' && body !== null;
  const isWhole = typeof body === 'string' || Buffer.isBuffer(body);
  if ((isWhole || body === null) && context.isStrictRead) {
    await recordStrictly(context, reply.status, withBody ? Buffer.byteLength(body) : 0);
  }
  context.tellLimits(headers);
  if (isWhole) {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    if (request.method !== 'HEAD') headers['content-length'] = String(bytes.length);
    if (withBody && context.shaped) {
      return sendStream(context, reply.status, headers, sendInTurns(context.shaped, bytes));
    }
    exchange.writeHead(reply.status, headers);
    if (withBody && !response.destroyed) exchange.bytesOut += bytes.length;
    response.end(withBody ? bytes : undefined);
    return;
  }
  if (!withBody) {
    if (request.method !== 'HEAD' && reply.status !== 204 && reply.status !== 304) {
      headers['content-length'] ??= '0';
    }
    exchange.writeHead(reply.status, headers);
    response.end();
    return;
  }
  await sendStream(context, reply.status, headers, body);
}

async function sendStream(
  context: Reserved<'service'>,
  status: number,
  headers: Record<string, string>,
  chunks: AsyncGenerator<Buffer, void, void>,
): Promise<void> {
  const { response, exchange, clock } = context;
  const socket = new ChunkWriter(response);
  const lengthBytes = Number(headers['content-length']);
  try {
    clock.enter('store');
    let next = await chunks.next();
    clock.enter('firstByte');
    const first = context.asked.reconsiderDownload();
    if (first) await first;
    exchange.writeHead(status, headers);
    while (!next.done) {
      const { length } = next.value;
      const reconsidered = context.asked.reconsiderDownload();
      if (reconsidered) await reconsidered;
      // Nobody has all of it before its record is durable.
      if (exchange.bytesOut + length === lengthBytes && context.isStrictRead) {
        await recordStrictly(context, status, length);
      }
      clock.enter('stream');
      await socket.write(next.value, exchange);
      clock.enter('store');
      next = await chunks.next();
    }
    clock.enter('stream');
    response.end();
  } finally {
    await chunks.return();
  }
}

/**
 * Records a read that is to be recorded strictly and is about to send its last `bytes`. Throws
 * `Refusal` where that cannot be written: then they are not sent.
 */
async function recordStrictly(
  context: Reserved<'service'>,
  status: number,
  bytes: number,
): Promise<void> {
  if (context.isRecorded) return;
  const { exchange } = context;
  exchange.bytesOut += bytes;
  const failed = await context.recordNow(status, null);
  exchange.bytesOut -= bytes;
  if (failed !== null) throw new Refusal(failed);
}

/** Writes chunk by chunk, and notices a client that is gone while a chunk waits. */
class ChunkWriter {
  readonly #response: ServerResponse;
  #fail: ((error: Error) => void) | null = null;

  constructor(response: ServerResponse) {
    this.#response = response;
    response.once('close', () => this.#fail?.(new ClientGone('the client closed the connection')));
  }

  /**
   * Resolves when the kernel has the bytes: until then the buffer is not ours to use again. Counted
   * is what is handed over, since nobody knows how much of a chunk has arrived when its write
   * fails.
   */
  write(chunk: Buffer, counter: { bytesOut: number }): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#response.destroyed) {
        reject(new ClientGone('the client closed the connection'));
        return;
      }
      counter.bytesOut += chunk.length;
      this.#fail = reject;
      this.#response.write(chunk, (error) => {
        this.#fail = null;
        if (error) reject(new ClientGone('the client closed the connection', { cause: error }));
        else resolve();
      });
    });
  }
}

/** How a refusal is told: a document and its headers. */
export type DescribeRefusal = (
  refusal: Refusal,
  about: Pick<Exchange, 'raw' | 'id' | 'hostId'>,
) => { headers: Record<string, string>; text: string };

/** S3's error document. */
export const describeInXml: DescribeRefusal = (refusal, { id, hostId }) => ({
  headers: { ...refusal.headers, 'content-type': 'application/xml' },
  text: renderErrorXml({
    Code: refusal.code,
    Message: refusal.message,
    ...refusal.fields,
    RequestId: id,
    HostId: hostId,
  }),
});

/** Sends a refusal, or cuts the connection when an answer has already begun. */
export async function sendRefusal(
  exchange: Exchange,
  refusal: Refusal,
  describe: DescribeRefusal,
): Promise<void> {
  const { raw, response, clock } = exchange;
  exchange.error ??= refusal.code;
  exchange.message ??= refusal.message;
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  clock.enter('firstByte');
  const { headers, text } = describe(refusal, exchange);
  const challenge = challengeOf(refusal);
  if (challenge !== undefined) headers['www-authenticate'] = challenge;
  if (refusal.status === 503) headers['retry-after'] = refusal.fields.RetryAfter ?? '1';
  if (raw.method === 'HEAD') tellInHeaders(headers, refusal);
  const body = Buffer.from(raw.method === 'HEAD' ? '' : text);
  if (raw.method !== 'HEAD') headers['content-length'] = String(body.length);
  // A request that is refused as soon as its head has come is not complete yet, body or not.
  const unread = !raw.complete && hasBody(raw);
  if (unread) headers.connection = 'close';
  exchange.writeHead(refusal.status, headers);
  exchange.bytesOut += body.length;
  clock.enter('stream');
  if (!unread) {
    // What came and was not read would keep the connection from its next request.
    raw.resume();
    response.end(body);
    return;
  }
  // The answer is whole once it is written; closing at once would reset the connection under a
  // client that is still sending, and it would never see why.
  response.write(body);
  await linger(raw);
  response.end();
}

const toldLengthMax = 1024;

/** What the document would say of a refusal, where there is none. */
function tellInHeaders(headers: Record<string, string>, { code, message }: Refusal): void {
  headers['x-bursar-error-code'] = code;
  const text = message.replace(/[^\x20-\x7e]/g, '?');
  headers['x-bursar-error-message'] = text.slice(0, toldLengthMax);
}

function linger(raw: IncomingMessage): Promise<void> {
  return new Promise((resolve) => {
    let bytes = 0;
    const timer = setTimeout(resolve, lingerMs);
    const finish = (): void => {
      clearTimeout(timer);
      resolve();
    };
    raw.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > lingerBytesMax) finish();
    });
    raw.once('end', finish);
    raw.once('close', finish);
    raw.once('error', finish);
    raw.resume();
  });
}
