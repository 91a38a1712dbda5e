// Makes a principal of a tenant.
import {
  groupsExist,
  insertMemberships,
  insertPrincipal,
  nameIsUsed,
  tenantExists,
} from '../../authz/identity-rows.ts';
import type { PrincipalKind, Role } from '../../core/principal.ts';
import { identityCommand, tellsOf } from './identity-command.ts';

export interface CreatePrincipal {
  kind: 'createPrincipal';
  tenant: string;
  name: string;
  principalKind: PrincipalKind;
  role: Role;
  groups: string[];
}

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
