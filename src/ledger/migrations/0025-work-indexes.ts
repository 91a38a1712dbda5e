// Jobs are looked at by bucket and counted by state, however many others there are.
import type { Migration } from './migration.ts';

export const workIndexes: Migration = {
  to: 25,
  what: 'indexes of jobs',
  run: async ({ exec }) => {
    exec(`
      CREATE INDEX work_by_bucket ON work (bucket_id, seq);
      CREATE INDEX work_by_state ON work (is_dead, seq);
    `);
  },
};
