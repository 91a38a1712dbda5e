// Commands of tokens and share links. None is made with an access key that is taken away in the
// same moment.
import { countRows, missing, roleOf } from '../../authz/identity-rows.ts';
import { findTokenOwner, type TokenDetails } from '../../authz/issued-tokens.ts';
import { isActiveKey } from '../../authz/key-rows.ts';
import { issuerOfId } from '../../authz/oidc/outside-id.ts';
import type { Shared } from '../../authz/shares.ts';
import { isoTime } from '../../core/clock.ts';
import type { Tx } from '../../core/database.ts';
import type { ErrorCode } from '../../core/errors.ts';
import {
  revocationsPerPrincipalMax,
  sharesPerPrincipalMax,
  tokensPerPrincipalMax,
} from '../../core/limits.ts';
import { principalId } from '../../core/principal.ts';
import type { Thing } from '../journal/identity-format.ts';
import { principalScope, tenantScope } from '../scopes.ts';
import { identityCommand, type Owned } from './identity-command.ts';

export interface NewToken extends Owned {
  id: string;
  /** The key with which it was asked for; null: none was. */
  accessKeyId: string | null;
}

async function refuseNew(tx: Tx, change: NewToken): Promise<ErrorCode | undefined> {
  const { id, tenant, principal, accessKeyId } = change;
  if (!(await roleOf(tx, tenant, principal))) return missing(tx, tenant, 'NoSuchPrincipal');
  if (accessKeyId !== null && !(await isActiveKey(tx, accessKeyId))) return 'AccessDenied';
  if (await tx.get('SELECT 1 FROM tokens WHERE id = ?', id)) return 'AlreadyExists';
  return undefined;
}

const tellsOfToken = {
  things: ({ tenant, id }: NewToken): Thing[] => [{ kind: 'token', tenant, name: id }],
  isAwaited: false,
};

/** Of a token that the gateway issues: its link 0. */
export interface AddToken extends NewToken {
  kind: 'addToken';
  details: TokenDetails;
  issuedMs: number;
  expiresMs: number;
}

/** Notes a token that the gateway issues. */
export const addToken = identityCommand<AddToken>({
  check: async (tx, change) => {
    const code = await refuseNew(tx, change);
    if (code !== undefined) return code;
    const isLive =
      "tokens WHERE tenant = ? AND principal = ? AND kind = 'issued' AND expires_ms > ?";
    const live = await countRows(tx, isLive, change.tenant, change.principal, change.issuedMs);
    return live >= tokensPerPrincipalMax ? 'TooManyTokens' : undefined;
  },
  write: async (tx, change) => {
    const { id, tenant, principal, accessKeyId, details, issuedMs, expiresMs } = change;
    await tx.run(
      `INSERT INTO tokens (id, kind, tenant, principal, access_key, details, created_ms,
         expires_ms) VALUES (?, 'issued', ?, ?, ?, ?, ?, ?)`,
      ...[id, tenant, principal, accessKeyId, JSON.stringify(details), issuedMs, expiresMs],
    );
  },
  takesFrom: null,
  told: tellsOfToken,
  account: ({ id, details, expiresMs }) => {
    const { scope, holder, depthMax, conditions, label } = details;
    const expiresAt = isoTime(expiresMs);
    return { id, scope, holder, depthMax, conditions, label, expiresAt };
  },
  // Tokens and share links carry what they say, or are read each time.
  causes: null,
});

export interface AddShare extends NewToken {
  kind: 'addShare';
  shared: Shared;
  secretHash: Uint8Array;
  expiresMs: number;
  /** null: as many as one likes. */
  downloadsMax: number | null;
}

