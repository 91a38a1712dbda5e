// Deletes a mount.
import { missing, mountExists } from '../../authz/identity-rows.ts';
import { tenantScope } from '../scopes.ts';
import { identityCommand, tellsOf } from './identity-command.ts';

export interface DeleteMount {
  kind: 'deleteMount';
  tenant: string;
  name: string;
}

export const deleteMount = identityCommand<DeleteMount>({
  check: async (tx, { tenant, name }) =>
    (await mountExists(tx, tenant, name)) ? undefined : missing(tx, tenant, 'NoSuchMount'),
  write: async (tx, { tenant, name }) => {
    await tx.run('DELETE FROM mounts WHERE tenant = ? AND name = ?', tenant, name);
  },
  takesFrom: ({ tenant }) => tenantScope(tenant),
  told: tellsOf('mount'),
  account: null,
  causes: ({ tenant, name }) => [{ kind: 'mount', tenant, name, to: null }],
});
