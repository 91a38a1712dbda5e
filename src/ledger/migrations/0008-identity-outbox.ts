// Journals in S3 stores tell of identities. Those that are there do not yet: the first start writes
// snapshots that do. And the groups of a principal are found without a look at all of its tenant's.
import type { Migration } from './migration.ts';

export const identityOutbox: Migration = {
  to: 8,
  what: 'journals in S3 stores tell who there is and what they may',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE identity_outbox (
        store INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        kind TEXT NOT NULL,
        tenant TEXT NOT NULL,
        name TEXT NOT NULL,
        PRIMARY KEY (store, seq, kind, tenant, name)
      ) WITHOUT ROWID;
      CREATE TABLE journal_identities (
        store INTEGER PRIMARY KEY,
        state INTEGER NOT NULL
      );
      CREATE INDEX group_members_by_principal ON group_members (tenant, principal);
    `);
  },
};
