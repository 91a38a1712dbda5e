// What waits in the catalog to be done later, for the instruments. Invariant: however much waits, a
// look costs a bounded walk along an index: beyond a bound nobody counts, and the age still tells.
import type { Reader } from '../core/database.ts';
import { extentState } from './extents.ts';

export interface Backlog {
  /** No more than was asked for. */
  count: number;
  /** Since when the oldest waits; null: nothing does. */
  oldestMs: number | null;
}

/** `SELECT` of times, oldest first; only literals that are here go into it. */
const backlogOf = (times: string): string =>
  `SELECT count(*) AS count, min(timeMs) AS oldestMs FROM (${times} LIMIT ?)`;

/**
 * Literals: SQLite chooses the index of extents that are not alive only where it sees the state.
 */
const extentsIn = (state: number): string =>
  backlogOf(`SELECT changed_ms AS timeMs FROM extents
    WHERE state <> 1 AND state = ${state} AND store = ? ORDER BY changed_ms`);
const condemned = extentsIn(extentState.condemned);
const intents = extentsIn(extentState.intent);

/** A store's extents that wait for the sweeper. */
export function readCondemned(read: Reader, store: number, max: number): Promise<Backlog> {
  return readOne(read, condemned, store, max);
}

/** Extents that may still be being written, or that were given up. */
export function readIntents(read: Reader, store: number, max: number): Promise<Backlog> {
  return readOne(read, intents, store, max);
}

const untold = backlogOf('SELECT time_ms AS timeMs FROM outbox WHERE store = ? ORDER BY seq');

/** Changes that the journal of a store does not have yet. */
export function readUntold(read: Reader, store: number, max: number): Promise<Backlog> {
  return readOne(read, untold, store, max);
}

/** Versions that ended, whose extents are still to be let go of. */
export async function countEnded(read: Reader, max: number): Promise<number> {
  const sql = 'SELECT count(*) AS count FROM (SELECT 1 FROM ended_versions LIMIT ?)';
  return (await read.get<{ count: number }>(sql, max))?.count ?? 0;
}

async function readOne(read: Reader, sql: string, store: number, max: number): Promise<Backlog> {
  return (await read.get<Backlog>(sql, store, max)) ?? { count: 0, oldestMs: null };
}
