// Keys that sign tokens and proofs: Ed25519 and P-256. Invariant: the algorithm belongs to the key,
// not to the message; a message that names another one is refused before anything is verified, so
// there is no `none`, no HMAC with a public key as its secret, and nothing to confuse.
// Specification: RFC 7517, RFC 8037, RFC 7518 section 3.4 and 6.2, RFC 7638, RFC 9278.
import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  type VerifyKeyObjectInput,
  verify,
} from 'node:crypto';
import { promisify } from 'node:util';
import { decodeBase64url } from '../../core/base64.ts';
import { isObject, otherMember } from './strict-json.ts';

export const algorithms = ['EdDSA', 'ES256'] as const;
export type Algorithm = (typeof algorithms)[number];

export type PublicJwk =
  | { kty: 'OKP'; crv: 'Ed25519'; x: string }
  | { kty: 'EC'; crv: 'P-256'; x: string; y: string };

export interface PublicKey {
  algorithm: Algorithm;
  /** Nothing but the members that RFC 7638 hashes, in its order. */
  jwk: PublicJwk;
  /** base64url of the JWK's SHA-256 (RFC 7638). */
  thumbprint: string;
  keyObject: KeyObject;
}

export interface PrivateKey {
  publicKey: PublicKey;
  keyObject: KeyObject;
}

const thumbprintScheme = 'urn:ietf:params:oauth:jwk-thumbprint:sha-256:';
const signatureBytes = 64;

/** RFC 9278: how a link names the key that signed it. */
export function thumbprintUri(thumbprint: string): string {
  return `${thumbprintScheme}${thumbprint}`;
}

/** The thumbprint in such a URI; undefined if it is none. */
export function thumbprintOf(uri: string): string | undefined {
  return uri.startsWith(thumbprintScheme) ? uri.slice(thumbprintScheme.length) : undefined;
}

/**
 * The public key of a JWK that has the members of a public Ed25519 or P-256 key and no others;
 * undefined for anything else, private keys included.
 */
export function readPublicKey(value: unknown): PublicKey | undefined {
  const jwk = readPublicJwk(value);
  if (jwk === undefined) return undefined;
  try {
    return describePublicKey(createPublicKey({ key: { ...jwk }, format: 'jwk' }), jwk);
  } catch {
    // Not a point of the curve.
    return undefined;
  }
}

/**
 * The thumbprint of a public JWK without making a key of it; undefined where `readPublicKey` would
 * refuse its form. Whether it is a point of its curve is not asked.
 */
export function thumbprintOfJwk(value: unknown): string | undefined {
  const jwk = readPublicJwk(value);
  return jwk && hashJwk(jwk);
}

function readPublicJwk(value: unknown): PublicJwk | undefined {
  if (!isObject(value)) return undefined;
  const { kty, crv, x, y } = value;
  if (!isCoordinate(x)) return undefined;
  if (kty === 'OKP' && crv === 'Ed25519' && !otherMember(value, ['kty', 'crv', 'x'])) {
    return isSmallOrder(x) ? undefined : { crv, kty, x };
  }
  if (kty === 'EC' && crv === 'P-256' && !otherMember(value, ['kty', 'crv', 'x', 'y'])) {
    return isCoordinate(y) ? { crv, kty, x, y } : undefined;
  }
  return undefined;
}

function isCoordinate(value: unknown): value is string {
  return typeof value === 'string' && decodeBase64url(value)?.length === 32;
}

// The points of Ed25519 of order 8 and less, as y with its sign bit cleared, and the two encodings
// beyond the prime. Under such a key one signature fits every message: its holder could deny all.
const smallOrder = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
]);

function isSmallOrder(x: string): boolean {
  const bytes = Buffer.from(x, 'base64url');
  bytes[31] = (bytes[31] as number) & 0x7f;
  return smallOrder.has(bytes.toString('hex'));
}

function hashJwk(jwk: PublicJwk): string {
  return createHash('sha256').update(JSON.stringify(jwk)).digest('base64url');
}

function describePublicKey(keyObject: KeyObject, jwk: PublicJwk): PublicKey {
  const algorithm = jwk.kty === 'OKP' ? 'EdDSA' : 'ES256';
  return { algorithm, jwk, thumbprint: hashJwk(jwk), keyObject };
}

/** A new private key, for this machine alone. */
export function generatePrivateKey(algorithm: Algorithm): PrivateKey {
  const { privateKey } =
    algorithm === 'EdDSA'
      ? generateKeyPairSync('ed25519')
      : generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return describePrivateKey(privateKey) as PrivateKey;
}

/** The private key in a JWK or PKCS#8 PEM; undefined if the text is neither, or of another kind. */
export function readPrivateKey(text: string): PrivateKey | undefined {
  try {
    return describePrivateKey(
      text.trimStart().startsWith('{')
        ? createPrivateKey({ key: JSON.parse(text), format: 'jwk' })
        : createPrivateKey({ key: text, format: 'pem' }),
    );
  } catch {
    return undefined;
  }
}

/** A private key as the text of its file. */
export function renderPrivateKey(key: PrivateKey, format: 'jwk' | 'pem'): string {
  if (format === 'pem') return String(key.keyObject.export({ type: 'pkcs8', format: 'pem' }));
  return `${JSON.stringify(key.keyObject.export({ format: 'jwk' }), null, 2)}\n`;
}

function describePrivateKey(keyObject: KeyObject): PrivateKey | undefined {
  const publicKey = readPublicKey(createPublicKey(keyObject).export({ format: 'jwk' }));
  return publicKey && { publicKey, keyObject };
}

export function signBytes(key: PrivateKey, bytes: Uint8Array): Buffer {
  return key.publicKey.algorithm === 'EdDSA'
    ? sign(null, bytes, key.keyObject)
    : sign('sha256', bytes, { key: key.keyObject, dsaEncoding: 'ieee-p1363' });
}

/**
 * Whether this is the key's signature of the bytes. ES256 signatures are r and s, 32 bytes each.
 */
export function verifyBytes(key: PublicKey, bytes: Uint8Array, signature: Uint8Array): boolean {
  if (signature.length !== signatureBytes) return false;
  return key.algorithm === 'EdDSA'
    ? verify(null, bytes, key.keyObject, signature)
    : verify('sha256', bytes, withFormat(key), signature);
}

/**
 * The same on a thread of libuv's pool, for what each request is asked for: the thread that serves
 * would do nothing else for as long as half a request takes.
 */
export function verifyBytesAside(
  key: PublicKey,
  bytes: Uint8Array,
  signature: Uint8Array,
): Promise<boolean> {
  if (signature.length !== signatureBytes) return Promise.resolve(false);
  return key.algorithm === 'EdDSA'
    ? verifyOnPool(null, bytes, key.keyObject, signature)
    : verifyOnPool('sha256', bytes, withFormat(key), signature);
}

function withFormat({ keyObject }: PublicKey): VerifyKeyObjectInput {
  return { key: keyObject, dsaEncoding: 'ieee-p1363' };
}

const verifyOnPool = promisify(verify);
