// Deletes a grant.
import { missing } from '../../authz/identity-rows.ts';
import { ruleOf } from '../events.ts';
import { tenantScope } from '../scopes.ts';
import { concernsAdministration, findGrant, type WrittenGrant } from './grant-rows.ts';
import { identityCommand, tellsOf } from './identity-command.ts';

export interface DeleteGrant extends WrittenGrant {
  kind: 'deleteGrant';
  name: string;
}

export const deleteGrant = identityCommand<DeleteGrant>({
  check: async (tx, { tenant, name, isByAdmin }) => {
    const grant = await findGrant(tx, tenant, name);
    if (!grant) return missing(tx, tenant, 'NoSuchGrant');
    return isByAdmin || !concernsAdministration(grant) ? undefined : 'AccessDenied';
  },
  write: async (tx, { tenant, name }) => {
    await tx.run('DELETE FROM grants WHERE tenant = ? AND name = ?', tenant, name);
  },
  takesFrom: ({ tenant }) => tenantScope(tenant),
  told: tellsOf('grant'),
  account: null,
  causes: async ({ tenant, name }, tx) => [
    { kind: 'grants', tenant, removed: await ruleOf(tx, tenant, name), added: [] },
  ],
});
