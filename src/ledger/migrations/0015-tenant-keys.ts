// Each tenant has a secret, from which the keys derive that encrypt its bytes. A start makes those
// that are missing, as changes of their own, since journals must be told them.
import type { Migration } from './migration.ts';

export const tenantKeys: Migration = {
  to: 15,
  what: 'the secrets of tenants, from which the keys derive that encrypt their bytes',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE tenant_keys (
        tenant TEXT PRIMARY KEY REFERENCES tenants(name),
        sealed_key BLOB NOT NULL,
        created_ms INTEGER NOT NULL
      ) WITHOUT ROWID;
    `);
  },
};
