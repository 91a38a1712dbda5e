// Where changes of objects are told, how far, and what was refused.
import type { Migration } from './migration.ts';

export const targets: Migration = {
  to: 18,
  what: 'where changes of objects are told',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE targets (
        tenant TEXT NOT NULL REFERENCES tenants(name),
        name TEXT NOT NULL,
        kind TEXT NOT NULL,
        url TEXT NOT NULL,
        region TEXT,
        sealed_secret BLOB,
        created_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, name)
      ) WITHOUT ROWID;
      CREATE TABLE target_cursors (
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        idx INTEGER NOT NULL,
        PRIMARY KEY (tenant, name),
        FOREIGN KEY (tenant, name) REFERENCES targets(tenant, name) ON DELETE CASCADE
      ) WITHOUT ROWID;
      CREATE TABLE dead_letters (
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        idx INTEGER NOT NULL,
        time_ms INTEGER NOT NULL,
        reason TEXT NOT NULL,
        PRIMARY KEY (tenant, name, idx),
        FOREIGN KEY (tenant, name) REFERENCES targets(tenant, name) ON DELETE CASCADE
      ) WITHOUT ROWID;
    `);
  },
};
