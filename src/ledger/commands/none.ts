// Changes nothing. It commits a record, and what is charged for it.
import { unchanged } from '../../catalog/outcome.ts';
import type { Command } from './command.ts';

export interface None {
  kind: 'none';
}

export const none: Command<None> = {
  apply: async () => unchanged,
  takesFrom: null,
  told: null,
  account: null,
  causes: null,
};
