// Counts as unspent what crashes lost of an account.
import { unchanged } from '../../catalog/outcome.ts';
import type { Command } from './command.ts';

export interface ForgetLost {
  kind: 'forgetLost';
  account: string;
}

export const forgetLost: Command<ForgetLost> = {
  apply: async (_, { account }, { accounts, timeMs }) => {
    await accounts.forgetLost(account, timeMs);
    return unchanged;
  },
  takesFrom: null,
  told: null,
  account: null,
  // What leases hold of an account, the ledger decides.
  causes: null,
};
