// What a token says, link by link: who signed it, what it narrows, what remains. Invariant: it
// shows a bad token too, with what is bad about it; what it could not check it says it did not.
import { isoTime } from '../../core/clock.ts';
import { Refusal } from '../../core/errors.ts';
import { checkChild, type ReadLink, readLinks } from './chain.ts';
import { isSignedBy } from './jws.ts';
import { type PublicKey, thumbprintOf } from './keys.ts';
import type { Link } from './link.ts';
import { renderScope } from './scope.ts';

export interface LinkReport
  extends Pick<Link, 'id' | 'subject' | 'audience' | 'limits' | 'conditions'> {
  /** Its place in the chain, from 0. */
  index: number;
  signedBy: 'gateway' | 'principal' | 'parent';
  /** The gateway's URL, or the thumbprint of the key. */
  signer: string;
  /** `unchecked`: link 0, whose signer's key was not at hand. */
  signature: 'valid' | 'invalid' | 'unchecked';
  issuedAt: string;
  notBefore: string;
  expiresAt: string;
  scope: string;
  /** The thumbprint of the key that it is bound to; null: a bearer link. */
  boundTo: string | null;
  /** How many links may still follow. */
  linksLeft: number;
  /** Why the gateway would refuse this link. */
  fault?: string;
}

export interface TokenReport {
  links: LinkReport[];
  /** Whether it could be used now, as far as that could be checked. */
  state: 'usable' | 'not-yet-valid' | 'expired' | 'invalid';
}

export interface InspectOptions {
  nowMs: number;
  /** Keys that may have signed link 0: the gateway's, or a principal's. */
  issuerKeys?: readonly PublicKey[];
}

/** Reads a token. Throws Refusal InvalidBearerToken when a link of it cannot be read at all. */
export function inspect(token: string, { nowMs, issuerKeys = [] }: InspectOptions): TokenReport {
  const read = readLinks(token);
  const links = read.map((one, index) => {
    const parent = read[index - 1];
    return parent ? reportChild(one, parent) : reportRoot(one, issuerKeys);
  });
  return { links, state: stateOf(read, links, nowMs) };
}

function reportRoot(one: ReadLink, issuerKeys: readonly PublicKey[]): LinkReport {
  const thumbprint = thumbprintOf(one.link.issuer);
  const name = thumbprint ?? one.jws.header.kid;
  const key = issuerKeys.find((known) => known.thumbprint === name);
  return {
    ...describe(one.link),
    signedBy: thumbprint === undefined ? 'gateway' : 'principal',
    signer: thumbprint ?? one.link.issuer,
    signature: key === undefined ? 'unchecked' : isSignedBy(one.jws, key) ? 'valid' : 'invalid',
  };
}

function reportChild(one: ReadLink, parent: ReadLink): LinkReport {
  const { holder } = parent.link;
  const report: LinkReport = {
    ...describe(one.link),
    signedBy: 'parent',
    signer: thumbprintOf(one.link.issuer) ?? one.link.issuer,
    signature: holder && isSignedBy(one.jws, holder) ? 'valid' : 'invalid',
  };
  try {
    checkChild(parent, one);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    report.fault = error.message;
  }
  return report;
}

function describe(link: Link): Omit<LinkReport, 'signedBy' | 'signer' | 'signature'> {
  return {
    index: link.depth,
    id: link.id,
    subject: link.subject,
    audience: link.audience,
    issuedAt: isoTime(link.issuedAtMs),
    notBefore: isoTime(link.notBeforeMs),
    expiresAt: isoTime(link.expiresAtMs),
    scope: renderScope(link.scope),
    boundTo: link.holder?.thumbprint ?? null,
    linksLeft: link.holder ? link.depthMax - link.depth : 0,
    limits: link.limits,
    conditions: link.conditions,
  };
}

function stateOf(
  read: readonly ReadLink[],
  links: readonly LinkReport[],
  nowMs: number,
): TokenReport['state'] {
  if (links.some(({ signature, fault }) => signature === 'invalid' || fault !== undefined)) {
    return 'invalid';
  }
  if (read.some(({ link }) => nowMs >= link.expiresAtMs)) return 'expired';
  return read.some(({ link }) => nowMs < link.notBeforeMs) ? 'not-yet-valid' : 'usable';
}
