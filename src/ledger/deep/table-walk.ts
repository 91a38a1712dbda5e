// Walks through a table in the order of its primary key, a page at a time. Invariant: it ends,
// whatever the keys are: integers beyond those of JavaScript, which are read as others, do not have
// it begin anew.
import type { Reader, SqlValue } from '../../core/database.ts';

export interface Walked {
  columns: string;
  /** Table, and a condition that its rows meet, if any. */
  from: string;
  where?: string;
  /** Of the primary key, in its order. */
  keys: readonly string[];
}

const rowsPerPage = 1000;

export async function* walkTable<R>(
  read: Reader,
  { columns, from, where = '1', keys }: Walked,
): AsyncGenerator<R> {
  const named = keys.map((key, i) => `${key} AS walked${i}`);
  const order = keys.join(', ');
  const select = `SELECT ${[...named, columns].join(', ')} FROM ${from} WHERE ${where}`;
  const next = `${select} AND (${order}) > (${keys.map(() => '?').join(', ')})`;
  const page = (sql: string, ...after: SqlValue[]) =>
    read.all<Record<string, SqlValue>>(`${sql} ORDER BY ${order} LIMIT ${rowsPerPage}`, ...after);
  let rows = await page(select);
  for (let last = rows.at(-1); last; last = rows.at(-1)) {
    yield* rows as R[];
    const after = keys.map((_, i) => (last as Record<string, SqlValue>)[`walked${i}`] ?? null);
    rows = await page(next, ...after);
    const isSame = keys.every((_, i) =>
      isEqual(rows.at(-1)?.[`walked${i}`] ?? null, after[i] ?? null),
    );
    if (rows.length > 0 && isSame)
      throw new Error(`rows of ${from} have keys that no gateway gives`);
  }
}

function isEqual(a: SqlValue, b: SqlValue): boolean {
  const areBytes = a instanceof Uint8Array && b instanceof Uint8Array;
  return areBytes ? Buffer.compare(a, b) === 0 : a === b;
}
