// The database says how its schema came to be, and which Bursar it needs.
import type { Migration } from './migration.ts';

export const schemaHistory: Migration = {
  to: 4,
  what: 'the database says which versions of Bursar made its schema',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE schema_history (
        schema INTEGER PRIMARY KEY,
        from_schema INTEGER NOT NULL,
        version TEXT NOT NULL,
        time_ms INTEGER NOT NULL,
        digest_before TEXT,
        digest_after TEXT NOT NULL,
        record_idx INTEGER
      ) WITHOUT ROWID;
    `);
  },
};
