// Reads of the sealed tables that verify what they read: on a connection that has these views, the
// name of a table stands for its rows, each verified when a statement comes to it, so that no
// statement can forget it. Whoever meets a row that is not what was sealed throws UnsealedRow;
// `sparing` readers go without it. A row that is not there is not met: `verifySeals` notices it.
import type { OpenDatabase, Reader } from '../database.ts';
import type { Keyring } from '../keyring.ts';
import { describeUnsealed, isSealed, type SealedValue, UnsealedRow } from './row-seal.ts';
import { fieldsOf, type SealedTable, sealedTables, sqlOf } from './sealed-tables.ts';

/** From now on, all that the connection reads of sealed tables is verified. */
export function verifyReads(db: OpenDatabase, keyring: Keyring): void {
  let spares = false;
  db.define('bursar_is_sealed', (index, tenant, row, epoch, mac, ...values) => {
    const table = sealedTables[index as number] as SealedTable;
    if (isSealed(keyring, table, { epoch, mac }, values as SealedValue[])) return 1;
    if (spares) return 0;
    const place = { tenant: String(tenant), row: String(row) };
    const fault = mac === null ? 'added' : 'altered';
    throw new UnsealedRow(describeUnsealed(table, { ...place, fault }));
  });
  for (const [i, table] of sealedTables.entries()) db.exec(viewOf(table, i));
  db.prepareAgain();
  const { tx } = db;
  const sparing = <T>(read: () => Promise<T>): Promise<T> => {
    spares = true;
    try {
      // The statement has run when this returns (core/database.ts).
      return read();
    } finally {
      spares = false;
    }
  };
  const spared: Reader = {
    get: (sql, ...values) => sparing(() => tx.get(sql, ...values)),
    all: (sql, ...values) => sparing(() => tx.all(sql, ...values)),
  };
  tx.sparing = spared;
}

function viewOf(table: SealedTable, index: number): string {
  const { name } = table;
  const [tenant, row, fields] = [
    ...[sqlOf(table.tenant, 't'), sqlOf(table.row, 't'), fieldsOf(table, 't')],
  ].map((sql) => sql.replaceAll('FROM buckets', 'FROM main.buckets'));
  const seal = (column: string) =>
    `(SELECT ${column} FROM main.seals AS s
        WHERE s.tbl = '${name}' AND s.tenant = ${tenant} AND s.row = ${row})`;
  return `CREATE TEMP VIEW ${name} AS SELECT t.* FROM main.${name} AS t WHERE
    bursar_is_sealed(${index}, ${tenant}, ${row}, ${seal('epoch')}, ${seal('mac')}, ${fields})`;
}
