// The extents' table: the one truth about which stored bytes are alive. An extent begins as an
// intent, written before any byte goes to a store; becomes live in the commit that first names it;
// is condemned when the last manifest that named it is gone. The sweeper removes condemned and
// abandoned ones.
import type { Reader, Tx } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import { decodeManifest, inlineStore, localStore } from '../core/manifest.ts';
import { pages } from '../core/pages.ts';
import { adoptCopies, declareCopies } from './extent-copies.ts';

/**
 * `left`: a rebuild found it and nothing names it, but what would may be lost: it is not removed.
 * `swept`: it was removed from an S3 store, and is remembered until no rebuild would take it for a
 * new write, should somebody put it back there.
 */
export const extentState = { intent: 0, live: 1, condemned: 2, left: 3, swept: 4 } as const;

/**
 * Word for word what the index of these is for; SQLite does not see that `state = 2` implies it.
 */
const notLive = 'state <> 1';

export interface InlineExtent {
  id: Uint8Array;
  body: Uint8Array;
}

/**
 * Records that the gateway run `process` may write extents of these ids to a store, or to several,
 * of which it is the first.
 */
export async function declareExtents(
  tx: Tx,
  intents: {
    store: number;
    stores?: readonly number[] | undefined;
    ids: readonly Uint8Array[];
    process: string;
    timeMs: number;
  },
): Promise<void> {
  for (const id of intents.ids) {
    await tx.run(
      'INSERT INTO extents VALUES (?, ?, NULL, 0, 0, ?, ?, NULL)',
      ...[id, intents.store, intents.timeMs, intents.process],
    );
  }
  const { stores, ids, timeMs } = intents;
  if (stores) await declareCopies(tx, { ids, stores, timeMs });
}

/** Resolves to whether all are still intents. False means that the sweeper has given one up. */
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
    /** Of a write into several stores: by extent those that have it, as its manifest says. */
    places?: readonly (readonly number[])[] | undefined;
    timeMs: number;
  },
): Promise<void> {
  for (const id of adopted.ids) {
    await tx.run(
      `UPDATE extents SET tenant = ?, state = 1, refs = 1, changed_ms = ?, process = NULL
         WHERE id = ?`,
      ...[adopted.tenant, adopted.timeMs, id],
    );
  }
  if (adopted.places) await adoptCopies(tx, adopted.ids, adopted.places, adopted.timeMs);
  if (adopted.inline) {
    await tx.run(
      'INSERT INTO extents VALUES (?, ?, ?, 1, 1, ?, NULL, ?)',
      ...[adopted.inline.id, inlineStore, adopted.tenant, adopted.timeMs, adopted.inline.body],
    );
  }
}

/**
 * Whether a manifest that was read before can be named once more: a version that was moved
 * meanwhile has let go of the extents that it had.
 */
export async function areLive(tx: Tx, manifest: Uint8Array): Promise<boolean> {
  for (const [id] of countReferences(manifest)) {
    if (!(await tx.get('SELECT 1 FROM extents WHERE id = ? AND state = 1', id))) return false;
  }
  return true;
}

/** One more manifest names these runs, which are alive. */
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
      ...[count, timeMs, count, id],
    );
  }
}

