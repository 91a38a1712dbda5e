// What the ledger keeps of tokens by itself: when they were used, and that what has expired goes.
// Invariant: a row of use decides nothing, so losing one takes no right from anybody and gives
// none; a revocation goes only once all that it refuses has expired.
import type { Tx } from '../core/database.ts';
import { expiredTokenKeptMs, seenTokensPerPrincipalMax } from '../core/limits.ts';
import type { SeenLink, TokenUses } from './token-use.ts';

/** Gives how many links were seen for the first time. */
export async function noteTokenUse(
  tx: Tx,
  { seen, used }: TokenUses,
  timeMs: number,
): Promise<number> {
  const grown = new Map<string, SeenLink>();
  let added = 0;
  for (const link of seen) {
    const { id, parent, tenant, principal, details, expiresMs } = link;
    const { changes } = await tx.run(
      `INSERT INTO tokens (id, kind, parent, tenant, principal, details, created_ms, expires_ms)
         VALUES (?, 'seen', ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
      ...[id, parent, tenant, principal, JSON.stringify(details), timeMs, expiresMs],
    );
    added += changes;
    if (changes > 0) grown.set(`${tenant}/${principal}`, link);
  }
  for (const { tenant, principal } of grown.values()) await forgetOldest(tx, tenant, principal);
  for (const { id, uses, lastUsedMs } of used) {
    const sql = 'UPDATE tokens SET uses = uses + ?, last_used_ms = ? WHERE id = ?';
    await tx.run(sql, uses, lastUsedMs, id);
  }
  return added;
}

/** Links cost their holders nothing to make: only so many of a principal's are remembered. */
async function forgetOldest(tx: Tx, tenant: string, principal: string): Promise<void> {
  const held = await tx.get<{ count: number }>(
    `SELECT count(*) AS count FROM tokens
     WHERE tenant = ? AND principal = ? AND kind = 'seen'`,
    ...[tenant, principal],
  );
  const surplus = Number(held?.count) - seenTokensPerPrincipalMax;
  if (surplus <= 0) return;
  await tx.run(
    `DELETE FROM tokens WHERE id IN (SELECT id FROM tokens
       WHERE tenant = ? AND principal = ? AND kind = 'seen' ORDER BY created_ms LIMIT ?)`,
    ...[tenant, principal, surplus],
  );
}

/** Forgets what has expired: at most `max` tokens, and revocations; gives how many. */
export async function purgeTokens(tx: Tx, max: number, timeMs: number): Promise<number> {
  const tokens = await tx.run(
    'DELETE FROM tokens WHERE id IN (SELECT id FROM tokens WHERE expires_ms < ? LIMIT ?)',
    ...[timeMs - expiredTokenKeptMs, max],
  );
  const revocations = await tx.run(
    'DELETE FROM revocations WHERE id IN (SELECT id FROM revocations WHERE expires_ms < ? LIMIT ?)',
    ...[timeMs - expiredTokenKeptMs, max],
  );
  return tokens.changes + revocations.changes;
}
