// Compact JWS, read strictly. Invariant: reading says what a text claims, never that it is true;
// `isSignedBy` does. Of the header only `typ`, `alg` and what the caller names may be there, so
// `crit`, `jku`, `x5u` and the like have no meaning to get wrong.
// Specification: RFC 7515 section 3.1 and 7.1, RFC 8725.

import { decodeBase64url } from '../../core/base64.ts';
import {
  type Algorithm,
  algorithms,
  type PrivateKey,
  type PublicKey,
  signBytes,
  verifyBytes,
  verifyBytesAside,
} from './keys.ts';
import { type JsonObject, otherMember, parseStrictObject } from './strict-json.ts';

export interface Jws {
  algorithm: Algorithm;
  header: JsonObject;
  claims: JsonObject;
  /** `header.payload`, as it was sent. */
  signingInput: string;
  signature: Buffer;
}

export interface JwsForm {
  /** What the header's `typ` must be: a proof is never read as a token, nor the reverse. */
  type: string;
  /** Header members beside `typ` and `alg` that may be there. */
  members: readonly string[];
}

export type JwsFault = 'Malformed' | 'Header';

/** Reads a compact JWS; what `refuse` makes is thrown when it does not have the form. */
export function readJws(
  text: string,
  form: JwsForm,
  refuse: (fault: JwsFault, message: string) => Error,
): Jws {
  const [head = '', body = '', tail = '', ...more] = text.split('.', 4);
  const headerBytes = decodeBase64url(head);
  const bodyBytes = decodeBase64url(body);
  const signature = decodeBase64url(tail);
  if (!head || !body || !tail || more.length > 0 || !headerBytes || !bodyBytes || !signature) {
    throw refuse('Malformed', 'is not a compact JWS: three parts in base64url without padding');
  }
  const header = parseStrictObject(headerBytes);
  const claims = parseStrictObject(bodyBytes);
  if (!header || !claims) {
    throw refuse(
      'Malformed',
      'has a header or claims that are not a JSON object without repetition',
    );
  }
  const { typ, alg } = header;
  if (typ !== form.type) throw refuse('Header', `must have the "typ" ${form.type}`);
  const algorithm = algorithms.find((one) => one === alg);
  if (!algorithm) throw refuse('Header', `must have an "alg" of ${algorithms.join(' or ')}`);
  const other = otherMember(header, ['typ', 'alg', ...form.members]);
  if (other !== undefined) throw refuse('Header', `may not have "${other}" in its header`);
  const signingInput = text.slice(0, head.length + 1 + body.length);
  return { algorithm, header, claims, signingInput, signature };
}

/** Whether the key signed it, and the header names the key's own algorithm. */
export function isSignedBy(jws: Jws, key: PublicKey): boolean {
  if (jws.algorithm !== key.algorithm) return false;
  return verifyBytes(key, Buffer.from(jws.signingInput, 'latin1'), jws.signature);
}

/** The same on another thread, see `verifyBytesAside`. */
export async function isSignedByAside(jws: Jws, key: PublicKey): Promise<boolean> {
  if (jws.algorithm !== key.algorithm) return false;
  return verifyBytesAside(key, Buffer.from(jws.signingInput, 'latin1'), jws.signature);
}

/** A compact JWS of the claims. */
export function signJws(
  key: PrivateKey,
  { type, members, claims }: { type: string; members?: JsonObject; claims: JsonObject },
): string {
  const header = { typ: type, alg: key.publicKey.algorithm, ...members };
  const signingInput = `${encodeJson(header)}.${encodeJson(claims)}`;
  const signature = signBytes(key, Buffer.from(signingInput, 'latin1'));
  return `${signingInput}.${signature.toString('base64url')}`;
}

function encodeJson(value: JsonObject): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}
