// Puts back the attributes of a version that a journal tells of. Only restores do.
import {
  type RestoreAttributes,
  restoreAttributes as restoreAttributesRows,
} from '../../catalog/roll-forward.ts';
import type { Command } from './command.ts';

export const restoreAttributes: Command<RestoreAttributes> = {
  apply: restoreAttributesRows,
  takesFrom: null,
  told: null,
  account: null,
  // No object is kept in memory.
  causes: null,
};
