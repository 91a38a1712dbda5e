// Puts back a bucket that a journal tells of. Only rebuilds and restores do.

import { type RestoreBucket, restoreBucket as restoreBucketRows } from '../../catalog/restore.ts';
import { restored } from '../events.ts';
import type { Command } from './command.ts';

export const restoreBucket: Command<RestoreBucket> = {
  apply: (tx, change) => restoreBucketRows(tx, change),
  takesFrom: null,
  told: null,
  account: null,
  causes: ({ bucket }) => restored(bucket),
};
