// What a snapshot of a store's journal has to tell besides buckets and versions: the extents in the
// store that belong to nothing any more.
import type { Reader } from '../core/database.ts';
import { decodeManifest, isManifest } from '../core/manifest.ts';
import { pages } from '../core/pages.ts';
import { extentState } from './extents.ts';

/**
 * Extents of a store that may be in it and belong to nothing: condemned ones and those that a
 * rebuild left alone, the last ones of versions that ended, by which a plain write is known, and
 * what was swept lately and may be put back. In pages of hexadecimal ids.
 */
export async function* listGarbage(
  read: Reader,
  store: number,
  max: number,
): AsyncGenerator<string[]> {
  // In the order in which they go on: what an ended version is let go of meanwhile is condemned,
  // and then swept.
  yield* listLastExtents(read, store, max);
  const { condemned, left, swept } = extentState;
  for (const state of [condemned, left, swept]) {
    yield* listInState(read, { store, state, max });
  }
}

/**
 * Resolves to whether a rebuild left extents alone in a store, because something was lost that it
 * needed.
 */
export async function hasLeftExtents(read: Reader, store: number): Promise<boolean> {
  const sql = 'SELECT 1 FROM extents WHERE state <> 1 AND state = 3 AND store = ? LIMIT 1';
  return (await read.get(sql, store)) !== undefined;
}

async function* listInState(
  read: Reader,
  { store, state, max }: { store: number; state: number; max: number },
): AsyncGenerator<string[]> {
  const sql = `SELECT id, changed_ms AS changedMs, rowid AS rowId FROM extents
    WHERE state <> 1 AND state = ? AND store = ? AND (changed_ms, rowid) > (?, ?)
    ORDER BY changed_ms, rowid LIMIT ?`;
  type Row = { id: Buffer; changedMs: number; rowId: number };
  const readPage = (last?: Row) =>
    read.all<Row>(sql, state, store, last?.changedMs ?? -1, last?.rowId ?? -1, max);
  for await (const rows of pages(readPage)) yield rows.map(({ id }) => id.toString('hex'));
}

async function* listLastExtents(
  read: Reader,
  store: number,
  max: number,
): AsyncGenerator<string[]> {
  const sql = `SELECT seq, substr(manifest, -36) AS end FROM ended_versions
    WHERE seq > ? ORDER BY seq LIMIT ?`;
  type Row = { seq: number; end: Uint8Array };
  for await (const rows of pages<Row>((last) => read.all(sql, last?.seq ?? -1, max))) {
    const ids = rows.flatMap(({ end }) => {
      const run = isManifest(end) ? decodeManifest(end).at(-1) : undefined;
      return run?.store === store ? [run.id.toString('hex')] : [];
    });
    if (ids.length > 0) yield ids;
  }
}
