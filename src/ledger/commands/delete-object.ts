// Deletes an object, or ends a version.
import {
  type DeleteObject,
  deleteObject as deleteObjectRows,
} from '../../catalog/version-changes.ts';
import type { Command } from './command.ts';

export const deleteObject: Command<DeleteObject> = {
  apply: deleteObjectRows,
  takesFrom: null,
  told: null,
  account: null,
  // No object is kept in memory.
  causes: null,
};
