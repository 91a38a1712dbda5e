// Tenants whose buckets an erased record was about are told of the erasure by a record of their
// own. Of erasures that were made before there are none.
import type { Migration } from './migration.ts';

export const erasureNotices: Migration = {
  to: 7,
  what: 'erasures are told to each tenant that they concern',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE erasure_notices (
        idx INTEGER PRIMARY KEY,
        act_idx INTEGER NOT NULL,
        tenant TEXT NOT NULL
      );
      CREATE INDEX erasure_notices_by_act ON erasure_notices (act_idx);
    `);
  },
};
