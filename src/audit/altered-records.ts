// Records that were found not to be what was recorded: whoever shows one again, or adds them up,
// knows of them by this table. Invariant: it only says where to look; each is compared with its
// commitment again before anything is said of it.
import type { Reader, Tx } from '../core/database.ts';
import { recordContent, textOfContent } from './leaf.ts';

export const alteredSchema = `
CREATE TABLE altered_records (     -- found not to be what was recorded; not in usage_days
  idx INTEGER PRIMARY KEY,
  tenant TEXT,                     -- whose it was by its row; null: its row is not there
  bucket_tenant TEXT               -- of the bucket, where that is another
);
`;

export interface AlteredRow {
  index: number;
  tenant: string | null;
  bucketTenant: string | null;
}

/** Harmless for one that is known. */
export async function noteAltered(tx: Tx, rows: readonly AlteredRow[]): Promise<void> {
  for (const { index, tenant, bucketTenant } of rows) {
    const sql = 'INSERT OR IGNORE INTO altered_records VALUES (?, ?, ?)';
    await tx.run(sql, index, tenant, bucketTenant);
  }
}

/** `tenant`: that may see them; null: anybody's. One that is nobody's is everybody's concern. */
export interface AlteredQuery {
  from: number;
  to: number;
  tenant: string | null;
  max: number;
}

const isConcerned = '(? IS NULL OR tenant IS NULL OR tenant = ? OR bucket_tenant = ?)';

export async function listAltered(
  read: Reader,
  { from, to, tenant, max }: AlteredQuery,
): Promise<number[]> {
  const sql = `SELECT idx FROM altered_records
    WHERE idx >= ? AND idx < ? AND ${isConcerned} ORDER BY idx LIMIT ?`;
  const rows = await read.all<{ idx: number }>(sql, from, to, tenant, tenant, tenant, max);
  return rows.map(({ idx }) => idx);
}

/** Of those before `end`. */
export async function countAltered(read: Reader, tenant: string, end: number): Promise<number> {
  const sql = `SELECT count(*) AS count FROM altered_records WHERE idx < ? AND ${isConcerned}`;
  return (await read.get<{ count: number }>(sql, end, tenant, tenant, tenant))?.count ?? 0;
}

/** Records in the order of the log: what was recorded, and the names of those that are altered. */
interface TrueRun {
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
