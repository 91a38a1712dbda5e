// Begins a multipart upload.
import { type CreateUpload, createUpload as createUploadRows } from '../../catalog/uploads.ts';
import type { Command } from './command.ts';

export const createUpload: Command<CreateUpload> = {
  apply: createUploadRows,
  takesFrom: null,
  told: null,
  account: null,
  // No object is kept in memory.
  causes: null,
};
