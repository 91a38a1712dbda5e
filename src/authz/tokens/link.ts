// One link of a token: its claims, read and written. Invariant: the set of claims is closed. A
// claim that this code does not know might narrow the token, so a link that has one is refused.
// Specification: docs/formats/token.md, section "Claims".

import { type Limits, readLimits } from '../../core/quota-terms.ts';
import { idPartLengthMax, linksMax, nameLengthMax, timeSecondsMax } from './bounds.ts';
import { type Conditions, readConditions } from './conditions.ts';
import { type TokenFault, tokenRefusal } from './faults.ts';
import { type PublicKey, readPublicKey } from './keys.ts';
import { parseScope, renderScope, type Scope, ScopeError } from './scope.ts';
import { isObject, type JsonObject, otherMember } from './strict-json.ts';

export const linkType = 'bursar-link+jwt';

export interface Link {
  /** A gateway's URL, or the thumbprint URI of the key that signed it. */
  issuer: string;
  /** The principal in whose name the token acts, `tenant/name`. */
  subject: string;
  /** The gateway that it is for. */
  audience: string;
  issuedAtMs: number;
  notBeforeMs: number;
  expiresAtMs: number;
  /** Its `jti`: the parent's, a dot, and a part of its own. */
  id: string;
  scope: Scope;
  /** The key whose holder may use it and pass it on; undefined: whoever bears it may use it. */
  holder?: PublicKey;
  depth: number;
  depthMax: number;
  /** base64url(SHA-256 of the parent's signing input); undefined in link 0. */
  parentHash?: string;
  limits?: Limits;
  conditions?: Conditions;
}

const claimNames = [
  'iss',
  'sub',
  'aud',
  'iat',
  'nbf',
  'exp',
  'jti',
  'wlcg.ver',
  'scope',
  'cnf',
  'del_depth',
  'del_max_depth',
  'par_hash',
  'limits',
  'conditions',
];

const profileVersion = '1.0';
// A principal's own tokens begin with its key's thumbprint.
const idLengthMax = (linksMax + 1) * (idPartLengthMax + 1);
const idForm = new RegExp(
  `^[A-Za-z0-9_-]{1,${idPartLengthMax}}(?:\\.[A-Za-z0-9_-]{1,${idPartLengthMax}})*$`,
);

/** The claims of the link at `index`, counted from 0. Throws Refusal InvalidBearerToken. */
export function readLink(claims: JsonObject, index: number): Link {
  const refuse: Refuse = (fault, message) => tokenRefusal(fault, message, index);
  const other = otherMember(claims, claimNames);
  if (other !== undefined) {
    throw refuse('Claims', `has the claim "${other.slice(0, 80)}", which is not known`);
  }
  if (claims['wlcg.ver'] !== profileVersion) {
    throw refuse('Claims', `must have the "wlcg.ver" ${profileVersion}`);
  }
  const link: Link = {
    issuer: readName(claims, 'iss', refuse),
    subject: readName(claims, 'sub', refuse),
    audience: readName(claims, 'aud', refuse),
    issuedAtMs: readTimeMs(claims, 'iat', refuse),
    notBeforeMs: readTimeMs(claims, 'nbf', refuse),
    expiresAtMs: readTimeMs(claims, 'exp', refuse),
    id: readName(claims, 'jti', refuse),
    scope: readScope(claims.scope, refuse),
    depth: readDepth(claims, 'del_depth', refuse),
    depthMax: readDepth(claims, 'del_max_depth', refuse),
    ...readRestrictions(claims, refuse),
  };
  if (link.depth !== index) {
    throw refuse('Depth', `must have the "del_depth" ${index}`);
  }
  if (link.depth > link.depthMax) {
    throw refuse('Depth', 'lies deeper than its own "del_max_depth"');
  }
  if (!idForm.test(link.id)) throw refuse('Claims', 'has a "jti" of another form');
  if ((link.parentHash === undefined) !== (index === 0)) {
    throw refuse('Claims', index === 0 ? 'may not have "par_hash"' : 'must have "par_hash"');
  }
  return link;
}

type Refuse = (fault: TokenFault, message: string) => Error;

/** The claims that may be absent: each narrows the token, so one of another form refuses it. */
function readRestrictions(
  { cnf, par_hash: parentHash, limits: limitsClaim, conditions: conditionsClaim }: JsonObject,
  refuse: Refuse,
): Pick<Link, 'holder' | 'parentHash' | 'limits' | 'conditions'> {
  const holder = isObject(cnf) && !otherMember(cnf, ['jwk']) ? readPublicKey(cnf.jwk) : undefined;
  if (cnf !== undefined && holder === undefined) {
    throw refuse('Claims', 'must have in "cnf" a "jwk" that is a public key of Ed25519 or P-256');
  }
  if (parentHash !== undefined && typeof parentHash !== 'string') {
    throw refuse('Claims', 'has a "par_hash" of another form');
  }
  const limits = readLimits(limitsClaim);
  if (limitsClaim !== undefined && limits === undefined) {
    throw refuse('Claims', 'has "limits" that are not known, or of another form');
  }
  const conditions = readConditions(conditionsClaim);
  if (conditionsClaim !== undefined && conditions === undefined) {
    throw refuse('Claims', 'has "conditions" that are not known, or of another form');
  }
  return { holder, parentHash, limits, conditions };
}

// What can be shown anywhere: no spaces, control characters or look-alikes.
const nameForm = /^[\x21-\x7e]+$/;

function readName(claims: JsonObject, name: string, refuse: Refuse): string {
  const value = claims[name];
  const lengthMax = name === 'jti' ? idLengthMax : nameLengthMax;
  if (typeof value === 'string' && value.length <= lengthMax && nameForm.test(value)) return value;
  throw refuse('Claims', `must have as "${name}" 1 to ${lengthMax} visible ASCII characters`);
}

function readTimeMs(claims: JsonObject, name: string, refuse: Refuse): number {
  const value = claims[name];
  if (
    Number.isSafeInteger(value) &&
    (value as number) >= 0 &&
    (value as number) <= timeSecondsMax
  ) {
    return (value as number) * 1000;
  }
  throw refuse('Claims', `must have as "${name}" a whole number of seconds since 1970`);
}

function readDepth(claims: JsonObject, name: string, refuse: Refuse): number {
  const value = claims[name];
  if (Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < linksMax) {
    return value as number;
  }
  throw refuse('Depth', `must have as "${name}" a whole number from 0 to ${linksMax - 1}`);
}

function readScope(value: unknown, refuse: Refuse): Scope {
  if (typeof value !== 'string') throw refuse('Scope', 'must have a "scope"');
  try {
    return parseScope(value);
  } catch (error) {
    if (error instanceof ScopeError) throw refuse('Scope', `has a scope that ${error.message}`);
    throw error;
  }
}

/** The claims of a link; times are cut to whole seconds. */
export function renderLink(link: Link): JsonObject {
  const { holder, parentHash, limits, conditions } = link;
  return {
    iss: link.issuer,
    sub: link.subject,
    aud: link.audience,
    iat: Math.floor(link.issuedAtMs / 1000),
    nbf: Math.floor(link.notBeforeMs / 1000),
    exp: Math.floor(link.expiresAtMs / 1000),
    jti: link.id,
    'wlcg.ver': profileVersion,
    scope: renderScope(link.scope),
    ...(holder && { cnf: { jwk: holder.jwk } }),
    del_depth: link.depth,
    del_max_depth: link.depthMax,
    ...(parentHash !== undefined && { par_hash: parentHash }),
    ...(limits && { limits }),
    ...(conditions && { conditions }),
  };
}
