// Commands of principals. There is always an operator with an access key.
import {
  groupsExist,
  insertMemberships,
  insertPrincipal,
  isLastOperatorKey,
  missing,
  nameIsUsed,
  retireName,
  roleOf,
  tenantExists,
  updateRole,
} from '../../authz/identity-rows.ts';
import type { PrincipalKind, Role } from '../../core/principal.ts';
import { deleteHookOf } from '../../quota/limits/alarm-hooks.ts';
import { principalScope } from '../scopes.ts';
import { identityCommand, type Named, tellsOf } from './identity-command.ts';

export interface CreatePrincipal extends Named {
  kind: 'createPrincipal';
  principalKind: PrincipalKind;
  role: Role;
  groups: string[];
}

/** Makes a principal of a tenant. */
export const createPrincipal = identityCommand<CreatePrincipal>({
  check: async (tx, { tenant, name, groups }) => {
    if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
    if (await nameIsUsed(tx, tenant, 'principal', name)) return 'AlreadyExists';
    return (await groupsExist(tx, tenant, groups)) ? undefined : 'NoSuchGroup';
  },
  write: async (tx, { tenant, name, principalKind, role, groups }, timeMs) => {
    await insertPrincipal(tx, tenant, name, principalKind, role, timeMs);
    await insertMemberships(tx, tenant, name, groups);
  },
  takesFrom: null,
  told: tellsOf('principal'),
  account: ({ principalKind: kind, role, groups }) => ({ kind, role, groups }),
  // Nobody has been it before: names are not given again, and only who is there is kept.
  causes: null,
});

/** What is undefined stays as it is. */
export interface UpdatePrincipal extends Named {
  kind: 'updatePrincipal';
  role?: Role;
  groups?: string[];
  active?: boolean;
}

/**
 * Changes a principal's role and groups, or switches it off. There is always an operator with an
 * access key.
 */
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

export interface DeletePrincipal extends Named {
  kind: 'deletePrincipal';
}

/**
 * Deletes a principal that owns no bucket, with its keys, its own mounts and where it was told
 * alarms. Its name is not given again: records, grants and tokens may have it.
 */
export const deletePrincipal = identityCommand<DeletePrincipal>({
  check: async (tx, { tenant, name }) => {
    if (!(await roleOf(tx, tenant, name))) return missing(tx, tenant, 'NoSuchPrincipal');
    const bucket = await tx.get(
      'SELECT 1 FROM buckets WHERE tenant = ? AND owner = ? LIMIT 1',
      ...[tenant, name],
    );
    if (bucket) return 'InUse';
    return (await isLastOperatorKey(tx, { tenant, principal: name })) ? 'InUse' : undefined;
  },
  write: async (tx, { tenant, name }) => {
    await tx.run('DELETE FROM access_keys WHERE tenant = ? AND principal = ?', tenant, name);
    await tx.run('DELETE FROM public_keys WHERE tenant = ? AND principal = ?', tenant, name);
    await tx.run('DELETE FROM group_members WHERE tenant = ? AND principal = ?', tenant, name);
    await tx.run('DELETE FROM own_mounts WHERE tenant = ? AND principal = ?', tenant, name);
    await deleteHookOf(tx, tenant, name);
    await tx.run('DELETE FROM principals WHERE tenant = ? AND name = ?', tenant, name);
    await retireName(tx, tenant, 'principal', name);
  },
  takesFrom: ({ tenant, name }) => principalScope(tenant, name),
  told: {
    things: ({ tenant, name }) => [
      { kind: 'principal', tenant, name },
      { kind: 'webhook', tenant, name },
    ],
    isAwaited: true,
  },
  account: null,
  causes: ({ tenant, name }) => [
    { kind: 'principal', tenant, name },
    { kind: 'ownMount', tenant, principal: name, name: null, to: null },
  ],
});
