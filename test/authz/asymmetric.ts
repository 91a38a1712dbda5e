// A SigV4A client for tests: signs by a key pair that it derives of its credentials.
import { createPublicKey, sign } from 'node:crypto';
import { Authenticator, type SignedRequest } from '#bursar/authz/authenticate.js';
import { readPublicKey } from '#bursar/authz/tokens/keys.js';
import {
  canonicalHeaderValue,
  canonicalRequest,
  percentEncode,
  type QueryPairs,
} from '#bursar/core/canonical-request.js';
import { stringToSign } from '#bursar/core/sigv4.js';
import { derivePrivateKey } from '#bursar/core/sigv4a.js';
import { aliceKey, exampleMs, host, request } from './requests.ts';

export const asymmetricId = 'AKIAASYMMETRICKEYXYZ';
export const asymmetricSecret = 'q+jcrXGc+0zWN6uzclKVhvMmUsIfRPa4rlRandom';
const algorithm = 'AWS4-ECDSA-P256-SHA256';
const amzDate = '20130524T000000Z';
const scope = '20130524/s3/aws4_request';

export interface AsymmetricRequest {
  accessKeyId?: string;
  secret?: string;
  method?: string;
  /** Decoded. */
  path?: string;
  query?: QueryPairs;
  headers?: Record<string, string>;
  payloadHash?: string;
  regionSet?: string | null;
}

export const publicKey = publicKeyOf(asymmetricId, asymmetricSecret);

export function publicKeyOf(id: string, secret: string) {
  const key = createPublicKey(derivePrivateKey(id, secret));
  return readPublicKey(key.export({ format: 'jwk' })) ?? null;
}

/** Knows one key of Alice's: it verifies with the public half, and there is no secret. */
export function asymmetricAuthenticator(nowMs = exampleMs): Authenticator {
  return new Authenticator({
    findAccessKey: async (id) =>
      id === asymmetricId ? { ...aliceKey, id, secret: null, publicKey, enrolledAt: 3 } : undefined,
    nowMs: () => nowMs,
  });
}

function signatureOf(made: Required<AsymmetricRequest>, headers: Record<string, string>): string {
  const names = Object.keys(headers).sort();
  const canonical = canonicalRequest({
    method: made.method,
    path: made.path,
    query: made.query,
    headerNames: names,
    headerValues: names.map((name) => canonicalHeaderValue(headers[name] as string)),
    payload: made.payloadHash,
  });
  const text = Buffer.from(stringToSign(algorithm, amzDate, scope, canonical));
  const key = derivePrivateKey(made.accessKeyId, made.secret);
  return sign('sha256', text, key).toString('hex');
}

function complete(parts: AsymmetricRequest): Required<AsymmetricRequest> {
  return {
    ...{ accessKeyId: asymmetricId, secret: asymmetricSecret, method: 'GET', path: '/k' },
    ...{ query: [], headers: {}, payloadHash: 'UNSIGNED-PAYLOAD', regionSet: 'us-east-1' },
    ...parts,
  };
}

/** A request that is signed in its headers. */
export function asymmetricRequest(parts: AsymmetricRequest = {}): SignedRequest {
  const made = complete(parts);
  const headers: Record<string, string> = {
    host,
    ...made.headers,
    'x-amz-date': amzDate,
    'x-amz-content-sha256': made.payloadHash,
  };
  if (made.regionSet !== null) headers['x-amz-region-set'] = made.regionSet;
  const authorization =
    `${algorithm} Credential=${made.accessKeyId}/${scope}, ` +
    `SignedHeaders=${Object.keys(headers).sort().join(';')}, ` +
    `Signature=${signatureOf(made, headers)}`;
  const all = Object.entries({ ...headers, authorization });
  return { ...request(made.method, '/', all), path: made.path, query: made.query };
}

/** A request that is signed in its query. */
export function asymmetricPresigned(parts: AsymmetricRequest = {}): SignedRequest {
  const made = complete(parts);
  const query: Array<readonly [string, string]> = [
    ...made.query,
    ['X-Amz-Algorithm', algorithm],
    ['X-Amz-Credential', `${made.accessKeyId}/${scope}`],
    ['X-Amz-Date', amzDate],
    ['X-Amz-Expires', '600'],
    ['X-Amz-SignedHeaders', 'host'],
  ];
  if (made.regionSet !== null) query.push(['X-Amz-Region-Set', made.regionSet]);
  query.push(['X-Amz-Signature', signatureOf({ ...made, query }, { host })]);
  const pairs = query.map((pair) => pair.map((text) => percentEncode(text, false)).join('='));
  const target = `${percentEncode(made.path, true)}?${pairs.join('&')}`;
  return request(made.method, target, [['host', host]]);
}
