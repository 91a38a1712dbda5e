// A token as a chain of links, verified. Invariant: what a chain allows is what its last link says,
// and every link was allowed to say so by the one before it: signed by the key that its parent
// names, one deeper, no wider in scope, and within its parent's time. Whoever cuts the chain short
// to get back a wider link gets one that is bound to a key, which they would have to prove.
// Specification: docs/formats/token.md; the shape is draft-niyikiza-oauth-attenuating-agent-tokens.
import { createHash } from 'node:crypto';
import { isoTime } from '../../core/clock.ts';
import type { Limits } from '../../core/quota-terms.ts';
import { clockSkewMs, linkBytesMax, linksMax, tokenBytesMax } from './bounds.ts';
import { ChainConditions } from './conditions.ts';
import { tokenRefusal } from './faults.ts';
import { isSignedBy, type Jws, readJws } from './jws.ts';
import { type PublicKey, thumbprintOf, thumbprintUri } from './keys.ts';
import { type Link, linkType, readLink } from './link.ts';
import { isSubset, type Scope } from './scope.ts';

/** The signer of link 0. */
export interface Issuer {
  key: PublicKey;
  /** The principal whose registered key it is; undefined: the gateway's own. */
  principal?: string;
}

/** What link 0 says of its signer, not yet believed. */
export interface IssuerClaim {
  /** The gateway's URL, or a thumbprint URI. */
  issuer: string;
  /** The header's `kid`: which of the gateway's keys. */
  keyId?: string;
  /** The thumbprint in `issuer`: a principal's registered key. Either this or `keyId` is there. */
  thumbprint?: string;
}

export type FindIssuerKey = (
  claim: IssuerClaim,
) => Issuer | undefined | Promise<Issuer | undefined>;

export interface ChainOptions {
  /** The key that may sign link 0; undefined if there is none (any more). */
  findIssuerKey: FindIssuerKey;
  /** The gateway's URL, which `aud` must be. */
  audience: string;
  nowMs: number;
  /** How far ahead the clocks of those who signed may be. */
  clockSkewMs?: number;
}

/** An account that pays for what is done with a token, one for each link. */
export interface TokenAccount {
  /** `token:<jti>`. */
  name: string;
  limits?: Limits;
  /** When its link ends: it is remembered until after that. */
  expiresAtMs: number;
}

export interface Chain {
  /** base64url(SHA-256 of the token): a stable key for caches, and DPoP's `ath`. */
  hash: string;
  links: readonly Link[];
  issuer: Issuer;
  /** The principal in whose name it acts, `tenant/name`. */
  subject: string;
  scope: Scope;
  conditions: ChainConditions;
  /** From link 0 down: a request is charged to each of them. */
  accounts: readonly TokenAccount[];
  /** The `jti`s from link 0 down: if one is revoked, the chain is. */
  ids: readonly string[];
  /** The key that each request must prove; undefined: a bearer token. */
  boundKey: PublicKey | undefined;
  /** It is refused from this time on; the chain may be kept until then. */
  expiresAtMs: number;
  depth: number;
}

/** A link as it was read, with the signature that is yet to be verified. */
export interface ReadLink {
  link: Link;
  jws: Jws;
}

/**
 * Verifies a token. Throws Refusal InvalidBearerToken or ExpiredBearerToken. What it does not ask:
 * whether a `jti` is revoked, whether the principal is still there, and the proof of `boundKey`.
 */
export async function verifyChain(text: string, options: ChainOptions): Promise<Chain> {
  const read = readLinks(text);
  const issuer = await verifyRoot(read[0] as ReadLink, options);
  for (let i = 1; i < read.length; i++) checkChild(read[i - 1] as ReadLink, read[i] as ReadLink);
  const links = read.map(({ link }) => link);
  for (const [index, link] of links.entries()) checkTimes(link, index, options);
  const last = links.at(-1) as Link;
  return {
    hash: hashToken(text),
    links,
    issuer,
    subject: last.subject,
    scope: last.scope,
    conditions: new ChainConditions(links.flatMap(({ conditions }) => conditions ?? [])),
    accounts: links.map(({ id, limits, expiresAtMs }) => {
      return { name: `token:${id}`, limits, expiresAtMs };
    }),
    ids: links.map(({ id }) => id),
    boundKey: last.holder,
    expiresAtMs: last.expiresAtMs,
    depth: last.depth,
  };
}

