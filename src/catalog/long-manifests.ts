// Manifests of very large objects: those of 5 TiB have 12 MB. They lie in a table of their own, and
// rows of versions name them by number, so that a version which moves to another key, or to another
// table, takes the number along. Invariants: the manifest alone names its extents, once, and counts
// the rows that name it; when none does any more, it lets go of its extents slice by slice, and
// goes with the last of them. Its bytes are authentic where the MAC of a version that names it is
// right (authentic.ts).
import type { Tx } from '../core/database.ts';
import { rowManifestBytesMax } from '../core/limits.ts';
import { decodeManifest } from '../core/manifest.ts';
import { addReferences, dropReferences } from './extents.ts';

/** Column of a row of `table`: its manifest, wherever it lies; empty where it is not there. */
export function manifestOf(table: string): string {
  return `CASE typeof(${table}.manifest) WHEN 'integer'
    THEN ifnull((SELECT m.manifest FROM long_manifests AS m WHERE m.id = ${table}.manifest), x'')
    ELSE ${table}.manifest END AS manifest`;
}

/** Column of a row of `table`: the number of its long manifest; null: it has its own. */
export function longManifestOf(table: string): string {
  return `iif(typeof(${table}.manifest) = 'integer', ${table}.manifest, NULL) AS longManifest`;
}

/** Of a row that was read with `manifestOf` and `longManifestOf`. */
export interface NamedManifest {
  manifest: Uint8Array;
  longManifest: number | null;
}

/** Gives what the row of a version has in its column: the manifest, or the number of a new one. */
export async function placeManifest(tx: Tx, manifest: Uint8Array): Promise<Uint8Array | bigint> {
  if (manifest.length <= rowManifestBytesMax) return manifest;
  const sql = 'INSERT INTO long_manifests (manifest) VALUES (?) RETURNING id';
  const { id } = (await tx.get<{ id: number }>(sql, manifest)) as { id: number };
  await tx.run('INSERT INTO long_manifest_uses VALUES (?, 1, 0)', id);
  // A number would be bound as a floating-point one.
  return BigInt(id);
}

/** One more row has what was in this column of another. */
export async function shareManifest(tx: Tx, column: Uint8Array | number): Promise<void> {
  if (typeof column !== 'number') await addReferences(tx, column);
  else await tx.run('UPDATE long_manifest_uses SET uses = uses + 1 WHERE id = ?', column);
}

/** A row that is authentic is gone: what it named is let go of, of a long manifest later. */
export async function dropManifest(
  tx: Tx,
  { manifest, longManifest }: NamedManifest,
  timeMs: number,
): Promise<void> {
  if (longManifest === null) await dropReferences(tx, manifest, timeMs);
  else await tx.run('UPDATE long_manifest_uses SET uses = uses - 1 WHERE id = ?', longManifest);
}

/** Some milliseconds in which nobody else can commit. */
const droppedRunsMax = 1000;
const runBytes = 36;

/**
 * Lets go of some of the extents of a long manifest that no row names any more. Gives of how many
 * runs: 0 when there is no such manifest.
 */
export async function dropLongManifest(tx: Tx, timeMs: number): Promise<number> {
  const next = await tx.get<{ id: number; dropped: number }>(
    'SELECT id, dropped FROM long_manifest_uses WHERE uses = 0 ORDER BY id LIMIT 1',
  );
  if (!next) return 0;
  const { id, dropped } = next;
  const row = await tx.get<{ runs: Uint8Array }>(
    'SELECT substr(manifest, ?, ?) AS runs FROM long_manifests WHERE id = ?',
    ...[dropped * runBytes + 1, droppedRunsMax * runBytes, id],
  );
  const runs = row?.runs ?? Buffer.alloc(0);
  if (runs.length > 0) await dropReferences(tx, runs, timeMs);
  const count = decodeManifest(runs).length;
  if (count === droppedRunsMax) {
    const sql = 'UPDATE long_manifest_uses SET dropped = dropped + ? WHERE id = ?';
    await tx.run(sql, count, id);
    return count;
  }
  await tx.run('DELETE FROM long_manifests WHERE id = ?', id);
  await tx.run('DELETE FROM long_manifest_uses WHERE id = ?', id);
  return Math.max(count, 1);
}
