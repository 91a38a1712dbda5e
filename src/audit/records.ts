// Runs of records, in the order of the log, as the ledger's own housekeeping reads them.
import type { Reader } from '../core/database.ts';

/** Up to `max` records from the index on, in log order; there are no gaps. */
export async function readRecordsFrom(read: Reader, index: number, max: number): Promise<string[]> {
  const sql = 'SELECT record FROM records WHERE idx >= ? ORDER BY idx LIMIT ?';
  return (await read.all<{ record: string }>(sql, index, max)).map(({ record }) => record);
}
