// To hold a version takes two pages less: what is held is counted a little later, and where there
// is no versioning its end is found by its number.
import type { Migration } from './migration.ts';

export const heldSums: Migration = {
  to: 14,
  what: 'what snapshots hold is summed up for many versions at once, and indexed less',
  run: async ({ exec }) => {
    exec(`
      DROP INDEX held_by_end;
      CREATE INDEX held_by_end ON held_versions (bucket_id, key, ended_seq)
        WHERE version_id IS NOT NULL;
      DROP INDEX held_by_window;
      ALTER TABLE held_totals RENAME TO held_totals_before;
      CREATE TABLE held_totals (
        bucket_id INTEGER NOT NULL,
        holder INTEGER NOT NULL,
        versions INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        counted_ms INTEGER,
        PRIMARY KEY (bucket_id, holder)
      ) WITHOUT ROWID;
      INSERT INTO held_totals SELECT *, NULL FROM held_totals_before;
      DROP TABLE held_totals_before;
      CREATE INDEX held_by_window ON held_totals (bucket_id) WHERE holder = 0;
      CREATE INDEX held_uncounted ON held_totals (bucket_id, holder) WHERE counted_ms IS NOT NULL;
    `);
  },
};
