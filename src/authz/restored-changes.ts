// Changes that put back what a journal tells of who there is and what they may (ledger/rebuild), as
// of the time when it was made. They write what ordinary changes write. Invariant: what was told was
// allowed when it was made, so only that is asked which a row cannot be without: nothing comes back
// under a name that is gone, nor twice.
import type { Tx } from '../core/database.ts';
import type { ErrorCode } from '../core/errors.ts';
import { roleOf, tenantExists } from './change-steps.ts';
import { type AuthzChange, checkAuthzChange, type Verdict, writeAuthzChange } from './changes.ts';
import type { RetiredKind } from './identity-changes.ts';

/** A name that is never given again; of a tenant `name` is empty. */
export interface RetiredName {
  of: 'tenant' | RetiredKind;
  tenant: string;
  name: string;
}

export interface RestoredAuthz {
  /** Of one thing, in order. */
  changes: readonly AuthzChange[];
  retired?: RetiredName;
  /** When it was made. */
  madeMs: number;
}

/** Refuses AlreadyExists, or what is missing, and has then written nothing. `seq`: of its record. */
export async function restoreAuthz(
  tx: Tx,
  { changes, retired, madeMs }: RestoredAuthz,
  seq: number,
): Promise<Verdict> {
  const [first] = changes;
  const code = first && (await refuse(tx, first));
  if (code !== undefined) return { ok: false, code };
  for (const change of changes) await writeAuthzChange(tx, change, { timeMs: madeMs, seq });
  if (retired) await retire(tx, retired);
  return { ok: true };
}

async function refuse(tx: Tx, change: AuthzChange): Promise<ErrorCode | undefined> {
  switch (change.type) {
    // Whom it names may be gone, and their names are not given again.
    case 'putGrant':
      return (await tenantExists(tx, change.tenant)) ? undefined : 'NoSuchTenant';
    case 'putIssuer': {
      if (!(await tenantExists(tx, change.tenant))) return 'NoSuchTenant';
      const sql = `SELECT 1 FROM issuers WHERE url = ? AND audience = ?
        AND NOT (tenant = ? AND name = ?)`;
      const { url, audience, tenant, name } = change;
      return (await tx.get(sql, url, audience, tenant, name)) ? 'AlreadyExists' : undefined;
    }
    // The key that it was asked for with may be gone.
    case 'addToken':
    case 'addShare':
      if (!(await roleOf(tx, change.tenant, change.principal))) return 'NoSuchPrincipal';
      return (await tx.get('SELECT 1 FROM tokens WHERE id = ?', change.id))
        ? 'AlreadyExists'
        : undefined;
    // It takes rights away, whosesoever they are.
    case 'revokeToken':
      return undefined;
    default:
      return checkAuthzChange(tx, change);
  }
}

async function retire(tx: Tx, { of, tenant, name }: RetiredName): Promise<void> {
  if (of === 'tenant') await tx.run('INSERT OR IGNORE INTO retired_tenants VALUES (?)', tenant);
  else await tx.run('INSERT OR IGNORE INTO retired_names VALUES (?, ?, ?)', tenant, of, name);
}

/** Of a share link nobody knows any more how often it was used: it opens nothing more. */
export async function useUpShare(tx: Tx, id: string): Promise<void> {
  await tx.run("UPDATE tokens SET uses = uses_max WHERE id = ? AND kind = 'share'", id);
}
