// What an issuer publishes about itself: its configuration, and the keys that it signs with.
// Invariant: of a document nothing is used before all of it came within the bounds, from the place
// that was asked; there are no redirects.
// Specification: OpenID Connect Discovery 1.0 section 4; RFC 7517 section 5.
import type { IncomingMessage } from 'node:http';
import type { JSONWebKeySet, JWK } from 'jose';
import { isObject, type JsonObject, parseStrictObject } from '../tokens/strict-json.ts';
import type { AddressPolicy } from './address-policy.ts';
import { askGuarded, failLate } from './guarded-request.ts';

const documentBytesMax = 256 * 1024;
const keysMax = 100;
/** base64url characters of the modulus of the largest RSA key, of 8192 bits. */
const modulusLengthMax = 1366;

/**
 * The public keys that the issuer of this URL publishes now. Throws an Error that says, for the
 * operator, what is wrong; when the time is up, not before.
 */
export function fetchKeys(
  issuerUrl: string,
  policy: AddressPolicy,
  timeoutMs: number,
): Promise<JSONWebKeySet> {
  return failLate(timeoutMs, async (signal) => {
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
  });
}

/** Keys lie at the issuer itself, or elsewhere behind TLS. */
function keysPlace({ jwks_uri }: JsonObject, origin: URL): URL {
  if (typeof jwks_uri === 'string' && URL.canParse(jwks_uri)) {
    const place = new URL(jwks_uri);
    const isPlain = place.username === '' && place.password === '';
    if (!isPlain) throw new Error('its "jwks_uri" has a user');
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

function fetchDocument(url: URL, policy: AddressPolicy, signal: AbortSignal): Promise<JsonObject> {
  const headers = { accept: 'application/json' };
  return askGuarded({ url, policy, method: 'GET', headers, signal }, async (answer) => {
    if (answer.statusCode !== 200) throw new Error(`${url} answered ${answer.statusCode}`);
    const document = parseStrictObject(await readBounded(answer, url));
    if (!document) throw new Error(`${url} is not a JSON object`);
    return document;
  });
}

async function readBounded(answer: IncomingMessage, url: URL): Promise<Buffer> {
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
