// Begins another epoch of root keys. The key is durable in its file already.
import { unchanged } from '../../catalog/outcome.ts';
import type { RootKey } from '../../core/keyring.ts';
import { noteRootKey } from '../key-epochs.ts';
import type { Command } from './command.ts';

export interface AddRootKey {
  kind: 'addRootKey';
  key: RootKey;
}

export const addRootKey: Command<AddRootKey> = {
  apply: async (tx, { key }, { keyring }) => {
    await noteRootKey(tx, keyring, key);
    return unchanged;
  },
  takesFrom: null,
  told: null,
  account: ({ key }) => ({ epoch: key.epoch }),
  causes: ({ key: { epoch } }) => [{ kind: 'rootKey', epoch }],
};