/** Notes a share link. */
export const addShare = identityCommand<AddShare>({
  check: async (tx, change) => {
    const code = await refuseNew(tx, change);
    if (code !== undefined) return code;
    return (await hasAllShares(tx, change)) ? 'TooManyTokens' : undefined;
  },
  write: async (tx, change, timeMs) => {
    const { id, tenant, principal, accessKeyId, shared } = change;
    await tx.run(
      `INSERT INTO tokens (id, kind, tenant, principal, access_key, details, created_ms,
         expires_ms, uses_max, secret_hash) VALUES (?, 'share', ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[id, tenant, principal, accessKeyId, JSON.stringify(shared), timeMs],
      ...[change.expiresMs, change.downloadsMax, change.secretHash],
    );
  },
  takesFrom: null,
  told: tellsOfToken,
  account: ({ id, shared: { bucketTenant, bucket, key }, downloadsMax, expiresMs }) => {
    const expiresAt = isoTime(expiresMs);
    return { id, bucketTenant, bucket, key, downloadsMax, expiresAt };
  },
  // Tokens and share links carry what they say, or are read each time.
  causes: null,
});

export interface TransferShare {
  kind: 'transferShare';
  tenant: string;
  id: string;
  /** Principals of the tenant: in whose name it was used, and is from then on. */
  from: string;
  to: string;
}

/**
 * Has a share link be used in the name of another principal. With the key that it was made with it
 * is not revoked any more.
 */
export const transferShare = identityCommand<TransferShare>({
  check: async (tx, { tenant, id, from, to }) => {
    const share = "tokens WHERE id = ? AND tenant = ? AND principal = ? AND kind = 'share'";
    if ((await countRows(tx, share, id, tenant, from)) === 0) return 'NoSuchShare';
    if (!(await roleOf(tx, tenant, to))) return 'NoSuchPrincipal';
    return (await hasAllShares(tx, { tenant, principal: to })) ? 'TooManyTokens' : undefined;
  },
  write: async (tx, { id, to }) => {
    await tx.run('UPDATE tokens SET principal = ?, access_key = NULL WHERE id = ?', to, id);
  },
  takesFrom: ({ tenant, from }) => principalScope(tenant, from),
  told: {
    things: ({ tenant, id }) => [{ kind: 'token', tenant, name: id }],
    isAwaited: true,
  },
  account: ({ id, from, to }) => ({ id, from, to }),
  // Share links are read each time.
  causes: null,
});

async function hasAllShares(tx: Tx, { tenant, principal }: Owned): Promise<boolean> {
  const isShare = "tokens WHERE tenant = ? AND principal = ? AND kind = 'share'";
  return (await countRows(tx, isShare, tenant, principal)) >= sharesPerPrincipalMax;
}

export interface RevokeToken extends Owned {
  kind: 'revokeToken';
  /** A `jti`, or what `jti`s lie below: it and all below it are refused. */
  id: string;
  /** When it would have expired; null: unknown, so that it is remembered for ever. */
  expiresMs: number | null;
}

/**
 * Refuses a token, or a share link, and all below it from now on. Who revokes an id owns it or
 * something that it lies below.
 */
export const revokeToken = identityCommand<RevokeToken>({
  check: async (tx, change) => {
    const owner = await findTokenOwner(tx, change.id);
    if (owner?.tenant !== change.tenant) return 'NoSuchToken';
    if ((owner.principal ?? change.principal) !== change.principal) return 'NoSuchToken';
    return refuseRevocation(tx, change);
  },
  write: async (tx, { id, tenant, principal, expiresMs }, timeMs) => {
    await tx.run(
      `INSERT INTO revocations VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET expires_ms = max(expires_ms, excluded.expires_ms)`,
      ...[id, tenant, principal, timeMs, expiresMs],
    );
  },
  takesFrom: ({ id, tenant, principal }) =>
    // Whose token of an outside issuer it is may not be known.
    issuerOfId(id) ? tenantScope(tenant) : principalScope(tenant, principal),
  told: {
    things: ({ tenant, id }) => [{ kind: 'revocation', tenant, name: id }],
    isAwaited: true,
  },
  account: ({ id, tenant, principal, expiresMs }) => {
    const expiresAt = expiresMs === null ? null : isoTime(expiresMs);
    return { id, principal: principalId(tenant, principal), expiresAt };
  },
  causes: ({ id, expiresMs }) => [{ kind: 'revocation', tokens: [{ id, expiresMs }] }],
});

async function refuseRevocation(tx: Tx, change: RevokeToken): Promise<ErrorCode | undefined> {
  const { id, tenant, principal } = change;
  // A token that is known may always be revoked: the number of these is limited already.
  if (await tx.get('SELECT 1 FROM tokens WHERE id = ?', id)) return undefined;
  const held = await countRows(
    tx,
    'revocations WHERE tenant = ? AND principal = ?',
    ...[tenant, principal],
  );
  return held >= revocationsPerPrincipalMax ? 'TooManyTokens' : undefined;
}
