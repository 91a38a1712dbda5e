// Changes of grants. Whether there is room for one is asked before (grants/grant-book.ts).
// Invariant: what is written was read by `parseGrant`, so every row is a rule that holds in full.
import type { Tx } from '../core/database.ts';
import type { ErrorCode } from '../core/errors.ts';
import { missing, roleOf, type StepsOf, tenantExists } from './change-steps.ts';
import type { Grant } from './grants/grant.ts';

interface Written {
  tenant: string;
  /** By an admin. Others leave what is about administration as it is: they would become admins. */
  isByAdmin: boolean;
}

export type GrantChange =
  /** Makes the grant, or puts it in the place of the one of its name. */
  | (Written & { type: 'putGrant'; grant: Grant })
  | (Written & { type: 'deleteGrant'; name: string });

export const grantSteps: StepsOf<GrantChange> = {
  putGrant: {
    check: async (tx, { tenant, grant, isByAdmin }) => {
      if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
      if (!isByAdmin) {
        const replaced = await findGrant(tx, tenant, grant.name);
        if (concernsAdministration(grant)) return 'AccessDenied';
        if (replaced && concernsAdministration(replaced)) return 'AccessDenied';
      }
      for (const subject of grant.subjects) {
        const code = await whatIsMissing(tx, tenant, subject);
        if (code !== undefined) return code;
      }
      return undefined;
    },
    write: async (tx, { tenant, grant }, timeMs) => {
      await tx.run(
        `INSERT INTO grants (tenant, name, rule, created_ms) VALUES (?, ?, ?, ?)
         ON CONFLICT (tenant, name) DO UPDATE
         SET rule = excluded.rule, created_ms = excluded.created_ms`,
        tenant,
        grant.name,
        JSON.stringify(grant),
        timeMs,
      );
    },
  },

  deleteGrant: {
    check: async (tx, { tenant, name, isByAdmin }) => {
      const grant = await findGrant(tx, tenant, name);
      if (!grant) return missing(tx, tenant, 'NoSuchGrant');
      return isByAdmin || !concernsAdministration(grant) ? undefined : 'AccessDenied';
    },
    write: async (tx, { tenant, name }) => {
      await tx.run('DELETE FROM grants WHERE tenant = ? AND name = ?', tenant, name);
    },
  },
};

async function findGrant(tx: Tx, tenant: string, name: string): Promise<Grant | undefined> {
  const sql = 'SELECT rule FROM grants WHERE tenant = ? AND name = ?';
  const row = await tx.get<{ rule: string }>(sql, tenant, name);
  return row && (JSON.parse(row.rule) as Grant);
}

function concernsAdministration({ actions }: Grant): boolean {
  return actions.some((action) => !action.toLowerCase().startsWith('s3:'));
}

/**
 * A subject of the grant's own tenant that is not there: most likely a slip of the pen. Of another
 * tenant's nothing is said, whether there is such a one or not.
 */
async function whatIsMissing(
  tx: Tx,
  tenant: string,
  subject: string,
): Promise<ErrorCode | undefined> {
  const [, kind, owner, name = ''] = /^(principal|group):([^/]+)\/(.+)$/.exec(subject) ?? [];
  if (owner !== tenant) return undefined;
  if (kind === 'principal') return (await roleOf(tx, tenant, name)) ? undefined : 'NoSuchPrincipal';
  const sql = 'SELECT 1 FROM groups WHERE tenant = ? AND name = ?';
  return (await tx.get(sql, tenant, name)) ? undefined : 'NoSuchGroup';
}
