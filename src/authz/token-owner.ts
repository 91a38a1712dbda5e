// Whose a token is, from its id alone.
import type { Reader } from '../core/database.ts';
import { issuerOfId } from './oidc/outside-id.ts';

export interface TokenOwner {
  tenant: string;
  /**
   * null: an outside issuer's token that was not seen yet, so its tenant's admins have to decide.
   */
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
