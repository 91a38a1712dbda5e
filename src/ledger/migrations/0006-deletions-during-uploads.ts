// A deletion of a key that has unfinished uploads is noted, so that their conditional completions
// notice it. Of uploads that are there already nothing is noted.
import type { Migration } from './migration.ts';

export const deletionsDuringUploads: Migration = {
  to: 6,
  what: 'deletions during multipart uploads are noticed by conditional completions',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE deleted_during_uploads (
        bucket_id INTEGER NOT NULL,
        key TEXT NOT NULL,
        seq INTEGER NOT NULL,
        PRIMARY KEY (bucket_id, key)
      ) WITHOUT ROWID;
    `);
  },
};