/** base64url(SHA-256 of a token's text). */
export function hashToken(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

/**
 * The links of a token, each of a form that makes sense, none of them believed. Throws Refusal
 * InvalidBearerToken.
 */
export function readLinks(text: string): ReadLink[] {
  if (text.length > tokenBytesMax) {
    throw tokenRefusal('TooLarge', `is longer than ${tokenBytesMax} bytes`);
  }
  const parts = text.split('~', linksMax + 1);
  if (parts.length > linksMax) {
    throw tokenRefusal('TooLarge', `has more than ${linksMax} links`);
  }
  return parts.map(readPart);
}

function readPart(text: string, index: number): ReadLink {
  if (text.length > linkBytesMax) {
    throw tokenRefusal('TooLarge', `is longer than ${linkBytesMax} bytes`, index);
  }
  // Only link 0 names its key: a later one's is in its parent, a name for it could only mislead.
  const form = { type: linkType, members: index === 0 ? ['kid'] : [] };
  const jws = readJws(text, form, (fault, message) => tokenRefusal(fault, message, index));
  return { link: readLink(jws.claims, index), jws };
}

/** The signer of link 0, if it may sign it. */
async function verifyRoot({ link, jws }: ReadLink, options: ChainOptions): Promise<Issuer> {
  const { kid } = jws.header;
  const thumbprint = thumbprintOf(link.issuer);
  if (thumbprint === undefined ? typeof kid !== 'string' : kid !== undefined) {
    const rule = 'must have a "kid" if the gateway issued it, and none if a principal did';
    throw tokenRefusal('Header', rule, 0);
  }
  const keyId = thumbprint === undefined ? (kid as string) : undefined;
  const issuer = await options.findIssuerKey({ issuer: link.issuer, keyId, thumbprint });
  const isKnown =
    issuer !== undefined &&
    issuer.key.thumbprint === (thumbprint ?? keyId) &&
    (thumbprint === undefined ? issuer.principal === undefined : issuer.principal === link.subject);
  // The answer is the same in all cases, so that nobody learns whose keys are registered.
  if (!isKnown || !isSignedBy(jws, issuer.key)) {
    const wanted =
      'is not signed by the gateway, nor by a key of the principal in whose name it acts';
    throw tokenRefusal('Signature', wanted, 0);
  }
  if (thumbprint !== undefined && !link.id.startsWith(`${thumbprint}.`)) {
    throw tokenRefusal('Claims', 'must have a "jti" that begins with the thumbprint of its key', 0);
  }
  return issuer;
}

/**
 * Was the child given by the parent, and no more than the parent had? Throws Refusal
 * InvalidBearerToken. The parent's own right is its parents' to show.
 */
export function checkChild(parent: ReadLink, child: ReadLink): void {
  const index = child.link.depth;
  const { holder } = parent.link;
  if (holder === undefined) {
    throw tokenRefusal('Parent', 'has a parent without "cnf", which cannot be passed on', index);
  }
  if (child.link.issuer !== thumbprintUri(holder.thumbprint)) {
    throw tokenRefusal('Parent', 'must have as "iss" the key that its parent is bound to', index);
  }
  if (child.link.parentHash !== hashToken(parent.jws.signingInput)) {
    throw tokenRefusal('Parent', 'was made for another parent: its "par_hash" differs', index);
  }
  if (!isSignedBy(child.jws, holder)) {
    throw tokenRefusal('Signature', 'is not signed by the key that its parent is bound to', index);
  }
  checkNarrower(parent.link, child.link);
}

/** The part of `checkChild` that asks for no signature. */
function checkNarrower(parent: Link, child: Link): void {
  const index = child.depth;
  const widened = (what: string) => tokenRefusal('Widened', `${what} than its parent`, index);
  if (child.depth > parent.depthMax) {
    throw tokenRefusal('Depth', 'lies deeper than its parent allows', index);
  }
  if (child.depthMax > parent.depthMax) throw widened('allows deeper links');
  if (child.expiresAtMs > parent.expiresAtMs) {
    const end = isoTime(parent.expiresAtMs);
    throw tokenRefusal('Widened', `expires later than its parent, which ends at ${end}`, index);
  }
  if (child.issuedAtMs < parent.issuedAtMs) throw widened('was issued earlier');
  if (!isSubset(child.scope, parent.scope)) throw widened('has a wider scope');
  if (child.subject !== parent.subject) {
    throw tokenRefusal('Parent', 'acts in the name of another than its parent', index);
  }
  if (child.audience !== parent.audience) {
    throw tokenRefusal('Parent', 'is for another audience than its parent', index);
  }
  // So nobody can charge or revoke a link that is not below their own.
  const ownPart = child.id.startsWith(`${parent.id}.`) ? child.id.slice(parent.id.length + 1) : '';
  if (ownPart === '' || ownPart.includes('.')) {
    throw tokenRefusal(
      'Parent',
      'must have as "jti" its parent\'s, a dot and a part of its own',
      index,
    );
  }
}

function checkTimes(link: Link, index: number, options: ChainOptions): void {
  const { nowMs } = options;
  const latestMs = nowMs + (options.clockSkewMs ?? clockSkewMs);
  if (link.audience !== options.audience) {
    throw tokenRefusal('Audience', `is for ${link.audience}, not for this gateway`, index);
  }
  if (nowMs >= link.expiresAtMs) {
    throw tokenRefusal('Expired', `expired at ${isoTime(link.expiresAtMs)}`, index);
  }
  const fromMs = Math.max(link.notBeforeMs, link.issuedAtMs);
  if (fromMs > latestMs) {
    throw tokenRefusal('NotYetValid', `is not valid before ${isoTime(fromMs)}`, index);
  }
}
