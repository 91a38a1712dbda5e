// Deletes an outside issuer: its tokens are refused from then on.
import { issuerExists, missing } from '../../authz/identity-rows.ts';
import { tenantScope } from '../scopes.ts';
import { identityCommand, tellsOf } from './identity-command.ts';

export interface DeleteIssuer {
  kind: 'deleteIssuer';
  tenant: string;
  name: string;
}

export const deleteIssuer = identityCommand<DeleteIssuer>({
  check: async (tx, { tenant, name }) =>
    (await issuerExists(tx, tenant, name)) ? undefined : missing(tx, tenant, 'NoSuchIssuer'),
  write: async (tx, { tenant, name }) => {
    await tx.run('DELETE FROM issuers WHERE tenant = ? AND name = ?', tenant, name);
  },
  takesFrom: ({ tenant }) => tenantScope(tenant),
  told: tellsOf('issuer'),
  account: null,
  causes: ({ tenant, name }) => [{ kind: 'issuer', tenant, name }],
});