/** How often a manifest names each extent. */
export function countReferences(manifest: Uint8Array): Iterable<[Buffer, number]> {
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
       SELECT id FROM extents
       WHERE ${notLive} AND state = 0 AND (process <> ? OR changed_ms < ?) LIMIT ?)`,
    ...[sweep.timeMs, sweep.process, sweep.expiredBeforeMs, sweep.max],
  );
  return changes;
}

/** Resolves to whether any live extent, or a copy of one, is in a store. */
export async function holdsLiveExtents(read: Reader, store: number): Promise<boolean> {
  const sql = `SELECT 1 FROM extents WHERE store = ? AND state = 1
    UNION ALL SELECT 1 FROM extent_copies AS c JOIN extents AS e ON e.id = extent_id
      WHERE c.store = ? AND c.state = 1 AND e.state = 1 LIMIT 1`;
  return (await read.get(sql, store, store)) !== undefined;
}

const wholeIdsPerPage = 1000;

export interface WholeExtent {
  id: Buffer;
  /** Whether another store has it, too. */
  isElsewhere: number;
  /** Since when it is as it is, ms, of a copy of several; null: it never changes. */
  changedMs: number | null;
}

/**
 * Those of which a store has what was written, as far as is known, in order. The database may be
 * one of an older release, which had no copies.
 */
export async function* listWholeExtents(
  read: Reader,
  store: number,
): AsyncGenerator<WholeExtent[]> {
  const page = `ORDER BY id LIMIT ${wholeIdsPerPage}`;
  const live = `SELECT id, 0 AS isElsewhere, NULL AS changedMs FROM extents AS e
    WHERE id > ? AND store = ? AND state = 1`;
  if (!(await read.get("SELECT 1 FROM sqlite_schema WHERE name = 'extent_copies'"))) {
    const sql = `${live} ${page}`;
    yield* pages((last?: { id: Buffer }) =>
      read.all<WholeExtent>(sql, last?.id ?? Buffer.alloc(0), store),
    );
    return;
  }
  const sql = `SELECT id, isElsewhere, changedMs FROM (
       SELECT * FROM (${live}
           AND NOT EXISTS (SELECT 1 FROM extent_copies WHERE extent_id = e.id) ${page})
       UNION ALL SELECT * FROM (SELECT extent_id, EXISTS (SELECT 1 FROM extent_copies AS o
           WHERE o.extent_id = c.extent_id AND o.store <> c.store AND o.state = 1), c.changed_ms
         FROM extent_copies AS c JOIN extents AS e ON e.id = c.extent_id
         WHERE c.extent_id > ? AND c.store = ? AND c.state = 1 AND e.state = 1
         ORDER BY c.extent_id LIMIT ${wholeIdsPerPage})
     ) ${page}`;
  yield* pages((last?: { id: Buffer }) => {
    const after = last?.id ?? Buffer.alloc(0);
    return read.all<WholeExtent>(sql, after, store, after, store);
  });
}

/** The stores that have condemned extents. */
export async function listStoresToSweep(read: Reader): Promise<number[]> {
  const rows = await read.all<{ store: number }>(
    `SELECT DISTINCT store FROM extents WHERE ${notLive} AND state = 2 ORDER BY store`,
  );
  return rows.map(({ store }) => store);
}

export interface Condemned {
  id: Buffer;
  /** Null: it has been nobody's. */
  tenant: string | null;
  changedMs: number;
}

/** A store's extents that were condemned up to `beforeMs`, oldest first, behind `after`. */
export function listCondemned(
  read: Reader,
  wanted: {
    store: number;
    beforeMs: number;
    after?: Pick<Condemned, 'id' | 'changedMs'> | undefined;
    max: number;
  },
): Promise<Condemned[]> {
  const { store, beforeMs, after, max } = wanted;
  return read.all<Condemned>(
    `SELECT id, tenant, changed_ms AS changedMs FROM extents
       WHERE ${notLive} AND state = 2 AND store = ? AND changed_ms <= ?
         AND (changed_ms, id) > (?, ?) ORDER BY changed_ms, id LIMIT ?`,
    ...[store, beforeMs, after?.changedMs ?? 0, after?.id ?? Buffer.alloc(0), max],
  );
}

/** Notes that the bytes of extents are gone, all copies; only of those still condemned. */
export async function noteSwept(tx: Tx, ids: readonly Uint8Array[], timeMs: number): Promise<void> {
  const forget = `DELETE FROM extents WHERE id = ? AND state = 2 AND store <= ?
    AND NOT EXISTS (SELECT 1 FROM extent_copies WHERE extent_id = id AND store <> extents.store)`;
  const remember = 'UPDATE extents SET state = 4, changed_ms = ? WHERE id = ? AND state = 2';
  const copies = `DELETE FROM extent_copies WHERE extent_id = ?
    AND EXISTS (SELECT 1 FROM extents WHERE id = extent_id AND state = 2)`;
  for (const id of ids) {
    await tx.run(forget, id, localStore);
    await tx.run(copies, id);
    await tx.run(remember, timeMs, id);
  }
}

/** Forgets up to `max` extents that were swept before `beforeMs`; gives how many. */
export async function forgetSwept(tx: Tx, beforeMs: number, max: number): Promise<number> {
  const { changes } = await tx.run(
    `DELETE FROM extents WHERE id IN (
       SELECT id FROM extents WHERE ${notLive} AND state = 4 AND changed_ms < ? LIMIT ?)`,
    ...[beforeMs, max],
  );
  return changes;
}

/** Makes condemned extents wait as long as those that were condemned at `timeMs`. */
export async function deferExtents(
  tx: Tx,
  ids: readonly Uint8Array[],
  timeMs: number,
): Promise<void> {
  const sql = 'UPDATE extents SET changed_ms = ? WHERE id = ? AND state = 2';
  for (const id of ids) await tx.run(sql, timeMs, id);
}

/** The sealed bytes of an inline extent. Throws IntegrityError when there is none of this id. */
export async function readInlineBody(read: Reader, id: Buffer): Promise<Uint8Array> {
  const row = await read.get<{ body: Uint8Array | null }>(
    'SELECT body FROM extents WHERE id = ?',
    id,
  );
  if (row?.body) return row.body;
  throw new IntegrityError(`inline extent ${id.toString('hex')} is missing`, { kind: 'missing' });
}
