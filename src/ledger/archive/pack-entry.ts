// A pack of old records enters the catalog as any written extent does: what was an intent becomes
// live with the row that names it. Only what its store lost before its records had left the
// database is taken back.
import { enterPack, type Pack, unpackTiles } from '../../audit/archive/archived-tiles.ts';
import { adoptExtents, areIntents, dropReferences } from '../../catalog/extents.ts';
import type { Tx } from '../../core/database.ts';

/** Whose packs are, in the place of a tenant's name: none can be this. */
export const archiveTenant = '_records';

/** Gives 0 where the intents were given up meanwhile: nothing was done. */
export async function enterPackedRecords(
  tx: Tx,
  { pack, ids }: { pack: Pack; ids: readonly Uint8Array[] },
  timeMs: number,
): Promise<number> {
  if (!(await areIntents(tx, ids))) return 0;
  await adoptExtents(tx, { tenant: archiveTenant, ids, inline: null, timeMs });
  await enterPack(tx, pack);
  return 1;
}

/**
 * The tiles from this one on are not in a pack any more; one of which nothing is left is condemned.
 */
export async function takeBackTiles(tx: Tx, tile: number, timeMs: number): Promise<number> {
  const manifest = await unpackTiles(tx, tile);
  if (manifest) await dropReferences(tx, manifest, timeMs);
  return 1;
}
