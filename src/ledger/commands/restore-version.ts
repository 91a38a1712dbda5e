// Puts back a version that a journal or an extent tells of. Only rebuilds and restores do.
import {
  type RestoreVersion,
  restoreVersion as restoreVersionRows,
} from '../../catalog/restore.ts';
import type { Command } from './command.ts';

export const restoreVersion: Command<RestoreVersion> = {
  apply: restoreVersionRows,
  takesFrom: null,
  told: null,
  account: null,
  // No object is kept in memory.
  causes: null,
};
