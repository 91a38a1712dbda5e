// A small signed S3 client for tests that send much or misbehave: plain node:http, so that a test
// decides itself when a byte is sent, when one is read, and when the connection ends.
import { createHash } from 'node:crypto';
import http, { type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import { signRequest } from '#bursar/core/sigv4.js';

export interface Target {
  endpoint: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** Is sent instead of a signature. */
  token?: string;
}

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Buffer;
}

export interface Digest {
  sizeBytes: number;
  /** Hexadecimal. */
  sha256: string;
}

/** A body that is made while it is sent. */
export interface StreamedBody {
  /** null: not known; it is sent in HTTP chunks. */
  sizeBytes: number | null;
  chunks: AsyncIterable<Buffer> | Iterable<Buffer>;
}

export interface Sending {
  query?: [string, string][];
  headers?: Record<string, string>;
  body?: Buffer | StreamedBody;
  /** How the signature covers the body; default: as the API wants it. */
  payloadHash?: string;
  /** How the path is sent, where one of its parts has a slash; default: encoded part by part. */
  encodedPath?: string;
}

export class S3Client {
  readonly #target: Target;
  readonly #agent: http.Agent;
  readonly #url: URL;

  constructor(target: Target, connectionsMax = 64) {
    this.#target = target;
    this.#url = new URL(target.endpoint);
    this.#agent = new http.Agent({ keepAlive: true, maxSockets: connectionsMax });
  }

  /** The whole answer. Rejects when the connection breaks before its end. */
  async send(method: string, path: string, sending: Sending = {}): Promise<Answer> {
    const response = await this.open(method, path, sending);
    const pieces: Buffer[] = [];
    for await (const piece of response) pieces.push(piece as Buffer);
    return {
      status: response.statusCode ?? 0,
      headers: response.headers,
      body: Buffer.concat(pieces),
    };
  }

  /** Status and digest of a GET; the body is not kept. */
  async digest(path: string): Promise<Digest & { status: number }> {
    const response = await this.open('GET', path);
    const sha256 = createHash('sha256');
    let sizeBytes = 0;
    for await (const piece of response) {
      sha256.update(piece as Buffer);
      sizeBytes += (piece as Buffer).length;
    }
    return { status: response.statusCode ?? 0, sizeBytes, sha256: sha256.digest('hex') };
  }

  /** The answer's head; who calls reads the body or destroys it. */
  open(method: string, path: string, sending: Sending = {}): Promise<IncomingMessage> {
    const { body } = sending;
    return new Promise((resolve, reject) => {
      const request = this.begin(method, path, sending);
      let answered = false;
      request.on('response', (response) => {
        answered = true;
        resolve(response);
      });
      request.on('error', reject);
      if (body === undefined || Buffer.isBuffer(body)) request.end(body);
      // A gateway that has answered may stop reading; one that has not must not.
      else pump(request, body).catch((error: unknown) => answered || reject(error));
    });
  }

  /** A signed request whose body, if any, is still to be written. */
  begin(method: string, path: string, sending: Sending = {}): http.ClientRequest {
    const { query = [], body } = sending;
    const headers: Record<string, string> = { host: this.#url.host, ...sending.headers };
    if (body) {
      const sizeBytes = Buffer.isBuffer(body) ? body.length : body.sizeBytes;
      if (sizeBytes !== null) headers['content-length'] = String(sizeBytes);
    }
    const { token } = this.#target;
    const covered = sending.payloadHash && { 'x-amz-content-sha256': sending.payloadHash };
    const bearing = { authorization: `Bearer ${token}`, ...covered };
    const signed = token
      ? bearing
      : signRequest({
          accessKeyId: this.#target.accessKeyId,
          secret: this.#target.secretAccessKey,
          region: 'us-east-1',
          method,
          path,
          query,
          headers,
          payloadHash: sending.payloadHash ?? hashPayload(path, body),
          timeMs: Date.now(),
        });
    return http.request({
      agent: this.#agent,
      host: this.#url.hostname,
      port: this.#url.port,
      method,
      path: sending.encodedPath ?? encodeTarget(path, query),
      headers: { ...headers, ...signed },
    });
  }

  /** Closes its connections, idle or not. */
  close(): void {
    this.#agent.destroy();
  }
}

/**
 * The native API takes signed bodies only; S3's are left unsigned, which costs the sender nothing.
 */
function hashPayload(path: string, body: Sending['body']): string {
  if (!path.startsWith('/_/')) return 'UNSIGNED-PAYLOAD';
  return createHash('sha256')
    .update(Buffer.isBuffer(body) ? body : '')
    .digest('hex');
}

function encodeTarget(path: string, query: [string, string][]): string {
  const pairs = query.map((pair) => pair.map(encodeURIComponent).join('='));
  const encoded = path.split('/').map(encodeURIComponent).join('/');
  return pairs.length > 0 ? `${encoded}?${pairs.join('&')}` : encoded;
}

async function pump(request: http.ClientRequest, body: StreamedBody): Promise<void> {
  for await (const chunk of body.chunks) {
    if (request.destroyed) throw new Error('the connection broke while the body was being sent');
    if (!request.write(chunk)) await drained(request);
    // What a fast gateway takes at once drains at once: the other connections of this process would
    // not be written to until all of this body was sent, and be cut as stalled.
    await setImmediate();
  }
  request.end();
}

function drained(request: http.ClientRequest): Promise<void> {
  return new Promise((resolve, reject) => {
    const settle = (): void => {
      request.off('drain', settle);
      request.off('close', settle);
      if (request.destroyed) reject(new Error('the connection broke'));
      else resolve();
    };
    request.on('drain', settle);
    request.on('close', settle);
  });
}
