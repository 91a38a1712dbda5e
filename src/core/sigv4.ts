// AWS Signature Version 4 for S3: signing keys, signatures, and the signing of our own requests
// (the command line, the bench, the S3 driver). Verifying, in authenticate.ts, uses the same
// functions.
// Invariant: a signature depends on the canonical request and the scope alone, so that whatever
// this file signs, authenticate.ts accepts.
// Specification: "Authenticating Requests (AWS Signature Version 4)" of the Amazon S3 API
// reference.
import { Buffer } from 'node:buffer';
import { createHmac, timingSafeEqual } from 'node:crypto';
import {
  canonicalHeaderValue,
  canonicalRequest,
  digestLatin1,
  type QueryPairs,
} from './canonical-request.ts';
import { macOfText } from './hmac.ts';

export const algorithm = 'AWS4-HMAC-SHA256';
export const terminator = 'aws4_request';
export const unsignedPayload = 'UNSIGNED-PAYLOAD';

/** SHA-256 of nothing: the payload digest of a request without a body. */
export const emptySha256 = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855';

/** What a signing key is valid for. */
export interface Scope {
  /** `YYYYMMDD`, UTC. */
  date: string;
  region: string;
  service: string;
}

/** `20130524/us-east-1/s3/aws4_request`. */
export function scopeText(scope: Scope): string {
  return `${scope.date}/${scope.region}/${scope.service}/${terminator}`;
}

function hmac(key: string | Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text, 'utf8').digest();
}

/** Four HMACs: worth keeping, see `SigningKeys`. */
export function deriveSigningKey(secret: string, scope: Scope): Buffer {
  const dateKey = hmac(`AWS4${secret}`, scope.date);
  return hmac(hmac(hmac(dateKey, scope.region), scope.service), terminator);
}

/** `algorithmName`: SigV4's, or SigV4A's. */
export function stringToSign(
  algorithmName: string,
  amzDate: string,
  scope: string,
  canonical: string,
): string {
  return `${algorithmName}\n${amzDate}\n${scope}\n${digestLatin1(canonical)}`;
}

/** 64 lower-case hexadecimal digits. */
export function signText(signingKey: Buffer, text: string): string {
  return macOfText(signingKey, text);
}

const signatureLength = 64;
const ours = Buffer.alloc(signatureLength);
const theirs = Buffer.alloc(signatureLength);

/** Compares a signature of ours with a client's, in a time that does not tell where they differ. */
export function equalSignatures(expected: string, provided: string): boolean {
  // 64 characters in 64 bytes of UTF-8 are all ASCII, so that writing them as Latin-1 loses
  // nothing.
  if (provided.length !== signatureLength || Buffer.byteLength(provided) !== signatureLength) {
    return false;
  }
  ours.write(expected, 'latin1');
  theirs.write(provided, 'latin1');
  return timingSafeEqual(ours, theirs);
}

interface KeptKey {
  secret: string;
  key: Buffer;
}

/**
 * The signing keys used lately. Bounded: at most two generations of `generationSize` keys, the
 * older of which is dropped when the younger is full; a key in use is carried over, so what goes is
 * what was used least recently, and a hit costs one look-up and no reordering.
 */
export class SigningKeys {
  readonly #generationSize: number;
  #young = new Map<string, KeptKey>();
  #old = new Map<string, KeptKey>();

  constructor(generationSize: number) {
    this.#generationSize = generationSize;
  }

  /** The kept key, or undefined if there is none or the secret has changed since. */
  find(accessKeyId: string, secret: string, scope: string): Buffer | undefined {
    const name = `${accessKeyId}\n${scope}`;
    let kept = this.#young.get(name);
    if (kept === undefined) {
      kept = this.#old.get(name);
      if (kept === undefined || kept.secret !== secret) return undefined;
      this.#insert(name, kept);
    }
    return kept.secret === secret ? kept.key : undefined;
  }

  keep(accessKeyId: string, secret: string, scope: string, key: Buffer): void {
    this.#insert(`${accessKeyId}\n${scope}`, { secret, key });
  }

  #insert(name: string, kept: KeptKey): void {
    if (this.#young.size >= this.#generationSize) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(name, kept);
  }
}

const day = /^\d{8}$/;

/** Whether a text can be the date of a scope. */
export function isScopeDate(text: string): boolean {
  return day.test(text);
}

/** `20130524T000000Z`. */
export function formatAmzDate(timeMs: number): string {
  const iso = new Date(timeMs).toISOString();
  const date = iso.slice(0, 4) + iso.slice(5, 7) + iso.slice(8, 10);
  return `${date}T${iso.slice(11, 13)}${iso.slice(14, 16)}${iso.slice(17, 19)}Z`;
}

