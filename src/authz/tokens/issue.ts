// Link 0: made by the gateway for a principal, or by a principal with a registered key of its own,
// on its own machine. Either way it allows nothing that the principal itself may not do.
import { randomBytes } from 'node:crypto';
import type { Limits } from '../../core/quota-terms.ts';
import { linksMax } from './bounds.ts';
import type { Conditions } from './conditions.ts';
import { signJws } from './jws.ts';
import { type PrivateKey, type PublicKey, thumbprintUri } from './keys.ts';
import { type Link, linkType, readLink, renderLink } from './link.ts';
import type { Scope } from './scope.ts';

/** What a token or a shrunk one shall be; what is left out is as wide as it may be. */
export interface Restrictions {
  /** The key whose holder may use it and pass it on; undefined: whoever bears it may use it. */
  holder?: PublicKey;
  limits?: Limits;
  conditions?: Conditions;
  /** Not valid before this; undefined: from now on. */
  notBeforeMs?: number;
  /** The deepest link that may be below it (1 is its child); undefined: as deep as may be. */
  depthMax?: number;
}

export interface IssueRequest extends Restrictions {
  key: PrivateKey;
  /** The gateway's URL when the gateway issues it; undefined: a principal does, with its key. */
  gateway?: string;
  /** The principal in whose name it acts, `tenant/name`. */
  subject: string;
  /** The gateway's URL. */
  audience: string;
  scope: Scope;
  expiresAtMs: number;
  nowMs: number;
}

export interface MadeToken {
  token: string;
  /** The `jti` of its last link. */
  id: string;
  expiresAtMs: number;
}

/** A token of one link. Throws Refusal InvalidBearerToken where nobody would accept it. */
export function issueToken(request: IssueRequest): MadeToken {
  const { key, gateway, nowMs } = request;
  const { thumbprint } = key.publicKey;
  const link: Link = {
    issuer: gateway ?? thumbprintUri(thumbprint),
    subject: request.subject,
    audience: request.audience,
    issuedAtMs: nowMs,
    notBeforeMs: request.notBeforeMs ?? nowMs,
    expiresAtMs: request.expiresAtMs,
    id: gateway === undefined ? `${thumbprint}.${newIdPart()}` : newIdPart(),
    scope: request.scope,
    holder: request.holder,
    depth: 0,
    depthMax: request.depthMax ?? (request.holder ? linksMax - 1 : 0),
    limits: request.limits,
    conditions: request.conditions,
  };
  const claims = renderLink(link);
  readLink(claims, 0);
  const members = gateway === undefined ? {} : { kid: thumbprint };
  const token = signJws(key, { type: linkType, members, claims });
  return { token, id: link.id, expiresAtMs: link.expiresAtMs };
}

/** 127 random bits: a link's own part of its `jti`. */
export function newIdPart(): string {
  const bytes = randomBytes(16);
  // An id never begins with a hyphen, since commands would take it for a flag.
  bytes[0] = (bytes[0] as number) & 0x7f;
  return bytes.toString('base64url');
}
