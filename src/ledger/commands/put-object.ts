// Makes an object of bytes that came.
import { type PutObject, putObject as putObjectRows } from '../../catalog/version-changes.ts';
import type { Command } from './command.ts';

export const putObject: Command<PutObject> = {
  apply: putObjectRows,
  takesFrom: null,
  told: null,
  account: null,
  // No object is kept in memory.
  causes: null,
};
