// Deletes a tenant that has no buckets, and everybody in it. There is always an operator with an
// access key.
import { isLastOperatorKey, tenantExists } from '../../authz/identity-rows.ts';
import { defaultTenant } from '../../core/principal.ts';
import { rulesOf } from '../events.ts';
import { tenantScope } from '../scopes.ts';
import { identityCommand, tellsOfTenant } from './identity-command.ts';

export interface DeleteTenant {
  kind: 'deleteTenant';
  name: string;
}

/** Those with rows of a tenant that go with it, referring ones first. */
const tenantTables = [
  ...['access_keys', 'public_keys', 'group_members', 'groups', 'principals', 'retired_names'],
  ...['grants', 'mounts', 'issuers', 'tokens', 'revocations'],
];

export const deleteTenant = identityCommand<DeleteTenant>({
  check: async (tx, { name }) => {
    if (!(await tenantExists(tx, name))) return 'NoSuchTenant';
    if (name === defaultTenant) return 'InUse';
    const bucket = await tx.get('SELECT 1 FROM buckets WHERE tenant = ? LIMIT 1', name);
    if (bucket) return 'InUse';
    return (await isLastOperatorKey(tx, { tenant: name })) ? 'InUse' : undefined;
  },
  write: async (tx, { name }) => {
    for (const table of tenantTables) {
      await tx.run(`DELETE FROM ${table} WHERE tenant = ?`, name);
    }
    await tx.run('DELETE FROM tenants WHERE name = ?', name);
    await tx.run('INSERT INTO retired_tenants (name) VALUES (?)', name);
  },
  takesFrom: ({ name }) => tenantScope(name),
  told: tellsOfTenant,
  account: null,
  causes: async ({ name }, tx) => [
    { kind: 'tenant', name, isGone: true },
    { kind: 'grants', tenant: name, removed: await rulesOf(tx, name), added: [] },
  ],
});
