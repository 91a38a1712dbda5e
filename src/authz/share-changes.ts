// Changes of share links: one is made, and a download from it is counted. Invariant: a count that
// was granted is durable before the first byte goes out, and no more are granted than the link
// allows, however many ask at once: the transaction that counts is the one that asks.
import type { Tx } from '../core/database.ts';
import { sharesPerPrincipalMax } from '../core/limits.ts';
import { missing, roleOf, type StepsOf } from './change-steps.ts';
import type { Shared } from './shares.ts';
import { isActiveKey } from './token-changes.ts';

export interface ShareChange {
  type: 'addShare';
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

export const shareSteps: StepsOf<ShareChange> = {
  addShare: {
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
  },
};

/** Counts a download if the link still allows one; gives 1, or 0 if it does not. */
export async function countDownload(tx: Tx, id: string, timeMs: number): Promise<number> {
  const { changes } = await tx.run(
    `UPDATE tokens SET uses = uses + 1, last_used_ms = ?
       WHERE id = ? AND kind = 'share' AND expires_ms > ? AND (uses_max IS NULL OR uses < uses_max)
         AND NOT EXISTS (SELECT 1 FROM revocations AS r WHERE r.id = tokens.id)`,
    ...[timeMs, id, timeMs],
  );
  return Number(changes);
}
