// Makes an object of the extents of another.
import { type CopyObject, copyObject as copyObjectRows } from '../../catalog/version-changes.ts';
import type { Command } from './command.ts';

export const copyObject: Command<CopyObject> = {
  apply: copyObjectRows,
  takesFrom: null,
  told: null,
  account: null,
  // No object is kept in memory.
  causes: null,
};
