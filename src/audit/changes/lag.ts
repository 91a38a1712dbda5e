// How late somebody is who follows the log.
import { nowMs } from '../../core/clock.ts';
import type { Reader } from '../../core/database.ts';

/**
 * For how long the first record behind `after` has been in the log, milliseconds; 0: there is none.
 * Where that is in the archive already it is the age of the first that is not: it is late by more.
 */
export async function readLagMs(read: Reader, after: number): Promise<number> {
  const sql = 'SELECT time_ms AS timeMs FROM records WHERE idx > ? ORDER BY idx LIMIT 1';
  const next = await read.get<{ timeMs: number }>(sql, after);
  return next ? Math.max(nowMs() - next.timeMs, 0) : 0;
}
