// Commands of a tenant's groups of principals.
import {
  groupsExist,
  missing,
  nameIsUsed,
  retireName,
  tenantExists,
} from '../../authz/identity-rows.ts';
import { tenantScope } from '../scopes.ts';
import { identityCommand, type Named, tellsOf } from './identity-command.ts';

export interface CreateGroup extends Named {
  kind: 'createGroup';
}

/** Makes a group of a tenant. */
export const createGroup = identityCommand<CreateGroup>({
  check: async (tx, { tenant, name }) => {
    if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
    return (await nameIsUsed(tx, tenant, 'group', name)) ? 'AlreadyExists' : undefined;
  },
  write: async (tx, { tenant, name }, timeMs) => {
    await tx.run(
      'INSERT INTO groups (tenant, name, created_ms) VALUES (?, ?, ?)',
      ...[tenant, name, timeMs],
    );
  },
  takesFrom: null,
  told: tellsOf('group'),
  account: null,
  // Nobody is in it, and nobody has been.
  causes: null,
});

export interface DeleteGroup extends Named {
  kind: 'deleteGroup';
}

/** Deletes a group. Its name is not given again: grants may have it. */
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
