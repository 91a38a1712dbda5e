// Erasing records: salt, text and evidence go, the leaf stays. Invariants: a record is erased by an
// act that is itself a record and names it; what is erased is erased whole, in the transaction of that
// act; and the log's tree does not change by it.
import type { Reader } from '../core/database.ts';

export const erasureSchema = `
CREATE TABLE erasures (            -- records that were erased, for ever
  idx INTEGER PRIMARY KEY,
  by_idx INTEGER NOT NULL          -- the record of the act
);
CREATE INDEX erasures_by_act ON erasures (by_idx);
`;

/** The first act behind the record `afterIndex` that erased something, and what. */
export async function readNextErasure(
  read: Reader,
  afterIndex: number,
): Promise<{ byIndex: number; indexes: number[] } | undefined> {
  const sql = 'SELECT by_idx AS byIndex FROM erasures WHERE by_idx > ? ORDER BY by_idx LIMIT 1';
  const next = await read.get<{ byIndex: number }>(sql, afterIndex);
  if (!next) return undefined;
  const rows = await read.all<{ idx: number }>(
    'SELECT idx FROM erasures WHERE by_idx = ? ORDER BY idx',
    next.byIndex,
  );
  return { byIndex: next.byIndex, indexes: rows.map(({ idx }) => idx) };
}
