// Whether evidence proves what it says: each signature, that each link of a token was given by the
// one before it, and that the request was signed with the key that the last is bound to. Pure; it
// trusts nobody and never throws: a refusal is a value. Whose a key is it does not say, which the
// record of the key's enrolment does. Specification: docs/formats/evidence.md.
import { createPublicKey, hash, type KeyObject, verify } from 'node:crypto';
import type { EvidenceKind } from '../core/evidence.ts';
import { isObject, parseJson } from '../core/json.ts';
import type { KeptPart } from './evidence.ts';
import { readEvidenceParts } from './evidence-form.ts';
import {
  readCanonicalRequest,
  readDpopClaims,
  readSignatureBase,
  readStringToSign,
  type SignedRequest,
} from './signed-request.ts';

/** A link of the token that was used, from the first down. */
export interface VerifiedLink {
  /** The party that signed it. `holder` is the owner of the key that the link before it names. */
  by: 'gateway' | 'principal' | 'holder';
  thumbprint: string;
  enrolledAt: number | null;
  id: string;
  /** `tenant/name`, in whose name it acts. */
  subject: string;
  /** The key that it is bound to; null: none. */
  boundTo: string | null;
}

export interface VerifiedEvidence {
  ok: true;
  /**
   * The kind of the part that proves most, which is the last: the request, a link, or a key's
   * enrolment.
   */
  kind: EvidenceKind;
  /** The thumbprint of the key that signed it. */
  thumbprint: string;
  /** Log index of that key's enrolment; null: it is not enrolled. */
  enrolledAt: number | null;
  /** What of the request was signed; none: nothing was, or what it was is not kept. */
  covers: readonly string[];
  /** What was signed for this very request; null: nothing, or it is not kept. */
  request: SignedRequest | null;
  links: readonly VerifiedLink[];
  /** The key that was enrolled with this request, for whom; null: none was. */
  enrolled: { thumbprint: string; subject: string } | null;
}

export type EvidenceVerdict = VerifiedEvidence | { ok: false; why: string };

/** `evidence`: as JSON says it. */
export function verifyEvidence(evidence: unknown): EvidenceVerdict {
  const parts = readEvidenceParts(evidence);
  if (!parts) return refuse('it has not the form of evidence');
  try {
    return verifyParts(parts);
  } catch (error) {
    if (error instanceof Unproven) return refuse(error.message);
    throw error;
  }
}

class Unproven extends Error {}

function refuse(why: string): EvidenceVerdict {
  return { ok: false, why };
}

function demand(isTrue: unknown, why: string): asserts isTrue {
  if (!isTrue) throw new Unproven(why);
}

function verifyParts(parts: readonly KeptPart[]): VerifiedEvidence {
  for (const part of parts) demandSignature(part);
  const [first] = parts;
  const enrolled = first?.kind === 'key-proof' ? readKeyProof(first) : null;
  const linkParts = parts.filter(({ kind }) => kind === 'token-link');
  const last = parts.at(-1) as KeptPart;
  const isRequest = last.kind !== 'token-link' && last.kind !== 'key-proof';
  const expected = Number(enrolled !== null) + linkParts.length + Number(isRequest);
  demand(expected === parts.length, 'its parts are not in their order');
  const links = verifyLinks(linkParts);
  const request = isRequest ? verifyRequest(last, linkParts, links) : null;
  const { kind, thumbprint, enrolledAt = null } = last;
  const covers = request?.covers ?? [];
  return { ok: true, kind, thumbprint, enrolledAt, covers, request, links, enrolled };
}

function demandSignature({ kind, jwk, thumbprint, signed, signature }: KeptPart): void {
  const { crv, kty, x } = jwk;
  const members = kty === 'EC' ? { crv, kty, x, y: jwk.y } : { crv, kty, x };
  const own = hash('sha256', JSON.stringify(members), 'base64url');
  demand(own === thumbprint, `the thumbprint of the key of its ${kind} is another`);
  const wanted = 'what was signed is not kept, since it held a secret or was too large';
  demand(signed !== undefined, wanted);
  const isGenuine = isSigned({ kind, jwk, signed, signature });
  demand(isGenuine, `the signature of its ${kind} is not one by its key`);
}

function isSigned({
  kind,
  jwk,
  signed,
  signature,
}: Pick<KeptPart, 'kind' | 'jwk'> & { signed: string; signature: string }): boolean {
  const bytes = Buffer.from(signed, 'latin1');
  const proof = Buffer.from(signature, 'base64url');
  const key = keyOf(jwk);
  if (key === undefined) return false;
  if (kind === 'sigv4a') return jwk.kty === 'EC' && verify('sha256', bytes, key, proof);
  if (proof.length !== 64) return false;
  if (jwk.kty === 'OKP') return verify(null, bytes, key, proof);
  return verify('sha256', bytes, { key, dsaEncoding: 'ieee-p1363' }, proof);
}

