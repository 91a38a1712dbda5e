// Switches a public key on or off, with the access key of a SigV4A key.
import { refuseLossOfKey, refuseUnknownKey, revokeMadeWith } from '../../authz/key-rows.ts';
import { revokedWithPublicKey } from '../events.ts';
import { principalScope } from '../scopes.ts';
import { identityCommand, ownerOf, tellsOfOwner } from './identity-command.ts';

export interface UpdatePublicKey {
  kind: 'updatePublicKey';
  tenant: string;
  principal: string;
  thumbprint: string;
  active: boolean;
}

export const updatePublicKey = identityCommand<UpdatePublicKey>({
  check: async (tx, change) =>
    change.active ? refuseUnknownKey(tx, change) : refuseLossOfKey(tx, change),
  write: async (tx, { thumbprint, active }, timeMs) => {
    if (!active) await revokeMadeWith(tx, thumbprint, timeMs);
    for (const table of ['public_keys', 'access_keys']) {
      const sql = `UPDATE ${table} SET active = ? WHERE thumbprint = ?`;
      await tx.run(sql, Number(active), thumbprint);
    }
  },
  takesFrom: ({ tenant, principal }) => principalScope(tenant, principal),
  told: { ...tellsOfOwner, revokedWith: ownerOf },
  account: ({ active }) => ({ active }),
  causes: async ({ thumbprint, active }, tx) => [
    { kind: 'publicKey', thumbprint },
    ...(active ? [] : await revokedWithPublicKey(tx, thumbprint)),
  ],
});
