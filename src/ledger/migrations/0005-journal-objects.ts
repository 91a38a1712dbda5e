// The database lists what the journals in its stores consist of, so that what a store has lost of
// one is noticed. Of journals that are there already nothing is listed: the first start writes
// snapshots.
import type { Migration } from './migration.ts';

export const journalObjects: Migration = {
  to: 5,
  what: 'the database knows what the journals in S3 stores consist of',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE journal_objects (
        store INTEGER NOT NULL,
        name TEXT NOT NULL,
        last_seq INTEGER,
        size INTEGER NOT NULL,
        digest BLOB NOT NULL,
        PRIMARY KEY (store, name)
      ) WITHOUT ROWID;
    `);
  },
};
