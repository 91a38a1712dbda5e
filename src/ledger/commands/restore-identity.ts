// Restores what a journal tells of who there is and what they may, with the time when it was made.
// It writes what ordinary changes write. All of it was allowed when it was made, so only what the
// rows need is checked: nothing comes back under a name that is retired, and nothing comes back
// twice.
import { type RetiredKind, roleOf, tenantExists } from '../../authz/identity-rows.ts';
import { unchanged } from '../../catalog/outcome.ts';
import type { Tx } from '../../core/database.ts';
import type { ErrorCode } from '../../core/errors.ts';
import type { LedgerEvent } from '../events.ts';
import type { Command } from './command.ts';
import { type IdentityChange, identityCommandOf } from './identities.ts';

/** A name that is never given again; of a tenant `name` is empty. */
export interface RetiredName {
  of: 'tenant' | RetiredKind;
  tenant: string;
  name: string;
}

export interface RestoreIdentity {
  kind: 'restoreIdentity';
  /** The changes that make one thing, in order. */
  changes: readonly IdentityChange[];
  retired?: RetiredName;
  /** When it was made. */
  madeMs: number;
}

export const restoreIdentity: Command<RestoreIdentity> = {
  apply: async (tx, { changes, retired, madeMs }, { seq }) => {
    const [first] = changes;
    const code = first && (await refuse(tx, first));
    if (code !== undefined) return { ok: false, code };
    for (const change of changes) {
      await identityCommandOf(change).write(tx, change, madeMs, seq);
    }
    if (retired) await retire(tx, retired);
    return unchanged;
  },
  takesFrom: null,
  told: null,
  account: null,
  causes: async ({ changes }, tx) => {
    const caused: LedgerEvent[] = [];
    for (const change of changes) {
      const { causes } = identityCommandOf(change);
      if (causes) caused.push(...(await causes(change, tx)));
    }
    return caused;
  },
};

async function refuse(tx: Tx, change: IdentityChange): Promise<ErrorCode | undefined> {
  switch (change.kind) {
    // The subjects that it names may be gone; their names are not given again.
    case 'putGrant':
      return (await tenantExists(tx, change.tenant)) ? undefined : 'NoSuchTenant';
    case 'putIssuer': {
      if (!(await tenantExists(tx, change.tenant))) return 'NoSuchTenant';
      const sql = `SELECT 1 FROM issuers WHERE url = ? AND audience = ?
        AND NOT (tenant = ? AND name = ?)`;
      const { url, audience, tenant, name } = change;
      return (await tx.get(sql, url, audience, tenant, name)) ? 'AlreadyExists' : undefined;
    }
    // The access key with which it was asked for may be gone.
    case 'addToken':
    case 'addShare':
      if (!(await roleOf(tx, change.tenant, change.principal))) return 'NoSuchPrincipal';
      return (await tx.get('SELECT 1 FROM tokens WHERE id = ?', change.id))
        ? 'AlreadyExists'
        : undefined;
    // A bucket may have got the name after the mount was made.
    case 'putOwnMount': {
      const { tenant, principal } = change;
      return (await roleOf(tx, tenant, principal)) ? undefined : 'NoSuchPrincipal';
    }
    // It only takes rights away, so it is never refused.
    case 'revokeToken':
      return undefined;
    default:
      return identityCommandOf(change).check(tx, change);
  }
}

async function retire(tx: Tx, { of, tenant, name }: RetiredName): Promise<void> {
  if (of === 'tenant') await tx.run('INSERT OR IGNORE INTO retired_tenants VALUES (?)', tenant);
  else await tx.run('INSERT OR IGNORE INTO retired_names VALUES (?, ?, ?)', tenant, of, name);
}
