// The administration commands' side of the native API: signed HTTP requests, problem documents made
// into one line, pages read to their end.

import { createHash } from 'node:crypto';
import { once } from 'node:events';
import type { IncomingHttpHeaders, IncomingMessage, RequestOptions } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { urlToHttpOptions } from 'node:url';
import { CommandFailure, messageOfFailure } from '../core/command-failure.ts';
import { parseJson } from '../core/json.ts';
import { http, https } from '../core/node-http.ts';
import { signRequest } from '../core/sigv4.ts';

export interface Connection {
  /** Of the native API. */
  endpoint: string;
  accessKeyId: string;
  secretAccessKey: string;
  /** Of temporary keys. */
  sessionToken?: string | undefined;
  region: string;
}

/** A gateway that sends nothing for this long is taken to be gone. */
const silenceMsMax = 60_000;

export interface ApiRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Decoded segments after `/_/v1/`. */
  path: readonly string[];
  query?: Readonly<Record<string, string | undefined>>;
  body?: object;
}

export interface ApiAnswer {
  /** As received; empty for a status without content. */
  text: string;
  json: unknown;
  requestId: string | undefined;
}

/** What the gateway has said of a request by S3. */
export class S3Refusal extends CommandFailure {
  readonly status: number;
  /** As docs/users/errors.md lists them; empty: the answer had none. */
  readonly code: string;
  /** In the gateway's words. */
  readonly reason: string;

  constructor({ code, reason }: { code: string; reason: string }, status: number) {
    super('failed', `${reason} (${code})`);
    this.status = status;
    this.code = code;
    this.reason = reason;
  }
}

/** The gateway answered with something else than what was asked for. */
export class ApiRefusal extends CommandFailure {
  readonly status: number;
  /** The gateway's own, as docs/users/errors.md lists them. */
  readonly code: string;
  /** In the gateway's words. */
  readonly reason: string;
  /** What of the request does not fit, as `body.name`; null: it is not about one part. */
  readonly field: string | null;
  readonly requestId: string | undefined;

  constructor({ endpoint }: Connection, status: number, json: unknown) {
    const { detail, code, field, requestId } = (json ?? {}) as Partial<Record<string, unknown>>;
    const isOurs = typeof detail === 'string';
    const reason = isOurs
      ? detail.replace(/^(?:body|params|querystring)\.(?=\w)/, '')
      : `${endpoint} answered ${status}, which is not an answer of Bursar`;
    const where = status >= 500 ? `, request ${requestId}` : '';
    super(
      code === 'InvalidInput' ? 'usage' : 'failed',
      isOurs ? `${reason} (${code}${where})` : reason,
    );
    this.status = status;
    this.code = isOurs ? String(code) : 'UnknownAnswer';
    this.reason = reason;
    this.field = typeof field === 'string' ? field : null;
    this.requestId = typeof requestId === 'string' ? requestId : undefined;
  }
}

/** Makes one call. Throws `ApiRefusal` with the gateway's own words when it is refused. */
export async function callApi(connection: Connection, request: ApiRequest): Promise<ApiAnswer> {
  const { status, text, headers, untold } = await send(connection, request);
  const json = parseJson(text);
  if (untold !== null) {
    const why = 'a rebuild from it alone would not know';
    process.stderr.write(`bursar: store ${untold} is told of this later: until then ${why}\n`);
  }
  const requestId = headers['x-amz-request-id']?.toString();
  if (status >= 200 && status < 300) return { text, json, requestId };
  throw new ApiRefusal(connection, status, json);
}

/** How often what only reads is tried, and waited after with `pauseAfter`: for six seconds. */
export const triesMax = 6;
const firstPauseMs = 200;

/**
 * The same of what only reads, and is one of many such: where the gateway is busy, or cannot be
 * reached for a moment, it is asked again, for six seconds at most.
 */
export async function callPatiently(
  connection: Connection,
  request: Omit<ApiRequest, 'method' | 'body'>,
): Promise<ApiAnswer> {
  for (let tries = 1; ; tries++) {
    try {
      return await callApi(connection, { method: 'GET', ...request });
    } catch (error) {
      if (tries === triesMax || !mayPass(error)) throw error;
      await pauseAfter(tries);
    }
  }
}

/** The longer, the more tries have failed. */
export async function pauseAfter(tries: number): Promise<void> {
  await sleep(firstPauseMs * 2 ** (tries - 1));
}

/** May what has failed succeed later, without anything else being done? */
export function mayPass(error: unknown): boolean {
  return error instanceof Unreachable || (error instanceof ApiRefusal && error.status >= 500);
}

