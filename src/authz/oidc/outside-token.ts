// A token of an outside issuer, verified. Invariants: which issuer and whose it is follows from
// `iss` and `aud` alone, whose keys and algorithms are fixed before the signature is looked at;
// keys that the token itself brings or points to (`jwk`, `jku`, `x5c`, `x5u`) mean nothing.
// Specification: RFC 7519, RFC 8725, RFC 9068; WLCG Common JWT Profile 1.x.
import { createHash } from 'node:crypto';
import type { JWTVerifyOptions } from 'jose';
import { decodeBase64url } from '../../core/base64.ts';
import { Refusal } from '../../core/errors.ts';
import { clockSkewMs, idPartLengthMax, timeSecondsMax, tokenBytesMax } from '../tokens/bounds.ts';
import { tokenRefusal } from '../tokens/faults.ts';
import { mountScope, type Scope, ScopeError } from '../tokens/scope.ts';
import { type JsonObject, parseStrictObject } from '../tokens/strict-json.ts';
import type { IssuerBook, TrustedIssuer } from './issuer-book.ts';
import { outsideIdOf } from './outside-id.ts';

export interface OutsideToken {
  tenant: string;
  issuerName: string;
  /** Its `sub`. */
  subject: string;
  /** Of the tenant, as the issuer's mapping has them. */
  principalName: string;
  groups: readonly string[];
  /** null: wherever the principal may. */
  scope: Scope | null;
  /** `oidc.TENANT.ISSUER.JTI`: under which it can be revoked. */
  id: string;
  expiresAtMs: number;
  /** Until then it needs not be verified again. */
  goodUntilMs: number;
}

const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'ES256', 'ES384', 'EdDSA', 'Ed25519'];
/** Tokens to show to a resource. Others are signed with the same keys: logout tokens, and so on. */
const types: readonly unknown[] = [undefined, 'jwt', 'at+jwt', 'application/at+jwt'];
const textLengthMax = 255;

interface ReadToken {
  header: JsonObject;
  claims: JsonObject;
  /** What is signed: without the signature, of which there can be several that fit. */
  signingInput: string;
}

/**
 * Verifies a token of an issuer in the book. Throws Refusal InvalidBearerToken or
 * ExpiredBearerToken, and AccessDenied where nobody is who its subject is mapped to.
 */
export async function verifyOutsideToken(
  text: string,
  book: IssuerBook,
  nowMs: number,
): Promise<OutsideToken> {
  const read = readToken(text);
  const [issuer, other] = findIssuers(read.claims, book);
  if (!issuer) throw notTrusted();
  await verifySignature(text, issuer, nowMs);
  // Not before: anybody can write audiences into a token, and would be told which are trusted.
  if (other) throw tokenRefusal('Audience', 'is for more than one audience that is trusted here');
  const { claims } = read;
  checkRest(claims, nowMs);
  const subject = claims.sub as string;
  const expiresAtMs = (claims.exp as number) * 1000;
  return {
    tenant: issuer.tenant,
    issuerName: issuer.name,
    subject,
    principalName: principalOf(subject, issuer),
    groups: groupsOf(claims, issuer),
    scope: scopeOf(claims.scope, issuer),
    id: idOf(read, issuer),
    expiresAtMs,
    goodUntilMs: Math.min(expiresAtMs, issuer.keys.goodUntilMs),
  };
}

/** What a token says, not believed. One that can be read in two ways is refused. */
function readToken(text: string): ReadToken {
  if (text.length > tokenBytesMax) {
    throw tokenRefusal('TooLarge', `is longer than ${tokenBytesMax} bytes`);
  }
  const parts = text.split('.', 4);
  const [header, claims, signature] = parts.map(decodeBase64url);
  if (parts.length !== 3 || !header || !claims || !signature) {
    throw tokenRefusal('Malformed', 'is not a compact JWS');
  }
  const read = { header: parseStrictObject(header), claims: parseStrictObject(claims) };
  if (!read.header || !read.claims) {
    throw tokenRefusal('Malformed', 'has a header or claims that are not a JSON object');
  }
  const { typ, alg } = read.header;
  if (!types.includes(typeof typ === 'string' ? typ.toLowerCase() : typ)) {
    throw tokenRefusal('Header', 'has a "typ" that is not one of an access token');
  }
  if (!algorithms.includes(alg as string)) {
    throw tokenRefusal('Header', `must have an "alg" of ${algorithms.join(', ')}`);
  }
  const signingInput = text.slice(0, text.lastIndexOf('.'));
  return { header: read.header, claims: read.claims, signingInput };
}

