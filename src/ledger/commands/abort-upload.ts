// Ends a multipart upload with its parts.
import { type AbortUpload, abortUpload as abortUploadRows } from '../../catalog/uploads.ts';
import type { Command } from './command.ts';

export const abortUpload: Command<AbortUpload> = {
  apply: abortUploadRows,
  takesFrom: null,
  told: null,
  account: null,
  // No object is kept in memory.
  causes: null,
};
