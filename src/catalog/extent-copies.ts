// Where the copies of extents are that are in several stores, as classes of several legs have them.
// An extent without rows here is in one store alone, which its own row names; one with rows has a
// row for each store, that one included. Invariants: a copy is declared before a byte of it goes to
// its store; it is good only after it was read back, or was acknowledged by its store as a write
// is; and what is still to be made is known from the very commit that acknowledges the write.
import type { Reader, Tx } from '../core/database.ts';
import { localStoreName } from '../core/manifest.ts';
import type { Outcome } from './outcome.ts';
import { noStorage } from './outcome.ts';

/** `due`: to be made; `suspect`: what was read of it is not what was written. */
export const copyState = { intent: 0, good: 1, due: 2, suspect: 3 } as const;

/** A copy that is to be made, or made again. */
export interface CopyWork {
  id: Buffer;
  store: number;
  state: number;
  /** Since when it is, ms. */
  changedMs: number;
  tries: number;
  /** 0: its extent is not in use any more, and waits for the sweeper. */
  isAlive: number;
  /** Whose the extent is. */
  tenant: string | null;
}

export interface NamedCopy {
  id: Uint8Array;
  store: number;
}

/** Declares that the extents may come to be in all these stores. */
export async function declareCopies(
  tx: Tx,
  {
    ids,
    stores,
    timeMs,
  }: { ids: readonly Uint8Array[]; stores: readonly number[]; timeMs: number },
): Promise<void> {
  const sql = 'INSERT INTO extent_copies VALUES (?, ?, 0, ?, 0, 0)';
  for (const id of ids) for (const store of stores) await tx.run(sql, id, store, timeMs);
}

/**
 * A write has become durable: of each extent `places` names the stores that have it, the one that
 * its manifest names first. What is missing in others is due from now on.
 */
export async function adoptCopies(
  tx: Tx,
  ids: readonly Uint8Array[],
  places: readonly (readonly number[])[],
  timeMs: number,
): Promise<void> {
  for (const [i, id] of ids.entries()) {
    const stores = places[i] ?? [];
    const list = JSON.stringify(stores);
    await tx.run(
      `UPDATE extent_copies SET changed_ms = ?, due_ms = ?,
         state = CASE WHEN store IN (SELECT value FROM json_each(?)) THEN 1 ELSE 2 END
         WHERE extent_id = ?`,
      ...[timeMs, timeMs, list, id],
    );
    await tx.run('UPDATE extents SET store = ? WHERE id = ?', stores[0] as number, id);
  }
}

/** Enters copies that are in stores already, and those that the class wants besides. */
export async function enterCopies(
  tx: Tx,
  id: Uint8Array,
  { good, due }: { good: readonly number[]; due: readonly number[] },
  timeMs: number,
): Promise<void> {
  // A backup may have the id as one that was declared, and not used yet.
  const sql = `INSERT INTO extent_copies VALUES (?, ?, ?, ?, ?, 0)
    ON CONFLICT (extent_id, store) DO UPDATE SET state = excluded.state,
      changed_ms = excluded.changed_ms, due_ms = excluded.due_ms WHERE state = 0`;
  for (const store of good) await tx.run(sql, id, store, copyState.good, timeMs, timeMs);
  for (const store of due) await tx.run(sql, id, store, copyState.due, timeMs, timeMs);
}

/** The stores that have rows of an extent, whatever their state; none: it is in one alone. */
export async function listCopyStores(read: Reader, id: Uint8Array): Promise<number[]> {
  const sql = 'SELECT store FROM extent_copies WHERE extent_id = ? ORDER BY store';
  return (await read.all<{ store: number }>(sql, id)).map(({ store }) => store);
}

/** Whether an extent was written for several stores. */
export async function hasCopies(read: Reader, id: Uint8Array): Promise<boolean> {
  const sql = 'SELECT 1 FROM extent_copies WHERE extent_id = ? LIMIT 1';
  return (await read.get(sql, id)) !== undefined;
}

/**
 * The stores that may have the bytes: those that are good first, the one that the write named
 * before the others, and last those where a copy is due, which may be there already, unless the
 * process ended before that was noted.
 */
export async function listReadable(read: Reader, id: Uint8Array): Promise<number[]> {
  const rows = await read.all<{ store: number }>(
    `SELECT store FROM extent_copies WHERE extent_id = ? AND state >= 1
       ORDER BY state = 2, state,
         store IS NOT (SELECT store FROM extents WHERE id = extent_id), store`,
    id,
  );
  return rows.map(({ store }) => store);
}

