// Which versions of classes that are read after a restore are being restored, or were.
import type { Migration } from './migration.ts';

export const restores: Migration = {
  to: 24,
  what: 'restores from archives',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE restores (
        seq INTEGER PRIMARY KEY,
        bucket_id INTEGER NOT NULL,
        key TEXT NOT NULL,
        days INTEGER NOT NULL,
        due_ms INTEGER NOT NULL,
        expires_ms INTEGER
      );
      CREATE INDEX restores_due ON restores (due_ms);
    `);
  },
};
