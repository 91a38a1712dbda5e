// From an HTTP message to an S3 request: the target is split and decoded once, strictly, and bucket
// and key are names from here on, never paths. The key that is authorized is byte for byte the key
// used.

import type { IncomingMessage } from 'node:http';
import type { SignedRequest } from '../../authz/authenticate.ts';
import type { Headers } from '../../core/canonical-request.ts';
import { Refusal } from '../../core/errors.ts';
import {
  headerCountMax,
  keyBytesMax,
  queryParametersMax,
  targetBytesMax,
} from '../../core/limits.ts';
import type { PostForm } from './post-form.ts';

export interface S3Request extends Readonly<SignedRequest> {
  readonly raw: IncomingMessage;
  readonly id: string;
  readonly bucketName: string | null;
  readonly key: string | null;
  /** The client waits for `100 Continue` before it sends the body. */
  readonly expectsContinue: boolean;
  /** The form that it came as: then the headers are its fields. */
  readonly form?: PostForm;
}

/** Messages of which Node told us by `checkContinue`: the interim answer is ours to give. */
const expecting = new WeakSet<IncomingMessage>();

export function markExpectingContinue(raw: IncomingMessage): void {
  expecting.add(raw);
}

/** What is known of a message before anything can fail. */
export type Begun = Pick<S3Request, 'id' | 'source' | 'isSecure'>;

/**
 * Throws `Refusal` InvalidURI, InvalidArgument, InvalidRequest, KeyTooLongError or
 * RequestHeaderSectionTooLarge.
 */
export function parseRequest(
  raw: IncomingMessage,
  begun: Begun,
  domains: readonly string[],
): S3Request {
  const { method = '', rawHeaders } = raw;
  const { id, source, isSecure } = begun;
  const { target, path, query } = parseTarget(raw);
  const headers = headersOf(raw);
  const { bucketName, key } = splitPath(path, bucketOfHost(headers.host ?? '', domains));
  return {
    raw,
    id,
    source,
    isSecure,
    method,
    target,
    path,
    query,
    headers,
    rawHeaders,
    bucketName,
    key,
    expectsContinue: expecting.has(raw),
  };
}

/**
 * Throws `Refusal` InvalidURI, InvalidArgument, InvalidRequest or RequestHeaderSectionTooLarge.
 */
export function parseTarget(raw: IncomingMessage): Pick<S3Request, 'target' | 'path' | 'query'> {
  if (raw.rawHeaders.length > 2 * headerCountMax) throw new Refusal('RequestHeaderSectionTooLarge');
  if (raw.headers.host === undefined && raw.httpVersion === '1.1') throw new Refusal('BadRequest');
  const repeated = repeatedHeader(raw.rawHeaders);
  if (repeated) throw repeated;
  const target = originForm(raw.url ?? '');
  const mark = target.indexOf('?');
  const path = decode(mark < 0 ? target : target.slice(0, mark));
  return { target, path, query: mark < 0 ? [] : parseQuery(target.slice(mark + 1)) };
}

/** The headers, each as one text: of Set-Cookie, which has no meaning here, Node makes a list. */
export function headersOf({ headers }: Pick<IncomingMessage, 'headers'>): Headers {
  const { 'set-cookie': lines } = headers;
  return lines === undefined
    ? (headers as Headers)
    : { ...headers, 'set-cookie': lines.join(', ') };
}

/** The first value of a query parameter; undefined when it is absent. */
export function parameter(request: Pick<S3Request, 'query'>, name: string): string | undefined {
  for (const [key, value] of request.query) if (key === name) return value;
  return undefined;
}

/** Does it only read? */
export function isRead({ method }: Pick<S3Request, 'method'>): boolean {
  return method === 'GET' || method === 'HEAD';
}

/** Decodes `key` (and nothing else) of `/bucket/key` out of x-amz-copy-source style names. */
export function decode(text: string): string {
  if (!text.includes('%')) return text;
  try {
    return decodeURIComponent(text);
  } catch (cause) {
    throw new Refusal('InvalidURI', { cause });
  }
}