/** The stores whose copies are good. */
export async function listGood(read: Reader, id: Uint8Array): Promise<number[]> {
  const sql = 'SELECT store FROM extent_copies WHERE extent_id = ? AND state = 1 ORDER BY store';
  return (await read.all<{ store: number }>(sql, id)).map(({ store }) => store);
}

/** Copies that are due by now, those that wait longest first. */
export function listCopyWork(read: Reader, dueMs: number, max: number): Promise<CopyWork[]> {
  return read.all<CopyWork>(
    `SELECT extent_id AS id, c.store, c.state, c.changed_ms AS changedMs, tries,
         e.state IS 1 AS isAlive, e.tenant
       FROM (SELECT * FROM extent_copies WHERE state >= 2 AND due_ms <= ?
         ORDER BY due_ms LIMIT ?) AS c LEFT JOIN extents AS e ON e.id = extent_id
       ORDER BY due_ms`,
    ...[dueMs, max],
  );
}

/** A copy that is to be made, or made again, as whoever may see it is told. */
export interface WaitingCopy extends CopyWork {
  dueMs: number;
  /** The name of the store. */
  place: string;
}

export interface CopyPlace {
  dueMs: number;
  id: Uint8Array;
  store: number;
}

const waitingSql = (which: string) => `SELECT extent_id AS id, c.store, c.state,
    c.changed_ms AS changedMs, c.due_ms AS dueMs, tries, e.state IS 1 AS isAlive, e.tenant,
    coalesce(s.name, '${localStoreName}') AS place
  FROM (SELECT * FROM extent_copies WHERE state >= 2 AND ${which}) AS c
  LEFT JOIN extents AS e ON e.id = extent_id LEFT JOIN stores AS s ON s.number = c.store`;

/** Of all tenants, those that are due first, behind `after`. */
export function listWaiting(
  read: Reader,
  after: CopyPlace | null,
  max: number,
): Promise<WaitingCopy[]> {
  const { dueMs, id, store } = after ?? { dueMs: -1, id: Buffer.alloc(0), store: 0 };
  const order = 'due_ms, extent_id, store';
  return read.all<WaitingCopy>(
    `${waitingSql(`(${order}) > (?, ?, ?) ORDER BY ${order} LIMIT ?`)}
       ORDER BY c.due_ms, extent_id, c.store`,
    ...[dueMs, id, store, max],
  );
}

/** Those of an extent. */
export function listWaitingOf(read: Reader, id: Uint8Array): Promise<WaitingCopy[]> {
  return read.all<WaitingCopy>(`${waitingSql('extent_id = ?')} ORDER BY c.store`, id);
}

/** What waits of an extent is tried at once; how long it waits after that is as before. */
export interface RetryCopies {
  kind: 'retryCopies';
  id: Uint8Array;
}

export async function retryCopies(tx: Tx, id: Uint8Array, timeMs: number): Promise<number> {
  const sql = `UPDATE extent_copies SET due_ms = min(due_ms, ?)
    WHERE extent_id = ? AND state >= 2`;
  return (await tx.run(sql, timeMs, id)).changes;
}

/**
 * The extents of objects that a store is to have, behind `after`, by id. Packs of records are none:
 * they are the gateway's own.
 */
export async function listStoredIn(
  read: Reader,
  store: number,
  after: Uint8Array,
  max: number,
): Promise<Buffer[]> {
  const rows = await read.all<{ id: Buffer }>(
    `SELECT id FROM (
       SELECT id FROM extents
         WHERE id > ? AND store = ? AND state = 1 AND substr(tenant, 1, 1) <> '_'
       UNION SELECT extent_id FROM extent_copies AS c JOIN extents AS e ON e.id = extent_id
         WHERE extent_id > ? AND c.store = ? AND c.state = 1 AND e.state = 1
     ) ORDER BY id LIMIT ?`,
    ...[after, store, after, store, max],
  );
  return rows.map(({ id }) => id);
}

/** Whether a store is to have the extent, for objects that are there. */
export async function isStoredIn(read: Reader, store: number, id: Uint8Array): Promise<boolean> {
  const found = await read.get(
    `SELECT 1 FROM extents AS e WHERE id = ? AND state = 1 AND (store = ? OR EXISTS (
       SELECT 1 FROM extent_copies WHERE extent_id = e.id AND store = ?))`,
    ...[id, store, store],
  );
  return found !== undefined;
}

