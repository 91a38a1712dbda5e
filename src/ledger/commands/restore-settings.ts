// Puts back the settings of a bucket that a journal tells of. Only restores do.

import {
  type RestoreSettings,
  restoreSettings as restoreSettingsRows,
} from '../../catalog/roll-forward.ts';
import { restored } from '../events.ts';
import type { Command } from './command.ts';

export const restoreSettings: Command<RestoreSettings> = {
  apply: (tx, change) => restoreSettingsRows(tx, change),
  takesFrom: null,
  told: null,
  account: null,
  causes: ({ bucket }) => restored(bucket),
};
