// Runs of records, in the order of the log, as the ledger's own housekeeping reads them. Invariant:
// what is given is what was recorded; what is not, or is not there, is named.
import type { Reader } from '../core/database.ts';
import type { AlteredRow } from './altered-records.ts';
import { isRecorded } from './leaf.ts';

export interface TrueRun {
  /** Canonical texts. */
  records: string[];
  altered: AlteredRow[];
  /** Behind the last; null: there are none yet. */
  end: number | null;
}

interface Row {
  index: number;
  tenant: string;
  bucketTenant: string | null;
  commitment: Buffer;
  salt: Buffer | null;
  record: string;
}

/** Up to `max` records from the index on. None of them has been erased or archived yet. */
export async function readTrueRecords(read: Reader, from: number, max: number): Promise<TrueRun> {
  const rows = await read.all<Row>(
    `SELECT idx AS "index", tenant, bucket_tenant AS bucketTenant, commitment, salt, record
       FROM records WHERE idx >= ? ORDER BY idx LIMIT ?`,
    from,
    max,
  );
  const run: TrueRun = { records: [], altered: [], end: null };
  let next = from;
  for (const { index, tenant, bucketTenant, commitment, salt, record } of rows) {
    // The log has no gaps.
    for (; next < index && run.altered.length < max; next++) {
      run.altered.push({ index: next, tenant: null, bucketTenant: null });
    }
    next = index + 1;
    if (salt && isRecorded(index, { commitment, salt, record })) run.records.push(record);
    else run.altered.push({ index, tenant, bucketTenant });
  }
  return { ...run, end: rows.length > 0 ? next : null };
}
