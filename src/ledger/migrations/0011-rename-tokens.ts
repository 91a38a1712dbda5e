// A rename that is asked for again with its client token does nothing once more.
import type { Migration } from './migration.ts';

export const renameTokens: Migration = {
  to: 11,
  what: 'client tokens of renames are remembered',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE rename_tokens (
        bucket_id INTEGER NOT NULL,
        id BLOB NOT NULL,
        request BLOB NOT NULL,
        seq INTEGER NOT NULL,
        made_ms INTEGER NOT NULL,
        epoch INTEGER NOT NULL,
        mac BLOB NOT NULL,
        PRIMARY KEY (bucket_id, id)
      ) WITHOUT ROWID;
      CREATE INDEX rename_tokens_by_time ON rename_tokens (made_ms);
    `);
  },
};
