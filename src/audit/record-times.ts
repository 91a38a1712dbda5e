// When records were made. Times never go backwards in the log, so a time is a place in it.
import type { Reader } from '../core/database.ts';
import { tileWidth } from './log/merkle.ts';
import type { RecordStore } from './record-store.ts';

/**
 * The first log index whose record is not before `timeMs`; the log's size where all are. Throws as
 * `readRun` does.
 */
export async function firstSince(
  read: Reader,
  store: Pick<RecordStore, 'readRun'>,
  timeMs: number,
): Promise<number> {
  const { found, from } = await firstInDatabase(read, timeMs);
  return found > from || from === 0 ? found : firstArchived(read, store, { from, timeMs });
}

/** The last index of a record that was made up to `timeMs`, which is not older than the archive. */
export async function lastUntil(read: Reader, timeMs: number): Promise<number> {
  return (await firstInDatabase(read, timeMs + 1)).found - 1;
}

/** The first that is in the database and not before `timeMs`, and the first that is there. */
async function firstInDatabase(
  read: Reader,
  timeMs: number,
): Promise<{ found: number; from: number }> {
  const ends = await read.get<{ from: number | null; to: number | null }>(
    // Each by itself: both at once would read all.
    'SELECT (SELECT min(idx) FROM records) AS "from", (SELECT max(idx) FROM records) AS "to"',
  );
  const from = ends?.from ?? 0;
  const timeOf = async (index: number): Promise<number | undefined> => {
    const sql = 'SELECT time_ms AS timeMs FROM records WHERE idx = ?';
    return (await read.get<{ timeMs: number }>(sql, index))?.timeMs;
  };
  return { found: await search(timeOf, { from, to: (ends?.to ?? -1) + 1 }, timeMs), from };
}

/** The same for the records before `from`, which are in the archive. */
async function firstArchived(
  read: Reader,
  store: Pick<RecordStore, 'readRun'>,
  { from, timeMs }: { from: number; timeMs: number },
): Promise<number> {
  const timeOf = async (tile: number): Promise<number | undefined> => {
    const sql = 'SELECT time_ms AS timeMs FROM archived_tiles WHERE idx = ?';
    return (await read.get<{ timeMs: number }>(sql, tile))?.timeMs;
  };
  const next = await search(timeOf, { from: 0, to: from / tileWidth }, timeMs);
  if (next === 0) return 0;
  // The tile before it begins earlier; who knows when the others in it were made.
  const run = await store.readRun((next - 1) * tileWidth, tileWidth);
  const first = run.find((record) => record.timeMs >= timeMs);
  return first?.index ?? next * tileWidth;
}

/** The first of a row of times that is not before `timeMs`. */
async function search(
  timeOf: (place: number) => Promise<number | undefined>,
  { from, to }: { from: number; to: number },
  timeMs: number,
): Promise<number> {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (((await timeOf(middle)) ?? 0) < timeMs) low = middle + 1;
    else high = middle;
  }
  return low;
}
