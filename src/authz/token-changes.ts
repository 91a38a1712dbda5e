// Changes of tokens: one is issued, or refused from now on. Invariants: who revokes an id owns it
// or something that it lies below; no token is issued with a key that is taken away in the same
// moment; and with an access key goes all that was asked for with it.
import type { Reader, Tx } from '../core/database.ts';
import type { ErrorCode } from '../core/errors.ts';
import { revocationsPerPrincipalMax, tokensPerPrincipalMax } from '../core/limits.ts';
import { missing, roleOf, type StepsOf } from './change-steps.ts';
import { issuerOfId } from './oidc/outside-id.ts';
import type { TokenDetails } from './token-details.ts';

export type TokenChange =
  | {
      /** Of a token that the gateway issues: its link 0. */
      type: 'addToken';
      id: string;
      tenant: string;
      principal: string;
      /** The key with which it was asked for; null: none was. */
      accessKeyId: string | null;
      details: TokenDetails;
      issuedMs: number;
      expiresMs: number;
    }
  | {
      type: 'revokeToken';
      /** A `jti`, or what `jti`s lie below: it and all below it are refused. */
      id: string;
      tenant: string;
      principal: string;
      /** When it would have expired; null: unknown, so that it is remembered for ever. */
      expiresMs: number | null;
    };

export const tokenSteps: StepsOf<TokenChange> = {
  addToken: {
    check: async (tx, { id, tenant, principal, accessKeyId, issuedMs }) => {
      if (!(await roleOf(tx, tenant, principal))) return missing(tx, tenant, 'NoSuchPrincipal');
      if (accessKeyId !== null && !(await isActiveKey(tx, accessKeyId))) return 'AccessDenied';
      if (await tx.get('SELECT 1 FROM tokens WHERE id = ?', id)) return 'AlreadyExists';
      const live = await tx.get<{ count: number }>(
        `SELECT count(*) AS count FROM tokens
         WHERE tenant = ? AND principal = ? AND kind = 'issued' AND expires_ms > ?`,
        ...[tenant, principal, issuedMs],
      );
      return Number(live?.count) >= tokensPerPrincipalMax ? 'TooManyTokens' : undefined;
    },
    write: async (tx, change) => {
      const { id, tenant, principal, accessKeyId, details, issuedMs, expiresMs } = change;
      await tx.run(
        `INSERT INTO tokens (id, kind, tenant, principal, access_key, details, created_ms,
           expires_ms) VALUES (?, 'issued', ?, ?, ?, ?, ?, ?)`,
        ...[id, tenant, principal, accessKeyId, JSON.stringify(details), issuedMs, expiresMs],
      );
    },
  },

  revokeToken: {
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
  },
};

export interface TokenOwner {
  tenant: string;
  /** null: an outside issuer's that was not seen yet, so its tenant's admins have to say. */
  principal: string | null;
  /** When it expires at the latest; null: unknown. */
  expiresMs: number | null;
}

/**
 * Whose a `jti` is, though it may never have been seen: its own or the nearest above it that is
 * known, down to the enrolled key that its chain begins with, or the outside issuer that signs it.
 * Who asks may have to be told that there is none, so all are looked for, whichever is found.
 */
export async function findTokenOwner(read: Reader, id: string): Promise<TokenOwner | undefined> {
  let found: TokenOwner | undefined;
  for (let end = id.length; end > 0; end = id.lastIndexOf('.', end - 1)) {
    const above = id.slice(0, end);
    const owner = await read.get<TokenOwner | { tenant: null }>(
      `SELECT tenant, principal, expires_ms AS expiresMs FROM tokens WHERE id = ?
         UNION ALL SELECT tenant, principal, NULL FROM public_keys
           WHERE thumbprint = ? AND purpose = 'token'
         UNION ALL SELECT NULL, NULL, NULL LIMIT 1`,
      ...[above, above],
    );
    if (owner && owner.tenant !== null) found ??= owner;
  }
  const { tenant, name } = issuerOfId(id) ?? {};
  if (found || tenant === undefined || name === undefined) return found;
  const sql = 'SELECT 1 FROM issuers WHERE tenant = ? AND name = ?';
  const isTrusted = (await read.get(sql, tenant, name)) !== undefined;
  return isTrusted ? { tenant, principal: null, expiresMs: null } : undefined;
}

export async function isActiveKey(tx: Tx, id: string): Promise<boolean> {
  return (await tx.get('SELECT 1 FROM access_keys WHERE id = ? AND active', id)) !== undefined;
}

async function refuseRevocation(
  tx: Tx,
  { id, tenant, principal }: { id: string; tenant: string; principal: string },
): Promise<ErrorCode | undefined> {
  // What is known may always be revoked: there is no more of it than there may be.
  if (await tx.get('SELECT 1 FROM tokens WHERE id = ?', id)) return undefined;
  const held = await tx.get<{ count: number }>(
    'SELECT count(*) AS count FROM revocations WHERE tenant = ? AND principal = ?',
    ...[tenant, principal],
  );
  return Number(held?.count) >= revocationsPerPrincipalMax ? 'TooManyTokens' : undefined;
}

/**
 * Revokes all tokens and share links that were asked for with an access key. Throws UnsealedRow where one
 * of them is not what was stored: a revocation would go when that one says that it ends.
 */
export async function revokeAskedWith(tx: Tx, accessKeyId: string, timeMs: number): Promise<void> {
  await tx.rows?.verifyWhere('tokens', 't.access_key = ?', accessKeyId);
  await tx.run(
    `INSERT INTO revocations SELECT id, tenant, principal, ?, expires_ms FROM tokens
       WHERE access_key = ? ON CONFLICT (id) DO NOTHING`,
    ...[timeMs, accessKeyId],
  );
}
