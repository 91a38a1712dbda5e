// Records that are found not to be what was recorded are noted, so that sums and searches say so.
import type { Migration } from './migration.ts';

export const alteredRecords: Migration = {
  to: 9,
  what: 'records that were altered are noted where they are found',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE altered_records (
        idx INTEGER PRIMARY KEY,
        tenant TEXT,
        bucket_tenant TEXT
      );
    `);
  },
};
