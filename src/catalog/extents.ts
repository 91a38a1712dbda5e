// The extents' table: the one truth about which stored bytes are alive. An extent begins as an
// intent, written before any byte goes to a store; becomes live in the commit that first names it;
// is condemned when the last manifest that named it is gone. The sweeper removes condemned and
// abandoned ones.
import type { Reader, Tx } from '../core/database.ts';
import { decodeManifest } from '../core/manifest.ts';

export const extentState = { intent: 0, live: 1, condemned: 2 } as const;

/**
 * Word for word what the index of these is for; SQLite does not see that `state = 2` implies it.
 */
const notLive = 'state <> 1';

export interface InlineExtent {
  id: Uint8Array;
  body: Uint8Array;
}

/** Records that the gateway run `process` is about to write these extents. */
export async function declareExtents(
  tx: Tx,
  intents: { tenant: string; ids: readonly Uint8Array[]; process: string; timeMs: number },
): Promise<void> {
  for (const id of intents.ids) {
    await tx.run(
      'INSERT INTO extents VALUES (?, ?, 0, 0, ?, ?, NULL)',
      id,
      intents.tenant,
      intents.timeMs,
      intents.process,
    );
  }
}

/** Whether all are still intents: false when the sweeper has given one up. */
export async function areIntents(tx: Tx, ids: readonly Uint8Array[]): Promise<boolean> {
  for (const id of ids) {
    const row = await tx.get<{ state: number }>('SELECT state FROM extents WHERE id = ?', id);
    if (row?.state !== extentState.intent) return false;
  }
  return true;
}

/** Makes what an upload wrote live, with one reference each: its own manifest's. */
export async function adoptExtents(
  tx: Tx,
  adopted: {
    tenant: string;
    ids: readonly Uint8Array[];
    inline: InlineExtent | null;
    timeMs: number;
  },
): Promise<void> {
  for (const id of adopted.ids) {
    await tx.run(
      'UPDATE extents SET state = 1, refs = 1, changed_ms = ?, process = NULL WHERE id = ?',
      adopted.timeMs,
      id,
    );
  }
  if (adopted.inline) {
    await tx.run(
      'INSERT INTO extents VALUES (?, ?, 1, 1, ?, NULL, ?)',
      adopted.inline.id,
      adopted.tenant,
      adopted.timeMs,
      adopted.inline.body,
    );
  }
}

/** One more manifest names these runs. They are alive, since the manifest copied from is. */
export async function addReferences(tx: Tx, manifest: Uint8Array): Promise<void> {
  for (const [id, count] of countReferences(manifest)) {
    await tx.run('UPDATE extents SET refs = refs + ? WHERE id = ?', count, id);
  }
}

/** A manifest is gone: what nobody names any more is condemned. */
export async function dropReferences(tx: Tx, manifest: Uint8Array, timeMs: number): Promise<void> {
  for (const [id, count] of countReferences(manifest)) {
    await tx.run(
      `UPDATE extents SET refs = refs - ?, changed_ms = ?,
         state = CASE WHEN refs <= ? THEN 2 ELSE state END WHERE id = ?`,
      count,
      timeMs,
      count,
      id,
    );
  }
}

/** How often a manifest names each extent. */
function countReferences(manifest: Uint8Array): Iterable<[Buffer, number]> {
  const runs = decodeManifest(manifest);
  const [only] = runs;
  if (only && runs.length === 1) return [[only.id, 1]];
  const counts = new Map<string, [Buffer, number]>();
  for (const { id } of runs) {
    const name = id.toString('latin1');
    const counted = counts.get(name);
    if (counted) counted[1]++;
    else counts.set(name, [id, 1]);
  }
  return counts.values();
}

/** Condemns intents of earlier runs of the gateway, and those older than `expiredBeforeMs`. */
export async function condemnIntents(
  tx: Tx,
  sweep: { process: string; expiredBeforeMs: number; timeMs: number; max: number },
): Promise<number> {
  const { changes } = await tx.run(
    `UPDATE extents SET state = 2, changed_ms = ? WHERE id IN (
       SELECT id FROM extents WHERE ${notLive} AND state = 0 AND (process <> ? OR changed_ms < ?) LIMIT ?)`,
    sweep.timeMs,
    sweep.process,
    sweep.expiredBeforeMs,
    sweep.max,
  );
  return changes;
}

export interface CondemnedExtent {
  id: Buffer;
  isInline: boolean;
}

/** Extents condemned before these times, oldest first. */
export async function listCondemned(
  read: Reader,
  before: { storedMs: number; inlineMs: number },
  max: number,
): Promise<CondemnedExtent[]> {
  const rows = await read.all<{ id: Buffer; isInline: number }>(
    `SELECT id, body IS NOT NULL AS isInline FROM extents
       WHERE ${notLive} AND state = 2 AND changed_ms <= CASE WHEN body IS NULL THEN ? ELSE ? END
       ORDER BY changed_ms LIMIT ?`,
    before.storedMs,
    before.inlineMs,
    max,
  );
  return rows.map(({ id, isInline }) => ({ id, isInline: isInline === 1 }));
}

/** Forgets extents whose bytes are gone; only those still condemned. */
export async function forgetExtents(tx: Tx, ids: readonly Uint8Array[]): Promise<void> {
  for (const id of ids) await tx.run('DELETE FROM extents WHERE id = ? AND state = 2', id);
}

/** The sealed bytes of an inline extent; undefined when there is none of this id. */
export async function readInlineBody(
  read: Reader,
  id: Uint8Array,
): Promise<Uint8Array | undefined> {
  const row = await read.get<{ body: Uint8Array | null }>(
    'SELECT body FROM extents WHERE id = ?',
    id,
  );
  return row?.body ?? undefined;
}
