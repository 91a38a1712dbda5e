// Puts a part of a multipart upload.
import { type PutPart, putPart as putPartRows } from '../../catalog/uploads.ts';
import type { Command } from './command.ts';

export const putPart: Command<PutPart> = {
  apply: putPartRows,
  takesFrom: null,
  told: null,
  account: null,
  // No object is kept in memory.
  causes: null,
};
