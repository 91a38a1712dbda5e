// A pack of old records enters the catalog as any written extent does: what was an intent becomes
// live with the row that names it. Nothing takes a pack away again.
import { enterPack, type Pack } from '../../audit/archive/archived-tiles.ts';
import { adoptExtents, areIntents } from '../../catalog/extents.ts';
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
