// Rows of grants, as the commands that change them ask for them.

import type { Grant } from '../../authz/grants/grant.ts';
import { roleOf } from '../../authz/identity-rows.ts';
import type { Tx } from '../../core/database.ts';
import type { ErrorCode } from '../../core/errors.ts';

/** Which tenant's grants a command changes, and in whose name. */
export interface WrittenGrant {
  tenant: string;
  /** By an admin. Others leave what is about administration as it is: they would become admins. */
  isByAdmin: boolean;
}

export async function findGrant(tx: Tx, tenant: string, name: string): Promise<Grant | undefined> {
  const sql = 'SELECT rule FROM grants WHERE tenant = ? AND name = ?';
  const row = await tx.get<{ rule: string }>(sql, tenant, name);
  return row && (JSON.parse(row.rule) as Grant);
}

export function concernsAdministration({ actions }: Grant): boolean {
  return actions.some((action) => !action.toLowerCase().startsWith('s3:'));
}

/**
 * A subject of the grant's own tenant that is not there: most likely a slip of the pen. Of another
 * tenant's nothing is said, whether there is such a one or not.
 */
export async function subjectFault(
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
