// Manifests of more than 8 KiB lie in a table of their own, so that rows which move leave them
// where they are.
import type { SqlValue, Tx } from '../../core/database.ts';
import type { Migration } from './migration.ts';

/** Tables of versions, and the columns of their primary keys. */
const tables: Readonly<Record<string, readonly string[]>> = {
  versions: ['bucket_id', 'key'],
  noncurrent_versions: ['bucket_id', 'key', 'seq'],
  ended_versions: ['seq'],
  held_versions: ['bucket_id', 'key', 'seq', 'ended_seq'],
};

export const longManifests: Migration = {
  to: 17,
  what: 'manifests of very large objects, which lie apart from the rows of versions',
  run: async ({ exec, tx, onProgress }) => {
    exec(`
      CREATE TABLE long_manifests (
        id INTEGER PRIMARY KEY,
        manifest BLOB NOT NULL
      );
      CREATE TABLE long_manifest_uses (
        id INTEGER PRIMARY KEY,
        uses INTEGER NOT NULL,
        dropped INTEGER NOT NULL
      );
      CREATE INDEX long_manifests_unused ON long_manifest_uses (id) WHERE uses = 0;
    `);
    let moved = 0;
    for (const [table, keys] of Object.entries(tables)) {
      const columns = keys.join(', ');
      const sql = `SELECT ${columns} FROM ${table} WHERE length(manifest) > 8192`;
      for (const row of await tx.all<Record<string, SqlValue>>(sql)) {
        const place = keys.map((key) => row[key] as SqlValue);
        await moveOut(tx, table, keys, place);
        onProgress(++moved);
      }
    }
  },
};

async function moveOut(
  tx: Tx,
  table: string,
  keys: readonly string[],
  place: readonly SqlValue[],
): Promise<void> {
  const at = keys.map((key) => `${key} = ?`).join(' AND ');
  const row = (await tx.get<{ id: number }>(
    `INSERT INTO long_manifests (manifest) SELECT manifest FROM ${table} WHERE ${at} RETURNING id`,
    ...place,
  )) as { id: number };
  await tx.run('INSERT INTO long_manifest_uses VALUES (?, 1, 0)', row.id);
  await tx.run(`UPDATE ${table} SET manifest = ? WHERE ${at}`, BigInt(row.id), ...place);
}
