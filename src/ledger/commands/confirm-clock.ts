// Confirms that the system's clock is right, however far it stepped. The ledger confirms it before
// the record of this command gets its time.
import { unchanged } from '../../catalog/outcome.ts';
import type { Command } from './command.ts';

export interface ConfirmClock {
  kind: 'confirmClock';
  stepMs: number;
}

export const confirmClock: Command<ConfirmClock> = {
  apply: async () => unchanged,
  takesFrom: null,
  told: null,
  account: ({ stepMs }) => ({ stepMs }),
  causes: () => [{ kind: 'clock' }],
};
