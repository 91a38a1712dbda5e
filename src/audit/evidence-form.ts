// The form of evidence, checked member by member before anything of it is verified. Pure.
import { decodeBase64url } from '../core/base64.ts';
import { isObject } from '../core/json.ts';
import type { KeptPart } from './evidence.ts';

/** The kinds of parts: a key's enrolment, the links of a token, and the request. */
const partsMax = 10;
const textLengthMax = 64 * 1024;

/** undefined: it has another form. */
export function readEvidenceParts(evidence: unknown): KeptPart[] | undefined {
  if (!isObject(evidence)) return undefined;
  const { v, parts, replayableUntil, ...rest } = evidence;
  if (v !== 1 || Object.keys(rest).length > 0 || !Array.isArray(parts)) return undefined;
  if (parts.length === 0 || parts.length > partsMax) return undefined;
  if (replayableUntil !== undefined && !isTime(replayableUntil)) return undefined;
  return parts.every(isPart) ? parts : undefined;
}

const kinds = ['sigv4a', 'http-signature', 'dpop', 'token-link', 'key-proof'];

function isPart(value: unknown): value is KeptPart {
  if (!isObject(value)) return false;
  const { kind, jwk, thumbprint, enrolledAt, canonicalRequest, ...rest } = value;
  const { signed, signedSha256, signature, ...more } = rest;
  return (
    Object.keys(more).length === 0 &&
    kinds.includes(kind as string) &&
    isJwk(jwk) &&
    isDigest(thumbprint) &&
    (enrolledAt === undefined || (Number.isSafeInteger(enrolledAt) && Number(enrolledAt) >= 0)) &&
    (signedSha256 === undefined
      ? isLatin1(signed)
      : signed === undefined && isDigest(signedSha256)) &&
    isBase64url(signature) &&
    (canonicalRequest === undefined || (kind === 'sigv4a' && isLatin1(canonicalRequest)))
  );
}

function isJwk(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { kty, crv, x, y, ...rest } = value;
  if (Object.keys(rest).length > 0 || !isDigest(x)) return false;
  if (kty === 'EC') return crv === 'P-256' && isDigest(y);
  return kty === 'OKP' && crv === 'Ed25519' && !('y' in value);
}

/** 32 bytes. */
function isDigest(value: unknown): value is string {
  return isBase64url(value) && value.length === 43;
}

function isBase64url(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > textLengthMax) return false;
  return decodeBase64url(value) !== undefined;
}

/** Each character stands for a byte. */
function isLatin1(value: unknown): value is string {
  if (typeof value !== 'string' || value.length > textLengthMax) return false;
  return Buffer.from(value, 'latin1').toString('latin1') === value;
}

function isTime(value: unknown): boolean {
  if (typeof value !== 'string') return false;
  const timeMs = Date.parse(value);
  return !Number.isNaN(timeMs) && new Date(timeMs).toISOString() === value;
}
