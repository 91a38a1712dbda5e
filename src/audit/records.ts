// The records' table: appended to by the ledger alone, searched by admins and auditors.
import type { Reader, SqlValue, Tx } from '../core/database.ts';
import { textSuccessor } from '../core/text-order.ts';
import { type RecordDraft, type RecordSeal, renderRecord } from './record.ts';

/** Appends one record at `seal.index`. */
export async function appendRecord(tx: Tx, draft: RecordDraft, seal: RecordSeal): Promise<void> {
  await tx.run(
    'INSERT INTO records VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
    seal.index,
    seal.timeMs,
    draft.tenant,
    draft.principal,
    draft.action,
    draft.bucket ?? null,
    draft.key ?? null,
    renderRecord(draft, seal),
  );
}

export interface RecordQuery {
  /** Null: all tenants. */
  tenant: string | null;
  principal?: string | undefined;
  bucket?: string | undefined;
  prefix?: string | undefined;
  action?: string | undefined;
  /** Milliseconds since the epoch; `from` inclusive, `to` exclusive. */
  fromMs?: number | undefined;
  toMs?: number | undefined;
  /** Only records after this log index. */
  afterIndex?: number | undefined;
  limit: number;
}

/** Records in log order, and the index to go on from when there may be more. */
export async function searchRecords(
  read: Reader,
  query: RecordQuery,
): Promise<{ records: string[]; nextIndex: number | null }> {
  const where = ['idx > ?'];
  const values: SqlValue[] = [query.afterIndex ?? -1];
  const demand = (condition: string, value: SqlValue | undefined | null): void => {
    if (value === undefined || value === null) return;
    where.push(condition);
    values.push(value);
  };
  demand('tenant = ?', query.tenant);
  demand('principal = ?', query.principal);
  demand('bucket = ?', query.bucket);
  demand('action = ?', query.action);
  demand('time_ms >= ?', query.fromMs);
  demand('time_ms < ?', query.toMs);
  if (query.prefix) {
    demand('key >= ?', query.prefix);
    demand('key < ?', textSuccessor(query.prefix));
  }
  // The set of texts is finite (one per combination of filters), so statements can be kept.
  const sql = `SELECT idx, record FROM records WHERE ${where.join(' AND ')} ORDER BY idx LIMIT ?`;
  const rows = await read.all<{ idx: number; record: string }>(sql, ...values, query.limit);
  const last = rows.at(-1);
  return {
    records: rows.map((row) => row.record),
    nextIndex: last && rows.length === query.limit ? last.idx : null,
  };
}
