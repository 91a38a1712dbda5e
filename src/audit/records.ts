// Runs of records, in the order of the log, as the ledger's own housekeeping reads them. Invariant:
// what is given is what was recorded; what is not, or is not there, is named.
import type { Reader } from '../core/database.ts';
import type { AlteredRow } from './altered-records.ts';
import { recordContent, textOfContent } from './leaf.ts';

export interface TrueRun {
  /** Canonical texts. */
  records: string[];
  altered: AlteredRow[];
  /** The index after the last; null: there are none yet. */
  end: number | null;
}

/** Up to `max` records from the index on. None of them has been erased or archived yet. */
export async function readTrueRecords(read: Reader, from: number, max: number): Promise<TrueRun> {
  const rows = await read.all<{ index: number; content: Buffer | null }>(
    `SELECT idx AS "index", ${recordContent} AS content
       FROM records WHERE idx >= ? ORDER BY idx LIMIT ?`,
    from,
    max,
  );
  const run: TrueRun = { records: [], altered: [], end: null };
  let next = from;
  for (const { index, content } of rows) {
    // The log has no gaps.
    for (; next < index && run.altered.length < max; next++) {
      run.altered.push({ index: next, tenant: null, bucketTenant: null });
    }
    next = index + 1;
    const text = content ? textOfContent(index, content) : undefined;
    if (text === undefined) run.altered.push({ index, ...(await readTenants(read, index)) });
    else run.records.push(text);
  }
  return { ...run, end: rows.length > 0 ? next : null };
}

/** The tenants that a record belongs to, by its row. */
async function readTenants(read: Reader, index: number): Promise<Omit<AlteredRow, 'index'>> {
  const sql = 'SELECT tenant, bucket_tenant AS bucketTenant FROM records WHERE idx = ?';
  const row = await read.get<Omit<AlteredRow, 'index'>>(sql, index);
  return row ?? { tenant: null, bucketTenant: null };
}
