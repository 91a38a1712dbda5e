// Shrinking a token, offline: one more link, signed by the key that the last one is bound to.
// Invariant: it is checked by the very rules that the gateway verifies with, so what it makes is
// never wider than what it was given.
import { tokenBytesMax } from './bounds.ts';
import { checkChild, hashToken, type ReadLink, readLinks } from './chain.ts';
import { tokenRefusal } from './faults.ts';
import { type MadeToken, newIdPart, type Restrictions } from './issue.ts';
import { readJws, signJws } from './jws.ts';
import { type PrivateKey, thumbprintUri } from './keys.ts';
import { type Link, linkType, readLink, renderLink } from './link.ts';
import type { Scope } from './scope.ts';

export interface DelegateRequest extends Restrictions {
  /** The private half of the key that the token is bound to. */
  key: PrivateKey;
  /** undefined: the token's. */
  scope?: Scope;
  /** undefined: the token's. */
  expiresAtMs?: number;
  nowMs: number;
}

/** The token with one more link. Throws Refusal InvalidBearerToken, which says what would widen. */
export function delegate(token: string, request: DelegateRequest): MadeToken {
  const links = readLinks(token);
  for (let i = 1; i < links.length; i++) checkChild(links[i - 1] as ReadLink, links[i] as ReadLink);
  const parent = links.at(-1) as ReadLink;
  // A clock that is behind the parent's signer's must not make the child look older.
  const issuedAtMs = Math.max(request.nowMs, parent.link.issuedAtMs);
  const depth = parent.link.depth + 1;
  if (depth > parent.link.depthMax) {
    throw tokenRefusal('Depth', 'may not be made: its parent may not be passed on', depth);
  }
  const link: Link = {
    issuer: thumbprintUri(request.key.publicKey.thumbprint),
    subject: parent.link.subject,
    audience: parent.link.audience,
    issuedAtMs,
    notBeforeMs: request.notBeforeMs ?? issuedAtMs,
    expiresAtMs: request.expiresAtMs ?? parent.link.expiresAtMs,
    id: `${parent.link.id}.${newIdPart()}`,
    scope: request.scope ?? parent.link.scope,
    holder: request.holder,
    depth,
    depthMax: request.depthMax ?? (request.holder ? parent.link.depthMax : depth),
    parentHash: hashToken(parent.jws.signingInput),
    limits: request.limits,
    conditions: request.conditions,
  };
  const text = signJws(request.key, { type: linkType, claims: renderLink(link) });
  const jws = readJws(text, { type: linkType, members: [] }, (fault, message) =>
    tokenRefusal(fault, message, depth),
  );
  checkChild(parent, { link: readLink(jws.claims, depth), jws });
  const made = `${token}~${text}`;
  if (made.length > tokenBytesMax) {
    throw tokenRefusal('TooLarge', `would be longer than ${tokenBytesMax} bytes`);
  }
  return { token: made, id: link.id, expiresAtMs: link.expiresAtMs };
}
