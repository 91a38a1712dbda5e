// Where the copies of an extent are, of classes of several legs.
import type { Migration } from './migration.ts';

export const extentCopies: Migration = {
  to: 20,
  what: 'copies of extents',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE extent_copies (
        extent_id BLOB NOT NULL,
        store INTEGER NOT NULL,
        state INTEGER NOT NULL,
        changed_ms INTEGER NOT NULL,
        due_ms INTEGER NOT NULL,
        tries INTEGER NOT NULL,
        PRIMARY KEY (extent_id, store)
      ) WITHOUT ROWID;
      CREATE INDEX extent_copies_work ON extent_copies (due_ms, extent_id, store)
        WHERE state >= 2;
    `);
  },
};