const basicDate = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/;
const imfFixdate = /^[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT$/;

/** Requests of one second bear one date: that of the newest is kept. */
let newestDate = { text: '', timeMs: undefined as number | undefined };

/** Milliseconds since the epoch of `YYYYMMDDTHHMMSSZ`; undefined for anything else. */
export function parseAmzDate(text: string): number | undefined {
  if (newestDate.text !== text) newestDate = { text, timeMs: readBasicDate(text) };
  return newestDate.timeMs;
}

function readBasicDate(text: string): number | undefined {
  const match = basicDate.exec(text);
  if (match === null) return undefined;
  const [, year, month, date, hour, minute, second] = match;
  const timeMs = Date.parse(`${year}-${month}-${date}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(timeMs) ? undefined : timeMs;
}

/** Milliseconds since the epoch of a Date header, whole seconds; undefined if it is not one. */
export function parseHttpDate(text: string): number | undefined {
  if (!imfFixdate.test(text)) return parseAmzDate(text);
  const timeMs = Date.parse(text);
  return Number.isNaN(timeMs) ? undefined : timeMs;
}

export interface SigningCredentials {
  accessKeyId: string;
  secret: string;
  region: string;
  /** 's3' if absent. */
  service?: string;
}

export interface RequestToSign extends SigningCredentials {
  method: string;
  /** Decoded, begins with '/'. */
  path: string;
  query?: QueryPairs;
  /** Must hold `host`. All of them are signed but those that proxies change. */
  headers: Readonly<Record<string, string>>;
  /** Hexadecimal SHA-256 of the body, UNSIGNED-PAYLOAD (the default), or a STREAMING-… word. */
  payloadHash?: string;
  timeMs: number;
}

/** Connections and proxies set or change these on the way. */
const unsignable = new Set([
  'authorization',
  'connection',
  'expect',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
]);

const ownKeys = new SigningKeys(64);

function ownSigningKey(credentials: SigningCredentials, scope: Scope, text: string): Buffer {
  const { accessKeyId, secret } = credentials;
  let key = ownKeys.find(accessKeyId, secret, text);
  if (key === undefined) {
    key = deriveSigningKey(secret, scope);
    ownKeys.keep(accessKeyId, secret, text, key);
  }
  return key;
}

/** Names sorted, values canonical. Throws on a value that Node could not send. */
function canonicalHeaders(headers: Readonly<Record<string, string>>): {
  names: string[];
  values: string[];
} {
  const pairs: Array<[string, string]> = [];
  for (const [name, value] of Object.entries(headers)) {
    const lower = name.toLowerCase();
    if (unsignable.has(lower)) continue;
    if (/[^\t\x20-\x7e\x80-\xff]/.test(value)) throw new Error(`unsendable header ${lower}`);
    pairs.push([lower, canonicalHeaderValue(value)]);
  }
  pairs.sort((a, b) => (a[0] < b[0] ? -1 : 1));
  if (!pairs.some(([name]) => name === 'host')) throw new Error('a host header must be signed');
  return { names: pairs.map(([name]) => name), values: pairs.map(([, value]) => value) };
}

/**
 * The headers to add to a request so that it is signed: `x-amz-date`, `x-amz-content-sha256` and
 * `authorization`. Throws when there is no host header or a header value cannot be sent.
 */
export function signRequest(request: RequestToSign): Record<string, string> {
  const { method, path, query = [], payloadHash = unsignedPayload, timeMs } = request;
  const amzDate = formatAmzDate(timeMs);
  const added = { 'x-amz-content-sha256': payloadHash, 'x-amz-date': amzDate };
  const { names, values } = canonicalHeaders({ ...request.headers, ...added });
  const scope = {
    date: amzDate.slice(0, 8),
    region: request.region,
    service: request.service ?? 's3',
  };
  const scopeLine = scopeText(scope);
  const canonical = canonicalRequest({
    method,
    path,
    query,
    headerNames: names,
    headerValues: values,
    payload: payloadHash,
  });
  const key = ownSigningKey(request, scope, scopeLine);
  const signature = signText(key, stringToSign(algorithm, amzDate, scopeLine, canonical));
  const authorization =
    `${algorithm} Credential=${request.accessKeyId}/${scopeLine}, ` +
    `SignedHeaders=${names.join(';')}, Signature=${signature}`;
  return { ...added, authorization };
}
