// Refuses a token, or a share link, and all below it from now on. Who revokes an id owns it or
// something that it lies below.
import { issuerOfId } from '../../authz/oidc/outside-id.ts';
import { findTokenOwner } from '../../authz/token-owner.ts';
import { isoTime } from '../../core/clock.ts';
import type { Tx } from '../../core/database.ts';
import type { ErrorCode } from '../../core/errors.ts';
import { revocationsPerPrincipalMax } from '../../core/limits.ts';
import { principalId } from '../../core/principal.ts';
import { principalScope, tenantScope } from '../scopes.ts';
import { identityCommand } from './identity-command.ts';

export interface RevokeToken {
  kind: 'revokeToken';
  /** A `jti`, or what `jti`s lie below: it and all below it are refused. */
  id: string;
  tenant: string;
  principal: string;
  /** When it would have expired; null: unknown, so that it is remembered for ever. */
  expiresMs: number | null;
}

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
    // Whose an outside issuer's is may not be known.
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
