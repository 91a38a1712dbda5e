// Snapshots of buckets, and the versions that are held for them after they ended.
import type { Migration } from './migration.ts';

export const snapshots: Migration = {
  to: 12,
  what: 'snapshots of buckets, and the versions that are held for them',
  run: async ({ exec }) => {
    exec(`
      CREATE TABLE snapshots (
        bucket_id INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        bucket TEXT NOT NULL,
        name TEXT NOT NULL,
        prefix TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        expires_ms INTEGER,
        lock TEXT,
        state TEXT NOT NULL,
        PRIMARY KEY (bucket_id, seq)
      ) WITHOUT ROWID;
      CREATE UNIQUE INDEX snapshots_by_name ON snapshots (bucket_id, name)
        WHERE state = 'living';
      CREATE INDEX snapshots_due ON snapshots (expires_ms)
        WHERE state = 'dying' OR expires_ms IS NOT NULL;
      CREATE TABLE held_versions (
        bucket_id INTEGER NOT NULL,
        key TEXT NOT NULL,
        seq INTEGER NOT NULL,
        version_id TEXT,
        is_marker INTEGER NOT NULL,
        size INTEGER NOT NULL,
        etag TEXT NOT NULL,
        sha256 BLOB,
        class TEXT NOT NULL,
        owner TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        manifest BLOB NOT NULL,
        attributes TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        manifest_mac BLOB NOT NULL,
        row_mac BLOB NOT NULL,
        billed INTEGER NOT NULL,
        superseded_seq INTEGER,
        superseded_ms INTEGER,
        ended_seq INTEGER NOT NULL,
        ended_ms INTEGER NOT NULL,
        is_image INTEGER NOT NULL,
        held_mac BLOB,
        holder INTEGER NOT NULL,
        PRIMARY KEY (bucket_id, key, seq DESC, ended_seq)
      ) WITHOUT ROWID;
      CREATE INDEX held_by_holder ON held_versions (bucket_id, holder);
      CREATE TABLE held_totals (
        bucket_id INTEGER NOT NULL,
        holder INTEGER NOT NULL,
        versions INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        PRIMARY KEY (bucket_id, holder)
      ) WITHOUT ROWID;
    `);
  },
};
