// Rows that the one connection that writes goes by, verified where they are not those that it found
// authentic before: nearly always a comparison in memory.
import type { OpenDatabase, Reader, SqlValue, VerifiesRows } from '../database.ts';
import type { Keyring } from '../keyring.ts';
import { describeUnsealed, isSealed, type SealedValue, UnsealedRow } from './row-seal.ts';
import { type SealedTable, sealedTables, sqlOf } from './sealed-tables.ts';

/** Beyond it the memory begins again. */
const knownMax = 10_000;

export class VerifiedRows implements VerifiesRows {
  readonly #db: Pick<OpenDatabase, 'dataVersion'>;
  readonly #read: Reader;
  readonly #keyring: Keyring;
  readonly #known = new Map<string, readonly SealedValue[]>();
  /** What `verifyOnce` has verified, as long as nobody else has written. */
  readonly #verified = new Set<string>();
  #dataVersion: number | null = null;

  constructor(db: Pick<OpenDatabase, 'tx' | 'dataVersion'>, keyring: Keyring) {
    this.#db = db;
    this.#read = db.tx;
    this.#keyring = keyring;
  }

  /**
   * After what is sealed was changed, or was not after all: what was authentic before need not be
   * now.
   */
  forget(): void {
    this.#known.clear();
  }

  /** After a rollback, also what was verified of rows that are as they were before. */
  discard(): void {
    this.forget();
    this.#verified.clear();
  }

  /**
   * What this connection writes is sealed with it: so rows that were authentic, and of which none
   * was missing, stay so until another one writes.
   */
  async verifyOnce(what: string, verify: () => Promise<void>): Promise<void> {
    const dataVersion = this.#db.dataVersion();
    if (dataVersion !== this.#dataVersion || this.#verified.size >= knownMax) {
      this.#verified.clear();
    }
    this.#dataVersion = dataVersion;
    if (this.#verified.has(what)) return;
    await verify();
    this.#verified.add(what);
  }

  /** The row has the columns of its table, of one whose fields and names are columns. */
  async verify(name: string, row: Readonly<Record<string, unknown>>): Promise<void> {
    const table = tableOf(name);
    const values = table.fields.map(([column]) => row[column] as SealedValue);
    const [tenant, rowName] = [table.tenant, table.row].map((sql) => String(row[sql.slice(2)]));
    const place = { tenant: tenant as string, row: rowName as string };
    const id = `${name} ${place.tenant}/${place.row}`;
    const known = this.#known.get(id);
    if (known?.every((value, i) => value === values[i])) return;
    const seal = await this.#read.get<{ epoch: number; mac: Uint8Array }>(
      'SELECT epoch, mac FROM seals WHERE tbl = ? AND tenant = ? AND row = ?',
      ...[name, place.tenant, place.row],
    );
    if (!seal || !isSealed(this.#keyring, table, seal, values)) {
      const fault = seal ? 'altered' : 'added';
      throw new UnsealedRow(describeUnsealed(table, { ...place, fault }));
    }
    if (this.#known.size >= knownMax) this.#known.clear();
    this.#known.set(id, values);
  }

  async verifyWhere(name: string, where: string, ...values: SqlValue[]): Promise<void> {
    const table = tableOf(name);
    const [tenant, row] = [sqlOf(table.tenant, 't'), sqlOf(table.row, 't')];
    const fields = table.fields.map(([sql], i) => `${sqlOf(sql, 't')} AS field${i}`);
    const found = await this.#read.all<Record<string, SealedValue>>(
      `SELECT ${tenant} AS tenant, ${row} AS row, s.epoch, s.mac, ${fields.join(', ')}
         FROM main.${name} AS t LEFT JOIN main.seals AS s
           ON s.tbl = '${name}' AND s.tenant = ${tenant} AND s.row = ${row} WHERE ${where}`,
      ...values,
    );
    for (const one of found) {
      const { epoch, mac } = one;
      const fields = table.fields.map((_, i) => one[`field${i}`] as SealedValue);
      if (isSealed(this.#keyring, table, { epoch, mac }, fields)) continue;
      const place = { tenant: String(one.tenant), row: String(one.row) };
      throw new UnsealedRow(
        describeUnsealed(table, { ...place, fault: mac === null ? 'added' : 'altered' }),
      );
    }
  }
}

function tableOf(name: string): SealedTable {
  const table = sealedTables.find((one) => one.name === name);
  if (!table) throw new Error(`rows of ${name} are not sealed`);
  return table;
}
