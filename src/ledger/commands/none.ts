// Changes nothing: what is committed is the record.
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
