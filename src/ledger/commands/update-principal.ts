// Changes a principal's role and groups, or switches it off. There is always an operator with an
// access key.
import {
  groupsExist,
  insertMemberships,
  isLastOperatorKey,
  missing,
  roleOf,
  updateRole,
} from '../../authz/identity-rows.ts';
import type { Role } from '../../core/principal.ts';
import { principalScope } from '../scopes.ts';
import { identityCommand, tellsOf } from './identity-command.ts';

/** What is undefined stays as it is. */
export interface UpdatePrincipal {
  kind: 'updatePrincipal';
  tenant: string;
  name: string;
  role?: Role;
  groups?: string[];
  active?: boolean;
}

export const updatePrincipal = identityCommand<UpdatePrincipal>({
  check: async (tx, { tenant, name, role, groups, active }) => {
    const current = await roleOf(tx, tenant, name);
    if (!current) return missing(tx, tenant, 'NoSuchPrincipal');
    if (groups && !(await groupsExist(tx, tenant, groups))) return 'NoSuchGroup';
    const demoted = role !== undefined && role !== 'operator';
    const leaves = current === 'operator' && (demoted || active === false);
    return leaves && (await isLastOperatorKey(tx, { tenant, principal: name }))
      ? 'InUse'
      : undefined;
  },
  write: async (tx, { tenant, name, role, groups, active }) => {
    if (active !== undefined) {
      const sql = 'UPDATE principals SET active = ? WHERE tenant = ? AND name = ?';
      await tx.run(sql, Number(active), tenant, name);
    }
    if (role !== undefined) await updateRole(tx, tenant, name, role);
    if (groups === undefined) return;
    await tx.run('DELETE FROM group_members WHERE tenant = ? AND principal = ?', tenant, name);
    await insertMemberships(tx, tenant, name, groups);
  },
  takesFrom: ({ tenant, name }) => principalScope(tenant, name),
  told: tellsOf('principal'),
  account: ({ role, groups, active }) => ({ role, groups, active }),
  causes: ({ tenant, name }) => [{ kind: 'principal', tenant, name }],
});