/** undefined: not a point of its curve. */
function keyOf(jwk: KeptPart['jwk']): KeyObject | undefined {
  try {
    return createPublicKey({ key: { ...jwk }, format: 'jwk' });
  } catch {
    return undefined;
  }
}

// Tokens -----------------------------------------------------------------------------------------

const thumbprintScheme = 'urn:ietf:params:oauth:jwk-thumbprint:sha-256:';

function verifyLinks(parts: readonly KeptPart[]): VerifiedLink[] {
  const links: VerifiedLink[] = [];
  for (const [i, part] of parts.entries()) {
    const { header, claims } = readJws(part, 'bursar-link+jwt');
    const { iss, jti, sub, cnf, par_hash: parentHash } = claims;
    demand(typeof jti === 'string' && typeof sub === 'string', 'a link has no jti or sub');
    const isOwn = iss === `${thumbprintScheme}${part.thumbprint}`;
    const before = links.at(-1);
    if (before) {
      demand(
        isOwn && before.boundTo === part.thumbprint,
        `link ${i} is not by whom link ${i - 1} names`,
      );
      const parent = digestText(parts[i - 1]?.signed ?? '');
      demand(parentHash === parent, `link ${i} was made for another parent`);
    } else {
      demand(isOwn || header.kid === part.thumbprint, 'its first link names another key');
    }
    const boundTo = thumbprintOf((cnf as { jwk?: unknown } | undefined)?.jwk);
    const by = before ? 'holder' : isOwn ? 'principal' : 'gateway';
    const { thumbprint, enrolledAt = null } = part;
    links.push({ by, thumbprint, enrolledAt, id: jti, subject: sub, boundTo });
  }
  return links;
}

function verifyRequest(
  part: KeptPart,
  linkParts: readonly KeptPart[],
  links: readonly VerifiedLink[],
): SignedRequest | null {
  if (part.kind === 'sigv4a') return verifySigv4a(part, links);
  const isKeys = links.at(-1)?.boundTo === part.thumbprint;
  demand(isKeys, 'the request is signed with another key than the token is bound to');
  const token = linkParts.map(({ signed, signature }) => `${signed}.${signature}`).join('~');
  const isDpop = part.kind === 'dpop';
  const request = isDpop
    ? readDpopClaims(readJws(part, 'dpop+jwt').claims)
    : readSignatureBase(part.signed as string);
  demand(request, `its ${part.kind} says nothing that can be read`);
  const { keyId, tokenHash, authorization } = request;
  if (isDpop) demand(tokenHash === digestText(token), 'the request is for another token');
  else demand(keyId === part.thumbprint, 'the request names another key');
  // Where the token is in the body, as it is for STS, no header is covered.
  const isToken = authorization === null || authorization.replace(/^bearer +/i, '') === token;
  demand(isToken, 'the request has another token');
  return request;
}

function verifySigv4a(part: KeptPart, links: readonly VerifiedLink[]): SignedRequest | null {
  demand(links.length === 0, 'what is signed with SigV4A has no token');
  const about = readStringToSign(part.signed as string);
  demand(about, 'its sigv4a says nothing that can be read');
  if (part.canonicalRequest === undefined) return null;
  const request = readCanonicalRequest(part.canonicalRequest, about);
  demand(request, 'its canonical request is not the one that was signed');
  return request;
}

function readKeyProof(part: KeptPart): { thumbprint: string; subject: string } {
  const { sub, thumbprint } = readJws(part, 'bursar-key-proof+jwt').claims;
  const isOwn = thumbprint === part.thumbprint && typeof sub === 'string';
  demand(isOwn, 'the enrolment is of another key');
  return { thumbprint: part.thumbprint, subject: sub };
}

type Json = Record<string, unknown>;

function readJws(
  { signed = '', jwk, kind }: KeptPart,
  type: string,
): { header: Json; claims: Json } {
  const [head = '', body = '', ...more] = signed.split('.');
  const [header, claims] = [parseObject(head), parseObject(body)];
  demand(header && claims && more.length === 0, `its ${kind} is not a JWS`);
  const isOfKey = header.alg === (jwk.kty === 'OKP' ? 'EdDSA' : 'ES256');
  demand(header.typ === type && isOfKey, `its ${kind} has another type or algorithm`);
  return { header, claims };
}

function parseObject(base64url: string): Json | undefined {
  const value = parseJson(Buffer.from(base64url, 'base64url').toString());
  return isObject(value) ? value : undefined;
}

function thumbprintOf(jwk: unknown): string | null {
  if (typeof jwk !== 'object' || jwk === null) return null;
  const { crv, kty, x, y } = jwk as Json;
  return digestText(JSON.stringify({ crv, kty, x, y }));
}

function digestText(text: string): string {
  return hash('sha256', text, 'base64url');
}
