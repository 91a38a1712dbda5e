// Restores that wait are looked at by bucket, and those that end by their time, however many others
// there are.
import type { Migration } from './migration.ts';

export const restoreIndexes: Migration = {
  to: 26,
  what: 'indexes of restores',
  run: async ({ exec }) => {
    exec(`
      DROP INDEX restores_due;
      CREATE INDEX restores_waiting ON restores (bucket_id, due_ms) WHERE expires_ms IS NULL;
      CREATE INDEX restores_ending ON restores (due_ms) WHERE expires_ms IS NOT NULL;
    `);
  },
};
