// The records' table as admins and auditors search it; the ledger appends to it (record-log.ts).
import type { Reader, SqlValue } from '../core/database.ts';
import { textSuccessor } from '../core/text-order.ts';

/** Up to `max` records from the index on, in log order; there are no gaps. */
export async function readRecordsFrom(read: Reader, index: number, max: number): Promise<string[]> {
  const sql = 'SELECT record FROM records WHERE idx >= ? ORDER BY idx LIMIT ?';
  return (await read.all<{ record: string }>(sql, index, max)).map(({ record }) => record);
}

export interface RecordQuery {
  /** What concerns this tenant: by its principals, or about its buckets. Null: everything. */
  tenant: string | null;
  /** And this one too. */
  otherTenant?: string | undefined;
  /** Only by principals of this tenant. */
  requesterTenant?: string | undefined;
  /** Only by principals of this name. */
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

/**
 * Records that one call looks at, fitting or not: on the thread that serves everybody this takes
 * some milliseconds, however long the log is and however little fits.
 */
const examinedMax = 10_000;

/**
 * Records in log order, and the index to go on from when there may be more. A page can be empty and
 * still have one to go on from: then nothing fitted among the records that were looked at.
 */
export async function searchRecords(
  read: Reader,
  query: RecordQuery,
): Promise<{ records: string[]; nextIndex: number | null }> {
  const span = await spanOf(read, query);
  if (span.after >= span.last) return { records: [], nextIndex: null };
  const runs = runsOf(query);
  const end = await endOfStep(read, runs, span);
  const where = ['idx > ?', 'idx <= ?'];
  const values: SqlValue[] = [span.after, end];
  const demand = (condition: string, ...wanted: (SqlValue | undefined | null)[]): void => {
    const given = wanted.filter((value) => value !== undefined && value !== null);
    if (given.length < wanted.length) return;
    where.push(condition);
    values.push(...given);
  };
  demand('(tenant = ? OR bucket_tenant = ?)', query.otherTenant, query.otherTenant);
  demand('tenant = ?', query.requesterTenant);
  demand('principal = ?', query.principal);
  demand('bucket = ?', query.bucket);
  demand('action = ?', query.action);
  if (query.prefix) {
    demand('key >= ?', query.prefix);
    demand('key < ?', textSuccessor(query.prefix));
  }
  // The set of texts is finite (one per combination of filters), so statements can be kept. Each run
  // comes in the order of its index, and they are merged.
  const condition = where.join(' AND ');
  const parts = runs.map(({ column }) => `${column} = ? AND ${condition}`);
  const selects = (parts.length === 0 ? [condition] : parts).map(
    (part) => `SELECT idx, record FROM records WHERE ${part}`,
  );
  const sql = `${selects.join(' UNION ALL ')} ORDER BY idx LIMIT ?`;
  const bound = runs.length === 0 ? values : runs.flatMap(({ tenant }) => [tenant, ...values]);
  const rows = await read.all<{ idx: number; record: string }>(sql, ...bound, query.limit);
  const last = rows.length === query.limit ? (rows.at(-1)?.idx ?? end) : end;
  return {
    records: rows.map((row) => row.record),
    nextIndex: last < span.last ? last : null,
  };
}

/** A part of the log that an index leads through. */
interface Run {
  column: 'tenant' | 'bucket_tenant';
  tenant: string;
}

/**
 * The runs that have all of a query's records, each once: `bucket_tenant` is never the record's own
 * tenant. None: the whole log.
 */
function runsOf({ tenant, requesterTenant }: RecordQuery): Run[] {
  if (tenant === null) return [];
  const own: Run = { column: 'tenant', tenant };
  return requesterTenant === tenant ? [own] : [own, { column: 'bucket_tenant', tenant }];
}

/** Log indexes that are asked for: `after` exclusive, `last` inclusive. */
interface Span {
  after: number;
  last: number;
}

async function spanOf(read: Reader, query: RecordQuery): Promise<Span> {
  const newest = await read.get<{ idx: number | null }>('SELECT max(idx) AS idx FROM records');
  const span = { after: query.afterIndex ?? -1, last: newest?.idx ?? -1 };
  const { fromMs, toMs } = query;
  if (fromMs !== undefined) {
    span.after = Math.max(span.after, (await firstSince(read, fromMs, span.last)) - 1);
  }
  if (toMs !== undefined) span.last = (await firstSince(read, toMs, span.last)) - 1;
  return span;
}

/** The first index whose record is not before `timeMs`; times never go backwards in the log. */
async function firstSince(read: Reader, timeMs: number, last: number): Promise<number> {
  let low = 0;
  let high = last + 1;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const found = await read.get<{ timeMs: number }>(
      'SELECT time_ms AS timeMs FROM records WHERE idx >= ? ORDER BY idx LIMIT 1',
      middle,
    );
    if (found && found.timeMs < timeMs) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** How far one call looks. Other tenants' records do not count: an index leads past them. */
async function endOfStep(
  read: Reader,
  runs: readonly Run[],
  { after, last }: Span,
): Promise<number> {
  if (runs.length === 0) return Math.min(after + examinedMax, last);
  let end = last;
  for (const { column, tenant } of runs) {
    const found = await read.get<{ idx: number }>(
      `SELECT idx FROM records WHERE ${column} = ? AND idx > ? AND idx <= ?
       ORDER BY idx LIMIT 1 OFFSET ?`,
      tenant,
      after,
      end,
      examinedMax - 1,
    );
    end = found?.idx ?? end;
  }
  return end;
}
