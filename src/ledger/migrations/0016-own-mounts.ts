// Members give other tenants' buckets names of their own, unless a setting of their tenant forbids
// it.
import type { Migration } from './migration.ts';

export const ownMounts: Migration = {
  to: 16,
  what: 'names that members give to buckets, and whether their tenant lets them',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE tenant_settings (
        tenant TEXT NOT NULL REFERENCES tenants(name),
        name TEXT NOT NULL,
        document TEXT NOT NULL,
        PRIMARY KEY (tenant, name)
      ) WITHOUT ROWID;
      CREATE TABLE own_mounts (
        tenant TEXT NOT NULL,
        principal TEXT NOT NULL,
        name TEXT NOT NULL,
        bucket_tenant TEXT NOT NULL,
        bucket TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        PRIMARY KEY (tenant, principal, name),
        FOREIGN KEY (tenant, principal) REFERENCES principals(tenant, name) ON DELETE CASCADE
      ) WITHOUT ROWID;
    `);
  },
};
