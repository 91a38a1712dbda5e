// Jobs that others do for the gateway, as to make a lost object again by its recipe.
import type { Migration } from './migration.ts';

export const work: Migration = {
  to: 23,
  what: 'jobs that make lost objects again',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE work (
        seq INTEGER PRIMARY KEY,
        bucket_id INTEGER NOT NULL,
        key TEXT NOT NULL,
        made_ms INTEGER NOT NULL,
        due_ms INTEGER NOT NULL,
        tries INTEGER NOT NULL,
        is_dead INTEGER NOT NULL,
        lease TEXT,
        holder TEXT,
        problem TEXT
      );
    `);
  },
};
