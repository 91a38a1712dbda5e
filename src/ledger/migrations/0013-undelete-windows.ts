// What an undelete window holds is let go of in the order in which it ended.
import type { Migration } from './migration.ts';

export const undeleteWindows: Migration = {
  to: 13,
  what: 'what is held for buckets with an undelete window is found by its time',
  run: async ({ exec }) => {
    exec(`
      DROP INDEX held_by_holder;
      CREATE INDEX held_by_holder ON held_versions (bucket_id, holder, ended_ms);
      CREATE INDEX held_by_end ON held_versions (bucket_id, key, ended_seq);
      CREATE INDEX held_by_window ON held_totals (bucket_id) WHERE holder = 0;
    `);
  },
};
