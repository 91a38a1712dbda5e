// Records that were found not to be what was recorded: whoever shows one again, or adds them up,
// knows of them by this table. Invariant: it only says where to look; each is compared with its
// commitment again before anything is said of it.
import type { Reader, Tx } from '../core/database.ts';

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
