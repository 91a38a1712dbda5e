// Deletes a group. Its name is not given again: grants may have it.
import { groupsExist, missing, retireName } from '../../authz/identity-rows.ts';
import { tenantScope } from '../scopes.ts';
import { identityCommand, tellsOf } from './identity-command.ts';

export interface DeleteGroup {
  kind: 'deleteGroup';
  tenant: string;
  name: string;
}

export const deleteGroup = identityCommand<DeleteGroup>({
  check: async (tx, { tenant, name }) =>
    (await groupsExist(tx, tenant, [name])) ? undefined : missing(tx, tenant, 'NoSuchGroup'),
  write: async (tx, { tenant, name }) => {
    await tx.run('DELETE FROM group_members WHERE tenant = ? AND group_name = ?', tenant, name);
    await tx.run('DELETE FROM groups WHERE tenant = ? AND name = ?', tenant, name);
    await retireName(tx, tenant, 'group', name);
  },
  takesFrom: ({ tenant }) => tenantScope(tenant),
  told: tellsOf('group'),
  account: null,
  causes: ({ tenant, name }) => [{ kind: 'group', tenant, name }],
});
