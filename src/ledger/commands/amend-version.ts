// Changes a version's tags or its lock.
import {
  type AmendVersion,
  amendVersion as amendVersionRows,
} from '../../catalog/version-amendments.ts';
import type { Command } from './command.ts';

export const amendVersion: Command<AmendVersion> = {
  apply: amendVersionRows,
  takesFrom: null,
  told: null,
  account: null,
  // No object is kept in memory.
  causes: null,
};
