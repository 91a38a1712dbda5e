// How far the first count of a prefix or a writer has come that got limits.
import type { Migration } from './migration.ts';

export const storedCounts: Migration = {
  to: 22,
  what: 'counts of what is stored',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE stored_counts (
        account TEXT PRIMARY KEY,
        bucket_id INTEGER NOT NULL,
        key TEXT NOT NULL
      ) WITHOUT ROWID;
    `);
  },
};
