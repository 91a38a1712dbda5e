// Storage classes of tenants, and of everybody.
import type { Migration } from './migration.ts';

export const classes: Migration = {
  to: 19,
  what: 'storage classes of tenants',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE classes (
        tenant TEXT NOT NULL REFERENCES tenants(name),
        name TEXT NOT NULL,
        definition TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, name)
      ) WITHOUT ROWID;
    `);
  },
};
