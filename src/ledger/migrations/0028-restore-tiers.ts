// How fast what is restored was asked for: stores that are archives of S3 are told it.
import type { Migration } from './migration.ts';

export const restoreTiers: Migration = {
  to: 28,
  what: 'speeds of restores',
  run: async ({ exec }) => {
    exec(`ALTER TABLE restores ADD COLUMN tier TEXT NOT NULL DEFAULT 'Standard'`);
  },
};
