// Sets the limits of an account.
import { unchanged } from '../../catalog/outcome.ts';
import type { Limits } from '../../core/quota-terms.ts';
import type { Command } from './command.ts';

export interface SetLimits {
  kind: 'setLimits';
  account: string;
  /** null: it has none from now on. */
  limits: Limits | null;
  /** Refused unless these are the account's; undefined: whatever it has. */
  before?: Limits | null;
}

export const setLimits: Command<SetLimits> = {
  apply: async (_, { account, limits, before }, { accounts, timeMs }) => {
    const now = (await accounts.read(account, timeMs)).limits?.limits ?? null;
    if (before !== undefined && JSON.stringify(before) !== JSON.stringify(now)) {
      return { ok: false, code: 'ConditionalRequestConflict' };
    }
    await accounts.setLimits(account, limits, timeMs);
    return unchanged;
  },
  takesFrom: null,
  told: {
    things: ({ account }) => [{ kind: 'limits', tenant: '', name: account }],
    isAwaited: true,
  },
  // What is set is the record's `limits`.
  account: null,
  causes: ({ account, limits }) => [{ kind: 'limits', account, limits }],
};
