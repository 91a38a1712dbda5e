// Ends again a version of which a journal tells that it ended. Only restores do.
import { type RestoreEnd, restoreEnd as restoreEndRows } from '../../catalog/roll-forward.ts';
import type { Command } from './command.ts';

export const restoreEnd: Command<RestoreEnd> = {
  apply: restoreEndRows,
  takesFrom: null,
  told: null,
  account: null,
  // No object is kept in memory.
  causes: null,
};
