// Deletes a public key, with the access key of a SigV4A key. It is not enrolled again.
import { refuseLossOfKey, removePublicKey, revokeMadeWith } from '../../authz/key-rows.ts';
import { revokedWithPublicKey } from '../events.ts';
import { principalScope } from '../scopes.ts';
import { identityCommand, ownerOf } from './identity-command.ts';
import { principalAndKey } from './principal-and-key.ts';

export interface DeletePublicKey {
  kind: 'deletePublicKey';
  tenant: string;
  principal: string;
  thumbprint: string;
}

export const deletePublicKey = identityCommand<DeletePublicKey>({
  check: refuseLossOfKey,
  write: async (tx, { tenant, thumbprint }, timeMs) => {
    await revokeMadeWith(tx, thumbprint, timeMs);
    await tx.run('DELETE FROM access_keys WHERE thumbprint = ?', thumbprint);
    await removePublicKey(tx, tenant, thumbprint);
  },
  takesFrom: ({ tenant, principal }) => principalScope(tenant, principal),
  told: {
    things: ({ tenant, principal, thumbprint }) => principalAndKey(tenant, principal, thumbprint),
    isAwaited: true,
    revokedWith: ownerOf,
  },
  account: null,
  causes: async ({ thumbprint }, tx) => [
    { kind: 'publicKey', thumbprint },
    ...(await revokedWithPublicKey(tx, thumbprint)),
  ],
});
