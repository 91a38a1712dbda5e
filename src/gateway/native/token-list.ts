// Native API: the tokens that the gateway knows of, each link with the one above it, so that they
// make a tree.
import {
  lineOf,
  listTokens,
  readToken,
  type TokenEntry,
  type TokenFilter,
  type TokenPosition,
} from '../../authz/issued-tokens.ts';
import { isoTime, nowMs } from '../../core/clock.ts';
import type { Reader } from '../../core/database.ts';
import { Refusal } from '../../core/errors.ts';
import { Pace } from '../../core/pace.ts';
import { meters } from '../../core/quota-terms.ts';
import { amountText, reportCaps } from '../../quota/cap-report.ts';
import { newAccountState } from '../../quota/leases/account-state.ts';
import { readAccountState } from '../../quota/leases/account-tables.ts';
import { limitSetOf } from '../../quota/limits/limit-set.ts';
import type { NativeDeps } from './deps.ts';
import { caps } from './limit-schemas.ts';
import { type Call, type NativeRoute, pageOf } from './route.ts';
import {
  answerObject,
  answerPage,
  boolean,
  integer,
  pageQuery,
  text,
  textOrNull,
  time,
} from './schemas.ts';

const anything = (description: string) => ({
  type: ['object', 'null'],
  additionalProperties: true,
  description,
});
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
  state: {
    type: 'string',
    enum: [...states],
    description:
      'revoked: it, or one above it. inactive: its principal, or the key of it that signed the ' +
      'first link, is deactivated or deleted.',
  },
  createdAt: { ...time, description: 'When it was issued, or first seen.' },
  notBefore: time,
  expiresAt: time,
  lastUsedAt: { type: ['string', 'null'], format: 'date-time' },
  uses: integer('Requests with it, and with what is below it.'),
  used: answerObject(Object.fromEntries(meters.map((meter) => [meter, { type: 'string' }]))),
  caps,
});

const listRoute: NativeRoute = {
  method: 'GET',
  url: '/_/v1/tokens',
  action: 'bursar:ListTokens',
  summary: 'List the tokens that the caller may see: issued here, or seen in use.',
  query: {
    ...pageQuery,
    after: { ...pageQuery.after, maxLength: 1024 },
    principal: text('`alice`, or `cms/alice` with its tenant.'),
  },
  answer: answerPage('tokens', token),
  run: async (call) => {
    const page = pageOf(call);
    const owner = visibleOwner(call);
    if (!owner) return { answer: { tokens: [], next: null } };
    const after = positionOf(page.after, owner);
    const entries = await listTokens(call.deps.read, owner, { after, limit: page.limit });
    const last = entries.length === page.limit ? entries.at(-1) : undefined;
    const shown = [];
    const pace = new Pace();
    for (const entry of entries) {
      shown.push(await show(call.deps, entry));
      await pace.rest();
    }
    return {
      answer: {
        tokens: shown,
        next: last ? `${last.tenant}/${last.principal}/${last.id}` : null,
      },
    };
  },
};

const showRoute: NativeRoute = {
  method: 'GET',
  url: '/_/v1/tokens/:jti',
  action: 'bursar:ListTokens',
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
};

export const tokenListRoutes: readonly NativeRoute[] = [listRoute, showRoute];

/** Whose tokens are asked for, within what the caller may see; undefined: nobody's. */
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

/** Also of one that was never used, which has no account yet. */
async function readUse(read: Reader, { id, details }: TokenEntry): Promise<object> {
  const state = (await readAccountState(read, `token:${id}`)) ?? newAccountState();
  if (details.limits) state.limits ??= limitSetOf(details.limits);
  const used = meters.map((meter) => [meter, amountText(meter, state.used[meter])]);
  return { used: Object.fromEntries(used), caps: reportCaps(state, nowMs()) };
}