export function checkKeyLength(key: string): void {
  // A UTF-16 unit makes at most 3 bytes, so short keys need no counting.
  if (key.length * 3 <= keyBytesMax) return;
  const bytes = Buffer.byteLength(key);
  if (bytes <= keyBytesMax) return;
  const fields = { Size: String(bytes), MaxSizeAllowed: String(keyBytesMax) };
  throw new Refusal('KeyTooLongError', { fields });
}

/**
 * Why a request is refused in which Host or Authorization stands twice, of which Node keeps the
 * first alone: a proxy on the way may have gone by the other (RFC 9112 section 3.2 of Host). null:
 * neither does.
 */
export function repeatedHeader(rawHeaders: readonly string[]): Refusal | null {
  let hosts = 0;
  let authorizations = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const { length } = rawHeaders[i] as string;
    if (length !== 'host'.length && length !== 'authorization'.length) continue;
    const name = rawHeaders[i]?.toLowerCase();
    if (name === 'host') hosts++;
    else if (name === 'authorization') authorizations++;
  }
  if (hosts <= 1 && authorizations <= 1) return null;
  const name = hosts > 1 ? 'host' : 'authorization';
  return new Refusal('InvalidRequest', { message: `The header ${name} is given twice.` });
}

function originForm(target: string): string {
  if (target.length > targetBytesMax) throw new Refusal('InvalidURI');
  for (let i = 0; i < target.length; i++) {
    const code = target.charCodeAt(i);
    if (code < 0x21 || code > 0x7e) throw new Refusal('InvalidURI');
  }
  if (target.startsWith('/')) return target;
  // RFC 9112 section 3.2.2: a server accepts the absolute form too.
  const match = /^https?:\/\/[^/?#]*/i.exec(target);
  if (!match) throw new Refusal('InvalidURI');
  const rest = target.slice(match[0].length);
  return rest.startsWith('/') ? rest : `/${rest}`;
}

function parseQuery(text: string): [string, string][] {
  const pairs: [string, string][] = [];
  for (const piece of text.split('&')) {
    if (piece === '') continue;
    if (pairs.length === queryParametersMax) {
      throw new Refusal('InvalidURI', { message: 'Too many query parameters.' });
    }
    const equals = piece.indexOf('=');
    const name = equals < 0 ? piece : piece.slice(0, equals);
    const value = equals < 0 ? '' : piece.slice(equals + 1);
    pairs.push([decodeForm(name), decodeForm(value)]);
  }
  return pairs;
}

function decodeForm(text: string): string {
  return decode(text.includes('+') ? text.replaceAll('+', ' ') : text);
}

/** The bucket that the host names; null: path style. */
export function bucketOfHost(host: string, domains: readonly string[]): string | null {
  if (domains.length === 0) return null;
  const name = host.replace(/:\d+$/, '').toLowerCase();
  if (domains.includes(name)) return null;
  // One domain may lie in another: the longest that fits is meant.
  let found: string | null = null;
  for (const domain of domains) {
    if (!name.endsWith(`.${domain}`)) continue;
    const bucket = name.slice(0, -domain.length - 1);
    if (found === null || bucket.length < found.length) found = bucket;
  }
  return found;
}

function splitPath(
  path: string,
  hostBucket: string | null,
): { bucketName: string | null; key: string | null } {
  let bucketName = hostBucket;
  let key = path.slice(1);
  if (bucketName === null) {
    const slash = key.indexOf('/');
    bucketName = slash < 0 ? key : key.slice(0, slash);
    key = slash < 0 ? '' : key.slice(slash + 1);
  }
  // An empty name before a key is no bucket's, which is said after the signature was looked at.
  if (bucketName === '' && key === '') return { bucketName: null, key: null };
  checkKeyLength(key);
  return { bucketName, key: key === '' ? null : key };
}
