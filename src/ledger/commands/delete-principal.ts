// Deletes a principal that owns no bucket, with its keys. Its name is not given again: records,
// grants and tokens may have it.
import { isLastOperatorKey, missing, retireName, roleOf } from '../../authz/identity-rows.ts';
import { principalScope } from '../scopes.ts';
import { identityCommand, tellsOf } from './identity-command.ts';

export interface DeletePrincipal {
  kind: 'deletePrincipal';
  tenant: string;
  name: string;
}

export const deletePrincipal = identityCommand<DeletePrincipal>({
  check: async (tx, { tenant, name }) => {
    if (!(await roleOf(tx, tenant, name))) return missing(tx, tenant, 'NoSuchPrincipal');
    const bucket = await tx.get(
      'SELECT 1 FROM buckets WHERE tenant = ? AND owner = ? LIMIT 1',
      tenant,
      name,
    );
    if (bucket) return 'InUse';
    return (await isLastOperatorKey(tx, { tenant, principal: name })) ? 'InUse' : undefined;
  },
  write: async (tx, { tenant, name }) => {
    await tx.run('DELETE FROM access_keys WHERE tenant = ? AND principal = ?', tenant, name);
    await tx.run('DELETE FROM public_keys WHERE tenant = ? AND principal = ?', tenant, name);
    await tx.run('DELETE FROM group_members WHERE tenant = ? AND principal = ?', tenant, name);
    await tx.run('DELETE FROM principals WHERE tenant = ? AND name = ?', tenant, name);
    await retireName(tx, tenant, 'principal', name);
  },
  takesFrom: ({ tenant, name }) => principalScope(tenant, name),
  told: tellsOf('principal'),
  account: null,
  causes: ({ tenant, name }) => [{ kind: 'principal', tenant, name }],
});
