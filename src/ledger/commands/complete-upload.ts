// Makes an object of the parts of a multipart upload.
import {
  type CompleteUpload,
  completeUpload as completeUploadRows,
} from '../../catalog/uploads.ts';
import type { Command } from './command.ts';

export const completeUpload: Command<CompleteUpload> = {
  apply: completeUploadRows,
  takesFrom: null,
  told: null,
  account: null,
  // No object is kept in memory.
  causes: null,
};