/** The answer is the same for an issuer that nobody trusts and for a wrong signature. */
function notTrusted(cause?: unknown): Refusal {
  const wanted = 'is not signed by an issuer that is trusted here for its audience';
  const refusal = tokenRefusal('Signature', wanted);
  refusal.cause = cause;
  return refusal;
}

function findIssuers({ iss, aud }: JsonObject, book: IssuerBook): TrustedIssuer[] {
  const audiences = [...new Set(Array.isArray(aud) ? aud : [aud])];
  return typeof iss === 'string' ? book.find(iss, audiences.filter(isText)) : [];
}

async function verifySignature(text: string, issuer: TrustedIssuer, nowMs: number): Promise<void> {
  const options: JWTVerifyOptions = {
    algorithms,
    issuer: issuer.url,
    audience: issuer.audience,
    requiredClaims: ['sub', 'exp', 'iat'],
    clockTolerance: clockSkewMs / 1000,
    currentDate: new Date(nowMs),
  };
  // Loaded when there is something to verify with it, which few gateways ever have.
  const { errors, jwtVerify } = await import('jose');
  try {
    await jwtVerify(text, (header) => issuer.keys.find(header, nowMs), options);
  } catch (error) {
    if (error instanceof Refusal) throw error;
    if (error instanceof errors.JWTExpired) throw tokenRefusal('Expired', 'expired');
    if (error instanceof errors.JWTClaimValidationFailed) {
      const fault = error.claim === 'nbf' ? 'NotYetValid' : 'Claims';
      throw tokenRefusal(fault, `has a claim "${error.claim}" that is missing or does not hold`);
    }
    // An issuer may publish anything: of a key that is none, jose makes errors of all kinds.
    throw notTrusted(error);
  }
}

/** Checks those claims that jose does not check. */
function checkRest(claims: JsonObject, nowMs: number): void {
  const { sub, exp, iat, cnf, 'wlcg.ver': version } = claims;
  if (!isText(sub) || sub === '') throw tokenRefusal('Claims', 'has no "sub" that names anybody');
  if (!isTime(exp) || !isTime(iat))
    throw tokenRefusal('Claims', 'has an "exp" or "iat" beyond all');
  // Leeway is for clocks that are ahead; a token is dead at its end.
  if (nowMs >= exp * 1000) throw tokenRefusal('Expired', 'expired');
  if (iat * 1000 > nowMs + clockSkewMs) throw tokenRefusal('NotYetValid', 'is not issued yet');
  if (version !== undefined && !(isText(version) && /^1\.\d{1,3}$/.test(version))) {
    throw tokenRefusal('Claims', 'has a "wlcg.ver" that is not 1.x');
  }
  if (cnf !== undefined)
    throw tokenRefusal('Claims', 'is bound to a key, which proves nothing here');
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value.length <= textLengthMax;
}

function isTime(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= timeSecondsMax;
}

function principalOf(subject: string, issuer: TrustedIssuer): string {
  const name = issuer.principals.get(subject) ?? issuer.defaultPrincipal;
  if (name !== null) return name;
  throw new Refusal('AccessDenied', { message: 'The subject of the token is mapped to nobody.' });
}

function groupsOf(claims: JsonObject, { groups }: TrustedIssuer): string[] {
  const entries = [claims['wlcg.groups'], claims.groups].flatMap((list) =>
    Array.isArray(list) ? (list as unknown[]) : [],
  );
  const found = entries.flatMap((entry) => groups.get(entry as string) ?? []);
  return [...new Set(found)];
}

function scopeOf(scope: unknown, { pathPrefix, wholeScope }: TrustedIssuer): Scope | null {
  if (scope === undefined) return wholeScope;
  if (typeof scope !== 'string') throw tokenRefusal('Scope', 'has a "scope" that is no text');
  try {
    return mountScope(scope, pathPrefix) ?? wholeScope;
  } catch (error) {
    if (error instanceof ScopeError) throw tokenRefusal('Scope', error.message);
    throw error;
  }
}

const plainId = new RegExp(`^[A-Za-z0-9_-]{1,${idPartLengthMax}}$`);

function idOf({ claims: { jti }, signingInput }: ReadToken, issuer: TrustedIssuer): string {
  const own =
    typeof jti === 'string' && plainId.test(jti)
      ? jti
      : createHash('sha256')
          .update(typeof jti === 'string' ? jti : signingInput)
          .digest('base64url');
  return outsideIdOf(issuer, own);
}