/** Reads all pages of a listing. */
export async function listAll<T>(
  connection: Connection,
  path: readonly string[],
  member: string,
  filters: ApiRequest['query'] = {},
  onPage: (page: object) => void = () => {},
): Promise<T[]> {
  const entries: T[] = [];
  let after: string | undefined;
  do {
    const { json } = await callApi(connection, {
      method: 'GET',
      path,
      query: { ...filters, after },
    });
    const page = json as Record<string, T[]> & { next: string | null };
    entries.push(...(page[member] ?? []));
    onPage(page);
    after = page.next ?? undefined;
  } while (after !== undefined);
  return entries;
}

/**
 * The URL by which the gateway knows itself, which tokens and proofs are for. Throws
 * `CommandFailure`.
 */
export async function readGatewayUrl({ endpoint }: Connection): Promise<string> {
  const url = `${endpoint}/.well-known/openid-configuration`;
  const { text } = await reach(endpoint, () => exchange(url, 'GET', {}, undefined));
  const { issuer } = (parseJson(text) ?? {}) as { issuer?: unknown };
  if (typeof issuer === 'string') return issuer;
  throw new CommandFailure('failed', `${endpoint} does not say its URL: give --audience`);
}

async function send(connection: Connection, request: ApiRequest): Promise<Exchanged> {
  const { endpoint, region, accessKeyId, secretAccessKey } = connection;
  const given = Object.entries(request.query ?? {});
  const query = given.filter((pair): pair is [string, string] => pair[1] !== undefined);
  const body = request.body === undefined ? undefined : JSON.stringify(request.body);
  const headers: Record<string, string> = { host: new URL(endpoint).host };
  if (connection.sessionToken) headers['x-amz-security-token'] = connection.sessionToken;
  if (body !== undefined) {
    headers['content-type'] = 'application/json';
    headers['content-length'] = String(Buffer.byteLength(body));
  }
  const signed = signRequest({
    method: request.method,
    path: `/_/v1/${request.path.join('/')}`,
    query,
    headers,
    accessKeyId,
    secret: secretAccessKey,
    region,
    service: 's3',
    payloadHash: createHash('sha256')
      .update(body ?? '')
      .digest('hex'),
    timeMs: Date.now(),
  });
  const target = `/_/v1/${request.path.map(encode).join('/')}`;
  const search = query.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&');
  const url = `${endpoint}${target}${search && `?${search}`}`;
  return reach(endpoint, () => exchange(url, request.method, { ...headers, ...signed }, body));
}

export async function reach<T>(endpoint: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? messageOfFailure(error);
    throw new Unreachable('failed', `cannot reach the gateway at ${endpoint} (${reason})`, error);
  }
}

/** Nobody answers, so that nothing else can be asked either. */
export class Unreachable extends CommandFailure {}

export interface Exchanged {
  status: number;
  text: string;
  headers: IncomingHttpHeaders;
  /** S3 stores whose journals do not tell of the change yet; null: none. */
  untold: string | null;
}

/** One HTTP exchange. Not `fetch`: that refuses ports on which a gateway may well listen. */
export async function exchange(
  url: string,
  method: string,
  headers: Record<string, string>,
  body: string | Readable | undefined,
  silenceMs = silenceMsMax,
): Promise<Exchanged> {
  const answer = await begin(url, method, headers, body, silenceMs);
  const pieces: Buffer[] = [];
  for await (const piece of answer) pieces.push(piece as Buffer);
  const text = Buffer.concat(pieces).toString('utf8');
  const untold = answer.headers['x-bursar-untold']?.toString() ?? null;
  return { status: answer.statusCode ?? 0, text, headers: answer.headers, untold };
}

/** The same, of which the answer's body is still to be read. */
export async function begin(
  url: string,
  method: string,
  headers: Record<string, string>,
  body: string | Readable | undefined,
  silenceMs = silenceMsMax,
): Promise<IncomingMessage> {
  const request = url.startsWith('https:') ? https.request : http.request;
  const message = request({ ...targetOf(url), method, headers, timeout: silenceMs });
  message.on('timeout', () => message.destroy(new Error('no answer')));
  const answering = once(message, 'response');
  if (body instanceof Readable) {
    body.on('error', (error) => message.destroy(error));
    body.pipe(message);
  } else message.end(body);
  const [answer] = (await answering) as [IncomingMessage];
  // From now on whoever reads the answer is told of what breaks it off.
  message.on('error', () => {});
  return answer;
}

/** The path as it is signed: of a key such as `a/../b` a URL would make another one. */
function targetOf(url: string): RequestOptions {
  const pathAt = url.indexOf('/', url.indexOf('//') + 2);
  const [origin, path] = pathAt < 0 ? [url, '/'] : [url.slice(0, pathAt), url.slice(pathAt)];
  return { ...urlToHttpOptions(new URL(origin)), path };
}

/** As RFC 3986 has it: only unreserved characters stay. */
export function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}
