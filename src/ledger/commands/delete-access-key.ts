// Deletes an access key, and with it all that was asked for with it, and the public key of a
// SigV4A key.
import { isLastOperatorKey, missing, roleOf } from '../../authz/identity-rows.ts';
import {
  accessKeyOwner,
  removePublicKey,
  revokeAskedWith,
  thumbprintOfKey,
} from '../../authz/key-rows.ts';
import { revokedWith } from '../events.ts';
import { principalScope } from '../scopes.ts';
import { identityCommand, ownerOf } from './identity-command.ts';
import { principalAndKey } from './principal-and-key.ts';

export interface DeleteAccessKey {
  kind: 'deleteAccessKey';
  tenant: string;
  principal: string;
  id: string;
}

export const deleteAccessKey = identityCommand<DeleteAccessKey>({
  check: async (tx, { tenant, principal, id }) => {
    const owner = await accessKeyOwner(tx, id);
    if (owner?.tenant !== tenant || owner.principal !== principal) {
      if (await roleOf(tx, tenant, principal)) return 'NoSuchAccessKey';
      return missing(tx, tenant, 'NoSuchPrincipal');
    }
    return (await isLastOperatorKey(tx, { id })) ? 'InUse' : undefined;
  },
  write: async (tx, { tenant, id }, timeMs) => {
    const key = await tx.get<{ thumbprint: string | null }>(thumbprintOfKey, id);
    await tx.run('DELETE FROM access_keys WHERE id = ?', id);
    await revokeAskedWith(tx, id, timeMs);
    if (key?.thumbprint) await removePublicKey(tx, tenant, key.thumbprint);
  },
  takesFrom: ({ tenant, principal }) => principalScope(tenant, principal),
  told: {
    things: async ({ tenant, principal, id }, tx) => {
      const key = await tx.get<{ thumbprint: string | null }>(thumbprintOfKey, id);
      return principalAndKey(tenant, principal, key?.thumbprint ?? null);
    },
    isAwaited: true,
    revokedWith: ownerOf,
  },
  account: null,
  causes: async ({ id }, tx) => [{ kind: 'accessKey', id }, ...(await revokedWith(tx, id))],
});
