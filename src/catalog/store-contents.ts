// What a snapshot of a store's journal has to tell besides buckets and versions: the extents in the
// store that belong to nothing any more.
import type { Reader } from '../core/database.ts';
import { decodeManifest, isManifest } from '../core/manifest.ts';
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
  for (let after = { changedMs: -1, rowId: -1 }; ; ) {
    const rows = await read.all<{ id: Buffer; changedMs: number; rowId: number }>(
      `SELECT id, changed_ms AS changedMs, rowid AS rowId FROM extents
         WHERE state <> 1 AND state = ? AND store = ? AND (changed_ms, rowid) > (?, ?)
         ORDER BY changed_ms, rowid LIMIT ?`,
      state,
      store,
      after.changedMs,
      after.rowId,
      max,
    );
    const last = rows.at(-1);
    if (!last) return;
    yield rows.map(({ id }) => id.toString('hex'));
    after = last;
  }
}

async function* listLastExtents(
  read: Reader,
  store: number,
  max: number,
): AsyncGenerator<string[]> {
  for (let afterSeq = -1; ; ) {
    const rows = await read.all<{ seq: number; end: Uint8Array }>(
      `SELECT seq, substr(manifest, -36) AS end FROM ended_versions
         WHERE seq > ? ORDER BY seq LIMIT ?`,
      afterSeq,
      max,
    );
    const last = rows.at(-1);
    if (!last) return;
    const ids = rows.flatMap(({ end }) => {
      const run = isManifest(end) ? decodeManifest(end).at(-1) : undefined;
      return run?.store === store ? [run.id.toString('hex')] : [];
    });
    if (ids.length > 0) yield ids;
    afterSeq = last.seq;
  }
}
