// Native API: issuing tokens, listing those that the gateway knows of, and revoking them.
// Invariants: a token leaves the gateway once, in the answer that makes it, and is in no listing
// and no record; nobody gets a token that acts for another principal, and no token is issued to who
// uses a token; and who may not revoke a token is not told whose it is.

import {
  detailsOf,
  findTokenOwner,
  lineOf,
  listTokens,
  readToken,
  type TokenEntry,
  type TokenFilter,
  type TokenOwner,
  type TokenPosition,
} from '../../authz/issued-tokens.ts';
import type { Page } from '../../authz/paced-page.ts';
import { linkBytesMax, linksMax } from '../../authz/tokens/bounds.ts';
import { type ReadLink, readLinks } from '../../authz/tokens/chain.ts';
import { type Conditions, readConditions } from '../../authz/tokens/conditions.ts';
import { issueToken } from '../../authz/tokens/issue.ts';
import { type PublicKey, readPublicKey } from '../../authz/tokens/keys.ts';
import type { Link } from '../../authz/tokens/link.ts';
import { parseScope, type Scope, ScopeError } from '../../authz/tokens/scope.ts';
import { isoTime, nowMs } from '../../core/clock.ts';
import type { Reader } from '../../core/database.ts';
import { Refusal } from '../../core/errors.ts';
import { tokenSecondsMax } from '../../core/limits.ts';
import { type Limits, type Meter, meters } from '../../core/quota-terms.ts';
import { amountText, reportCaps } from '../../quota/cap-report.ts';
import { newAccountState } from '../../quota/leases/account-state.ts';
import { readAccountState } from '../../quota/leases/account-tables.ts';
import { limitSetOf } from '../../quota/limits/limit-set.ts';
import type { NativeDeps } from './deps.ts';
import { caps, limits } from './limit-schemas.ts';
import { administers, mayAdminister, protectOthers } from './rights.ts';
import { type Call, listPage, param, placeOf, refuseDelegated, routeTable } from './route.ts';
import {
  answerObject,
  answerPage,
  boolean,
  type Composed,
  closedObject,
  integer,
  type Json,
  pageQuery,
  text,
  textOrNull,
  time,
  timeOrNull,
} from './schemas.ts';

const expiresInDefault = 3600;

const anything = (description: string) =>
  ({
    type: ['object', 'null'],
    additionalProperties: true,
    description,
  }) as const;
const states = ['valid', 'expired', 'revoked', 'inactive'] as const;

const token = answerObject({
  jti: { type: 'string' },
  parent: textOrNull('The `jti` of the link above; null: the first.'),
  issued: boolean(
    'False: made elsewhere, by a key of the principal or by delegating, and seen here.',
  ),
  principal: text('In whose name it acts: `tenant/name`.'),
  accessKeyId: textOrNull('The key with which it was asked for.'),
  scope: textOrNull('null: wherever its principal may.'),
  boundTo: textOrNull('Thumbprint of the key that its user must prove; null: whoever bears it.'),
  label: { type: ['string', 'null'] },
  conditions: anything('As docs/formats/token.md has them; null: none.'),
  limits: anything('As docs/formats/token.md has them; null: none.'),
  state: text(
    'revoked: it, or one above it. inactive: its principal, or the key of it that signed the ' +
      'first link, is deactivated or deleted.',
    { enum: [...states] },
  ),
  createdAt: { ...time, description: 'When it was issued, or first seen.' },
  notBefore: time,
  expiresAt: time,
  lastUsedAt: timeOrNull,
  uses: integer('Requests with it, and with what is below it.'),
  used: answerObject(
    Object.fromEntries(meters.map((meter) => [meter, { type: 'string' }])),
  ) as Composed<Record<Meter, string>>,
  caps,
});

const wantedSchema = closedObject(
  {
    scope: text('storage.read:/bucket/prefix …'),
    expiresIn: integer('Seconds from now.', {
      minimum: 1,
      maximum: tokenSecondsMax,
      default: expiresInDefault,
    }),
    notBefore: { ...time, description: 'Not valid before; from now on if absent.' },
    conditions: { type: 'object', description: 'As docs/formats/token.md has them.' },
    limits: { ...limits, description: 'What may be used with it, and with all below it.' },
    cnf: {
      ...closedObject({ jwk: { type: 'object' } }, ['jwk']),
      description: 'The public key of its user; absent: whoever bears it may use it.',
    },
    maxDepth: integer('How often it can be passed on; needs `cnf`.', {
      minimum: 0,
      maximum: linksMax - 1,
    }),
    label: text('For listings.', { minLength: 1, maxLength: 128 }),
  },
  ['scope'],
);
type Wanted = Json<typeof wantedSchema>;

