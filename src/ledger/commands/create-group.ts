// Makes a group of a tenant.
import { nameIsUsed, tenantExists } from '../../authz/identity-rows.ts';
import { identityCommand, tellsOf } from './identity-command.ts';

export interface CreateGroup {
  kind: 'createGroup';
  tenant: string;
  name: string;
}

export const createGroup = identityCommand<CreateGroup>({
  check: async (tx, { tenant, name }) => {
    if (!(await tenantExists(tx, tenant))) return 'NoSuchTenant';
    return (await nameIsUsed(tx, tenant, 'group', name)) ? 'AlreadyExists' : undefined;
  },
  write: async (tx, { tenant, name }, timeMs) => {
    await tx.run(
      'INSERT INTO groups (tenant, name, created_ms) VALUES (?, ?, ?)',
      tenant,
      name,
      timeMs,
    );
  },
  takesFrom: null,
  told: tellsOf('group'),
  account: null,
  // Nobody is in it, and nobody has been.
  causes: null,
});
