// Notes a token that the gateway issues. None is issued with a key that is taken away in the same
// moment.
import { missing, roleOf } from '../../authz/identity-rows.ts';
import { isActiveKey } from '../../authz/key-rows.ts';
import type { TokenDetails } from '../../authz/token-details.ts';
import { isoTime } from '../../core/clock.ts';
import { tokensPerPrincipalMax } from '../../core/limits.ts';
import { identityCommand } from './identity-command.ts';

/** Of a token that the gateway issues: its link 0. */
export interface AddToken {
  kind: 'addToken';
  id: string;
  tenant: string;
  principal: string;
  /** The key with which it was asked for; null: none was. */
  accessKeyId: string | null;
  details: TokenDetails;
  issuedMs: number;
  expiresMs: number;
}

export const addToken = identityCommand<AddToken>({
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
  takesFrom: null,
  told: {
    things: ({ tenant, id }) => [{ kind: 'token', tenant, name: id }],
    isAwaited: false,
  },
  account: ({ id, details, expiresMs }) => {
    const { scope, holder, depthMax, conditions, label } = details;
    const expiresAt = isoTime(expiresMs);
    return { id, scope, holder, depthMax, conditions, label, expiresAt };
  },
  // Tokens and share links carry what they say, or are read each time.
  causes: null,
});
