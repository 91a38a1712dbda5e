// Switches an access key on or off. With it goes all that was asked for with it, and the public
// key of a SigV4A key is switched too.
import { isLastOperatorKey, missing, roleOf } from '../../authz/identity-rows.ts';
import { accessKeyOwner, revokeAskedWith, thumbprintOfKey } from '../../authz/key-rows.ts';
import { revokedWith } from '../events.ts';
import { principalScope } from '../scopes.ts';
import { identityCommand, ownerOf, tellsOfOwner } from './identity-command.ts';

export interface UpdateAccessKey {
  kind: 'updateAccessKey';
  tenant: string;
  principal: string;
  id: string;
  active: boolean;
}

export const updateAccessKey = identityCommand<UpdateAccessKey>({
  check: async (tx, { tenant, principal, id, active }) => {
    const owner = await accessKeyOwner(tx, id);
    if (owner?.tenant !== tenant || owner.principal !== principal) {
      if (await roleOf(tx, tenant, principal)) return 'NoSuchAccessKey';
      return missing(tx, tenant, 'NoSuchPrincipal');
    }
    return !active && (await isLastOperatorKey(tx, { id })) ? 'InUse' : undefined;
  },
  write: async (tx, { id, active }, timeMs) => {
    await tx.run('UPDATE access_keys SET active = ? WHERE id = ?', Number(active), id);
    if (!active) await revokeAskedWith(tx, id, timeMs);
    const sql = `UPDATE public_keys SET active = ? WHERE thumbprint = (${thumbprintOfKey})`;
    await tx.run(sql, Number(active), id);
  },
  takesFrom: ({ tenant, principal }) => principalScope(tenant, principal),
  told: { ...tellsOfOwner, revokedWith: ownerOf },
  account: ({ active }) => ({ active }),
  causes: async ({ id, active }, tx) => [
    { kind: 'accessKey', id },
    ...(active ? [] : await revokedWith(tx, id)),
  ],
});
