// Gives a principal an access key.
import { missing, roleOf } from '../../authz/identity-rows.ts';
import { insertAccessKey, refuseAccessKey } from '../../authz/key-rows.ts';
import { identityCommand, tellsOfOwner } from './identity-command.ts';

export interface CreateAccessKey {
  kind: 'createAccessKey';
  tenant: string;
  principal: string;
  id: string;
  /** Sealed under `accessKeyContext(tenant, principal, id)`. */
  sealedSecret: Uint8Array;
}

export const createAccessKey = identityCommand<CreateAccessKey>({
  check: async (tx, { tenant, principal, id }) => {
    if (!(await roleOf(tx, tenant, principal))) return missing(tx, tenant, 'NoSuchPrincipal');
    return refuseAccessKey(tx, tenant, principal, id);
  },
  write: (tx, { tenant, principal, id, sealedSecret }, timeMs) =>
    insertAccessKey(tx, tenant, principal, id, sealedSecret, timeMs),
  takesFrom: null,
  told: tellsOfOwner,
  account: ({ id }) => ({ accessKeyId: id }),
  causes: ({ id }) => [{ kind: 'accessKey', id }],
});
