// What an issuer publishes about itself: its configuration, and the keys that it signs with.
// Invariant: of a document nothing is used before all of it came within the bounds, from the place
// that was asked; there are no redirects.
// Specification: OpenID Connect Discovery 1.0 section 4; RFC 7517 section 5.
import { once } from 'node:events';
import http from 'node:http';
import https from 'node:https';
import { isIP } from 'node:net';
import type { JSONWebKeySet, JWK } from 'jose';
import { isObject, type JsonObject, parseStrictObject } from '../tokens/strict-json.ts';
import {
  type AddressPolicy,
  AddressRefused,
  allowsAddress,
  guardedLookup,
} from './address-policy.ts';

const documentBytesMax = 256 * 1024;
const keysMax = 100;
/** base64url characters of the modulus of the largest RSA key, of 8192 bits. */
const modulusLengthMax = 1366;

/**
 * The public keys that the issuer of this URL publishes now. Throws an Error that says, for the
 * tenant's admin, what is wrong.
 */
export async function fetchKeys(
  issuerUrl: string,
  policy: AddressPolicy,
  timeoutMs: number,
): Promise<JSONWebKeySet> {
  const signal = AbortSignal.timeout(timeoutMs);
  const base = issuerUrl.replace(/\/$/, '');
  const place = new URL(`${base}/.well-known/openid-configuration`);
  try {
    const configuration = await fetchDocument(place, policy, signal);
    if (configuration.issuer !== issuerUrl) {
      throw new Error(`${place} is the configuration of another issuer`);
    }
    return readKeySet(await fetchDocument(keysPlace(configuration, place), policy, signal));
  } catch (error) {
    if (!signal.aborted) throw error;
    throw new Error(`its documents did not come within ${timeoutMs} ms`, { cause: error });
  }
}

/** Keys lie at the issuer itself, or elsewhere behind TLS. */
function keysPlace({ jwks_uri }: JsonObject, origin: URL): URL {
  if (typeof jwks_uri === 'string' && URL.canParse(jwks_uri)) {
    const place = new URL(jwks_uri);
    if (place.protocol === 'https:' || place.origin === origin.origin) return place;
  }
  throw new Error('its configuration has no "jwks_uri" of https or of its own origin');
}

const keyTypes: readonly unknown[] = ['RSA', 'EC', 'OKP'];

function readKeySet({ keys }: JsonObject): JSONWebKeySet {
  if (!Array.isArray(keys) || keys.length > keysMax || !keys.every(isObject)) {
    throw new Error(`its keys are not a list of at most ${keysMax} JSON Web Keys`);
  }
  return { keys: keys.filter(isUsable) as JWK[] };
}

function isUsable({ kty, n }: JsonObject): boolean {
  return keyTypes.includes(kty) && (typeof n !== 'string' || n.length <= modulusLengthMax);
}

async function fetchDocument(
  url: URL,
  policy: AddressPolicy,
  signal: AbortSignal,
): Promise<JsonObject> {
  // An address in the URL is not looked up.
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  if (isIP(host) !== 0 && !allowsAddress(policy, host)) throw new AddressRefused(host);
  const begin = url.protocol === 'https:' ? https.request : http.request;
  const headers = { accept: 'application/json' };
  const lookup = guardedLookup(policy);
  const request = begin(url, { headers, lookup, signal, agent: false });
  try {
    request.end();
    const [answer] = (await once(request, 'response')) as [http.IncomingMessage];
    if (answer.statusCode !== 200) throw new Error(`${url} answered ${answer.statusCode}`);
    const document = parseStrictObject(await readBounded(answer, url));
    if (!document) throw new Error(`${url} is not a JSON object`);
    return document;
  } finally {
    // What comes after this concerns nobody.
    request.on('error', () => {});
    request.destroy();
  }
}

async function readBounded(answer: http.IncomingMessage, url: URL): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let sizeBytes = 0;
  for await (const piece of answer) {
    sizeBytes += (piece as Buffer).length;
    if (sizeBytes > documentBytesMax) {
      throw new Error(`${url} is larger than ${documentBytesMax} bytes`);
    }
    pieces.push(piece as Buffer);
  }
  return Buffer.concat(pieces);
}
