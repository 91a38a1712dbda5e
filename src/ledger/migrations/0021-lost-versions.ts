// Which versions are lost: no store has all of their bytes any more, and their class allows that.
import type { Migration } from './migration.ts';

export const lostVersions: Migration = {
  to: 21,
  what: 'lost versions',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE lost_versions (
        seq INTEGER PRIMARY KEY,
        bucket_id INTEGER NOT NULL,
        key TEXT NOT NULL,
        lost_ms INTEGER NOT NULL,
        due_ms INTEGER NOT NULL,
        tries INTEGER NOT NULL
      );
      CREATE INDEX lost_versions_due ON lost_versions (due_ms);
    `);
  },
};