export const tokenRoutes = routeTable([
  {
    method: 'POST',
    url: '/_/v1/tokens',
    action: 'bursar:CreateToken',
    summary: 'Issue a token for the caller. It is shown only in this answer.',
    status: 201,
    body: wantedSchema,
    answer: answerObject({ token: { type: 'string' }, jti: { type: 'string' }, expiresAt: time }),
    run: async (call) => {
      refuseDelegated(call);
      const { tenant, name: principal } = call.who;
      const { label } = call.body as Wanted;
      const { token, link } = issue(call);
      const { id, issuedAtMs: issuedMs, expiresAtMs: expiresMs } = link;
      return {
        change: {
          kind: 'addToken',
          ...{ id, tenant, principal, issuedMs, expiresMs },
          accessKeyId: call.identity.accessKeyId,
          details: { ...detailsOf(link), ...(label !== undefined && { label }) },
        },
        target: `tokens/${id}`,
        answer: async () => ({ token, jti: id, expiresAt: isoTime(expiresMs) }),
      };
    },
  },
  {
    method: 'GET',
    url: '/_/v1/tokens',
    action: 'bursar:ListTokens',
    readsAccounts: true,
    summary: 'List the tokens that the caller may see: issued here, or seen in use.',
    query: {
      ...pageQuery,
      after: { ...pageQuery.after, maxLength: 1024 },
      principal: text('`alice`, or `cms/alice` with its tenant.'),
    },
    answer: answerPage('tokens', token),
    run: async (call) => {
      const { read } = call.deps;
      const owner = visibleOwner(call);
      if (!owner) return { answer: { tokens: [], next: null } };
      const list = ({ after, limit }: Page) =>
        listTokens(read, owner, { after: positionOf(after, owner), limit });
      return listPage(call, 'tokens', list, (entry) => show(call.deps, entry), placeOf);
    },
  },
  {
    method: 'GET',
    url: '/_/v1/tokens/:jti',
    action: 'bursar:ListTokens',
    readsAccounts: true,
    operation: 'GetToken',
    summary: 'Show a token that was issued here, or seen in use.',
    answer: token,
    run: async ({ who, reach, deps, params }) => {
      const seen = {
        tenant: reach === 'all' ? null : who.tenant,
        principal: reach === 'self' ? who.name : null,
      };
      const entry = await readToken(deps.read, params.jti ?? '', seen);
      if (!entry) throw new Refusal('NoSuchToken');
      return { answer: await show(deps, entry) };
    },
  },
  {
    method: 'DELETE',
    url: '/_/v1/tokens/:jti',
    action: 'bursar:RevokeToken',
    summary:
      'Revoke a token, all that was delegated from it, and keys and presigned URLs made with any ' +
      'of these. Who uses a token can revoke that, and what is below it.',
    run: async (call) => {
      const id = param(call, 'jti');
      const revoked = ownOrBelow(call, id) ?? (await findVisible(call, id));
      return { change: { kind: 'revokeToken', id, ...revoked } };
    },
  },
]);

/** Throws `Refusal` InvalidInput. */
function issue(call: Call): { token: string; link: Link } {
  const wanted = call.body as Wanted;
  const timeMs = nowMs();
  const expiresAtMs = Math.floor(timeMs / 1000 + wanted.expiresIn) * 1000;
  const url = call.deps.publicUrl();
  const { token } = issueToken({
    key: call.deps.tokenKeys.current,
    gateway: url,
    audience: url,
    subject: call.who.id,
    scope: readScope(wanted.scope),
    expiresAtMs,
    nowMs: timeMs,
    ...readRestrictions(wanted, expiresAtMs),
  });
  if (token.length > linkBytesMax) {
    throw misfit('scope', `is too long: a token may have ${linkBytesMax} bytes`);
  }
  const [{ link }] = readLinks(token) as [ReadLink];
  return { token, link };
}

function readScope(text: string): Scope {
  try {
    return parseScope(text);
  } catch (error) {
    if (error instanceof ScopeError) throw misfit('scope', error.message, error);
    throw error;
  }
}

function readRestrictions(wanted: Wanted, expiresAtMs: number) {
  const { cnf, maxDepth, notBefore } = wanted;
  const holder = cnf && readHolder(cnf.jwk);
  if (!holder && maxDepth !== undefined && maxDepth > 0) {
    throw misfit('maxDepth', 'must be 0 without cnf: what anybody may use, nobody can pass on');
  }
  const notBeforeMs = notBefore === undefined ? undefined : Date.parse(notBefore);
  if (notBeforeMs !== undefined && !(notBeforeMs >= 0 && notBeforeMs < expiresAtMs)) {
    throw misfit('notBefore', 'must be before its end');
  }
  const conditions = wanted.conditions && checkConditions(wanted.conditions);
  return { holder, depthMax: maxDepth, notBeforeMs, conditions, limits: wanted.limits as Limits };
}

function readHolder(jwk: unknown): PublicKey {
  const key = readPublicKey(jwk);
  if (key) return key;
  throw misfit('cnf.jwk', 'must be a public key of Ed25519 or P-256');
}

function checkConditions(value: object): Conditions {
  const conditions = readConditions(value);
  if (conditions) return conditions;
  throw misfit('conditions', 'must be networks (CIDR), classes, objectBytesMax, and no others');
}

