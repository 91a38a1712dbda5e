// When versions in classes with tiers were read.
import type { Migration } from './migration.ts';

export const versionUses: Migration = {
  to: 27,
  what: 'reads of versions in classes with tiers',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE version_uses (
        seq INTEGER PRIMARY KEY,
        bucket_id INTEGER NOT NULL,
        key TEXT NOT NULL,
        used_ms INTEGER NOT NULL,
        before_ms INTEGER
      );
    `);
  },
};