/** Whether there is a row of the extent, of whatever state. */
export async function isKnownExtent(read: Reader, id: Uint8Array): Promise<boolean> {
  return (await read.get('SELECT 1 FROM extents WHERE id = ?', id)) !== undefined;
}

/** Up to `max` copies of a store that were to be made again later are due at once. */
export async function hastenCopies(
  tx: Tx,
  store: number,
  timeMs: number,
  max: number,
): Promise<number> {
  // By the index of work, whose order is that of the time when it is due.
  const sql = `UPDATE extent_copies SET due_ms = ?, tries = 0
    WHERE (extent_id, store) IN (SELECT extent_id, store FROM extent_copies
      WHERE state >= 2 AND due_ms > ? AND state = 3 AND store = ? LIMIT ?)`;
  return (await tx.run(sql, timeMs, timeMs, store, max)).changes;
}

/** Whether objects have the extent. */
export async function isInUse(read: Reader, id: Uint8Array): Promise<boolean> {
  const sql = 'SELECT 1 AS found FROM extents WHERE id = ? AND state = 1';
  return (await read.get(sql, id)) !== undefined;
}

/** Counted up to here: beyond it the numbers say only that there is more. */
const countedMax = 10_000;

/** How many copies are to be made, and made again. */
export async function countCopyWork(read: Reader): Promise<{ due: number; suspect: number }> {
  const row = await read.get<{ due: number; suspect: number }>(
    `SELECT count(*) FILTER (WHERE state = 2) AS due, count(*) FILTER (WHERE state = 3) AS suspect
       FROM (SELECT state FROM extent_copies WHERE state >= 2 LIMIT ?)`,
    countedMax,
  );
  return row ?? { due: 0, suspect: 0 };
}

/** Of the copies that are due first, so many are looked at. */
const lookedAtMax = 1000;

/** Since when the copy waits that waits longest, of extents that objects have; null: none does. */
export async function oldestCopyMs(read: Reader): Promise<number | null> {
  const row = await read.get<{ changedMs: number | null }>(
    `SELECT min(c.changed_ms) AS changedMs FROM (SELECT extent_id, changed_ms FROM extent_copies
         WHERE state >= 2 ORDER BY due_ms LIMIT ?) AS c
       JOIN extents AS e ON e.id = c.extent_id AND e.state = 1`,
    lookedAtMax,
  );
  return row?.changedMs ?? null;
}

/** Copies that could not be made wait. */
export async function deferCopies(
  tx: Tx,
  copies: readonly (NamedCopy & { dueMs: number })[],
): Promise<number> {
  const sql = `UPDATE extent_copies SET due_ms = ?, tries = tries + 1
    WHERE extent_id = ? AND store = ? AND state >= 2`;
  let count = 0;
  for (const { id, store, dueMs } of copies) {
    count += (await tx.run(sql, dueMs, id, store)).changes;
  }
  return count;
}

/** Copies that are in their stores and were read back. */
export async function noteMade(
  tx: Tx,
  made: readonly NamedCopy[],
  timeMs: number,
): Promise<number> {
  const sql = `UPDATE extent_copies SET state = 1, changed_ms = ?, tries = 0
    WHERE extent_id = ? AND store = ? AND state >= 2`;
  let count = 0;
  for (const { id, store } of made) count += (await tx.run(sql, timeMs, id, store)).changes;
  return count;
}

/** What was found of good copies: what is not what was written, or is not there. */
export interface SuspectCopies {
  kind: 'suspectCopies';
  copies: readonly NamedCopy[];
}

export async function suspectCopies(
  tx: Tx,
  { copies }: SuspectCopies,
  { timeMs }: { timeMs: number },
): Promise<Outcome<null>> {
  const sql = `UPDATE extent_copies SET state = 3, changed_ms = ?, due_ms = ?, tries = 0
    WHERE extent_id = ? AND store = ? AND state = 1`;
  for (const { id, store } of copies) await tx.run(sql, timeMs, timeMs, id, store);
  return { ok: true, storage: noStorage, result: null };
}

/** Suspect copies that were made again from good ones. */
export interface RepairCopies {
  kind: 'repairCopies';
  copies: readonly NamedCopy[];
}

export async function repairCopies(
  tx: Tx,
  { copies }: RepairCopies,
  { timeMs }: { timeMs: number },
): Promise<Outcome<null>> {
  await noteMade(tx, copies, timeMs);
  return { ok: true, storage: noStorage, result: null };
}
