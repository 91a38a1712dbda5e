// Notes a share link. None is made with a key that is taken away in the same moment.
import { missing, roleOf } from '../../authz/identity-rows.ts';
import { isActiveKey } from '../../authz/key-rows.ts';
import type { Shared } from '../../authz/shares.ts';
import { isoTime } from '../../core/clock.ts';
import { sharesPerPrincipalMax } from '../../core/limits.ts';
import { identityCommand } from './identity-command.ts';

export interface AddShare {
  kind: 'addShare';
  id: string;
  tenant: string;
  principal: string;
  /** The key with which it was asked for; null: none was. */
  accessKeyId: string | null;
  shared: Shared;
  secretHash: Uint8Array;
  expiresMs: number;
  /** null: as many as one likes. */
  downloadsMax: number | null;
}

export const addShare = identityCommand<AddShare>({
  check: async (tx, { id, tenant, principal, accessKeyId }) => {
    if (!(await roleOf(tx, tenant, principal))) return missing(tx, tenant, 'NoSuchPrincipal');
    if (accessKeyId !== null && !(await isActiveKey(tx, accessKeyId))) return 'AccessDenied';
    if (await tx.get('SELECT 1 FROM tokens WHERE id = ?', id)) return 'AlreadyExists';
    const held = await tx.get<{ count: number }>(
      "SELECT count(*) AS count FROM tokens WHERE tenant = ? AND principal = ? AND kind = 'share'",
      tenant,
      principal,
    );
    return Number(held?.count) >= sharesPerPrincipalMax ? 'TooManyTokens' : undefined;
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
  told: {
    things: ({ tenant, id }) => [{ kind: 'token', tenant, name: id }],
    isAwaited: false,
  },
  account: ({ id, shared: { bucketTenant, bucket, key }, downloadsMax, expiresMs }) => {
    const expiresAt = isoTime(expiresMs);
    return { id, bucketTenant, bucket, key, downloadsMax, expiresAt };
  },
  // Tokens and share links carry what they say, or are read each time.
  causes: null,
});