function misfit(member: string, why: string, cause?: unknown): Refusal {
  const field = `body.${member}`;
  return new Refusal('InvalidInput', { message: `${field} ${why}`, fields: { field }, cause });
}

/** A token that is revoked, and the principal that it acts for. */
type Revoked = TokenOwner & { principal: string };

/** A token can revoke itself, and those that were delegated from it. */
function ownOrBelow({ who, identity: { delegation } }: Call, id: string): Revoked | undefined {
  const own = delegation?.ids.at(-1);
  if (!delegation || own === undefined) return undefined;
  if (id !== own && !id.startsWith(`${own}.`)) return undefined;
  return { tenant: who.tenant, principal: who.name, expiresMs: delegation.expiresAtMs };
}

/** Throws NoSuchToken where the caller may not know whether there is such a token. */
async function findVisible(call: Call, id: string): Promise<Revoked> {
  const { who, reach, identity, deps } = call;
  const isNarrowed = identity.delegation !== null && !mayAdminister(identity.delegation);
  const owner = isNarrowed ? undefined : await findTokenOwner(deps.read, id);
  if (!owner) throw new Refusal('NoSuchToken');
  const isOwn = owner.tenant === who.tenant && owner.principal === who.name;
  const isReached = reach === 'all' || (reach === 'tenant' && owner.tenant === who.tenant);
  if (!isOwn && !isReached) throw new Refusal('NoSuchToken');
  const { tenant, principal, expiresMs } = owner;
  if (principal === null) {
    // The token was not used yet, so it is not known whose it is: it could be anybody's.
    if (!administers(who, tenant)) throw new Refusal('NoSuchToken');
    return { tenant, principal: who.name, expiresMs };
  }
  if (!isOwn) await protectOthers(who, deps.directory, { tenant, principal });
  return { tenant, principal, expiresMs };
}

/** Whose tokens are listed, as far as the caller may see them; undefined: nobody's. */
function visibleOwner({ who, reach, query }: Call): TokenFilter | undefined {
  const [name, tenant] = (query.principal?.split('/') ?? []).reverse();
  const owner = {
    tenant: tenant ?? (reach === 'all' && name === undefined ? null : who.tenant),
    principal: name ?? (reach === 'self' ? who.name : null),
  };
  if (reach !== 'all' && owner.tenant !== who.tenant) return undefined;
  return reach === 'self' && owner.principal !== who.name ? undefined : owner;
}

/** Throws InvalidInput. */
function positionOf(after: string, owner: TokenFilter): TokenPosition {
  if (after === '') return { tenant: '', principal: '', id: '' };
  const [, tenant, principal, id] = /^([^/]+)\/([^/]+)\/(.+)$/s.exec(after) ?? [];
  const isOther = (name: string | undefined, wanted: string | null) =>
    wanted !== null && name !== wanted;
  if (
    tenant === undefined ||
    principal === undefined ||
    id === undefined ||
    isOther(tenant, owner.tenant) ||
    isOther(principal, owner.principal)
  ) {
    const message = 'querystring.after is not one that a page answered';
    throw new Refusal('InvalidInput', { message, fields: { field: 'querystring.after' } });
  }
  return { tenant, principal, id };
}

async function show({ revocations, read }: NativeDeps, entry: TokenEntry): Promise<object> {
  const { details, lastUsedMs } = entry;
  return {
    jti: entry.id,
    parent: entry.parent,
    issued: entry.kind === 'issued',
    principal: `${entry.tenant}/${entry.principal}`,
    accessKeyId: entry.accessKeyId,
    scope: details.scope,
    boundTo: details.holder,
    label: details.label ?? null,
    conditions: details.conditions ?? null,
    limits: details.limits ?? null,
    notBefore: isoTime(details.notBeforeMs),
    state: stateOf(entry, revocations.has(lineOf(entry.id))),
    createdAt: isoTime(entry.createdMs),
    expiresAt: isoTime(entry.expiresMs),
    lastUsedAt: lastUsedMs === null ? null : isoTime(lastUsedMs),
    uses: entry.uses,
    ...(await readUse(read, entry)),
  };
}

function stateOf(entry: TokenEntry, isRevoked: boolean): (typeof states)[number] {
  if (isRevoked) return 'revoked';
  if (!entry.isActive) return 'inactive';
  return nowMs() >= entry.expiresMs ? 'expired' : 'valid';
}

/** A token that was never used has no account yet: then nothing of its limits is used. */
async function readUse(read: Reader, { id, details }: TokenEntry): Promise<object> {
  const state = (await readAccountState(read, `token:${id}`)) ?? newAccountState();
  if (details.limits) state.limits ??= limitSetOf(details.limits);
  const used = meters.map((meter) => [meter, amountText(meter, state.used[meter])]);
  return { used: Object.fromEntries(used), caps: reportCaps(state, nowMs()) };
}
