// Refuses a key of the log from now on.
import { unchanged } from '../../catalog/outcome.ts';
import type { Command } from './command.ts';

export interface RevokeLogKey {
  kind: 'revokeLogKey';
  id: string;
}

export const revokeLogKey: Command<RevokeLogKey> = {
  apply: async (tx, { id }, { signing, timeMs }) => {
    const revoked = await signing.revoke(tx, id, timeMs);
    if (revoked) return unchanged;
    return { ok: false, code: revoked === undefined ? 'NotFound' : 'InUse' };
  },
  takesFrom: null,
  told: null,
  account: ({ id }) => ({ keyId: id }),
  // Only the ledger's thread signs the log; others read which keys did.
  causes: null,
};
