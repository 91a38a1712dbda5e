// Seals each row of the sealed tables as it is written, on the one connection that writes: by
// triggers of that connection, so that no statement can forget it, and none that others run does
// it. Invariant: a row is changed or removed only where it is what was sealed, and made only where
// none was sealed; whatever else is in the way is an UnsealedRow, and the transaction is to be
// rolled back.

import type { OpenDatabase, SqlValue } from '../database.ts';
import type { Keyring } from '../keyring.ts';
import { getOrMake } from '../maps.ts';
import {
  DigestBlocks,
  describeUnsealed,
  digestBytes,
  isSealed,
  type SealedValue,
  sealRow,
  type Unsealed,
  UnsealedRow,
} from './row-seal.ts';
import { columnsOf, fieldsOf, type SealedTable, sealedTables, sqlOf } from './sealed-tables.ts';

export const sealSchema = `
CREATE TABLE seals (               -- of rows that say who there is, who may what and how much
  tbl TEXT NOT NULL,
  tenant TEXT NOT NULL,            -- whose rights the row is about
  row TEXT NOT NULL,               -- its name among the tenant's rows of the table
  epoch INTEGER NOT NULL,          -- of the root key that the MAC is made under
  mac BLOB NOT NULL,
  PRIMARY KEY (tbl, tenant, row)
) WITHOUT ROWID;

CREATE TABLE seal_heads (          -- which seals there are of a tenant
  tenant TEXT PRIMARY KEY,
  digest BLOB NOT NULL             -- sealed
) WITHOUT ROWID;

CREATE TABLE seal_roots (          -- which accounts there are of a tenant
  tenant TEXT PRIMARY KEY,         -- '': of accounts of no tenant; *: which there are of all
  epoch INTEGER NOT NULL,
  mac BLOB NOT NULL                -- where the newest record has another, that one is it
) WITHOUT ROWID;
`;

export class SealTriggers {
  readonly #db: OpenDatabase;
  readonly #keyring: Keyring;
  readonly #blocks: DigestBlocks;
  /** By tenant: what the transaction changed of the digest. */
  readonly #changes = new Map<string, Uint8Array>();

  constructor(db: OpenDatabase, keyring: Keyring) {
    this.#db = db;
    this.#keyring = keyring;
    this.#blocks = new DigestBlocks(keyring);
    this.#define();
    // Where a row takes the place of another, the deletion of that must fire its trigger.
    db.exec('PRAGMA recursive_triggers = ON');
    for (const [i, table] of sealedTables.entries()) db.exec(triggersOf(table, i));
  }

  /** Whether the transaction changed any row of a sealed table. */
  get hasChanges(): boolean {
    return this.#changes.size > 0;
  }

  /**
   * What the transaction changed of the tenants' digests, before it is committed. Throws where the
   * database itself does something when it is written, which no Bursar had it do: what that changed
   * would have been sealed with the rest.
   */
  async takeChanges(): Promise<ReadonlyMap<string, Uint8Array>> {
    const foreign = await this.#db.tx.get<{ type: string; name: string }>(
      "SELECT type, name FROM main.sqlite_schema WHERE type IN ('trigger', 'view')",
    );
    if (foreign) {
      const what = `the database has a ${foreign.type} that is not Bursar's: ${foreign.name}`;
      const place = { table: '', tenant: '', row: foreign.name };
      throw new UnsealedRow({ ...place, fault: 'added', scope: null, what });
    }
    const taken = new Map(this.#changes);
    this.#changes.clear();
    return taken;
  }

  /** To be called after a rollback. */
  discard(): void {
    this.#changes.clear();
  }

  #define(): void {
    const { define } = this.#db;
    define('bursar_epoch', () => this.#keyring.currentEpoch);
    define('bursar_seal', (index, tenant, ...values) => {
      const epoch = this.#keyring.currentEpoch;
      const row = { epoch, values: values as SealedValue[] };
      const mac = sealRow(this.#keyring, tableAt(index), row);
      this.#fold(tenant as string, epoch, mac);
      return mac;
    });
    define('bursar_unseal', (index, tenant, row, epoch, mac, ...values) => {
      const table = tableAt(index);
      const place = { tenant: tenant as string, row: row as string };
      if (!isSealed(this.#keyring, table, { epoch, mac }, values as SealedValue[])) {
        throw notSealed(table, { ...place, fault: mac === null ? 'added' : 'altered' });
      }
      this.#fold(place.tenant, epoch as number, mac as Uint8Array);
      return null;
    });
    define('bursar_sealed_before', (index, tenant, row) => {
      const place = { tenant: tenant as string, row: row as string };
      throw notSealed(tableAt(index), { ...place, fault: 'removed' });
    });
  }

  #fold(tenant: string, epoch: number, mac: Uint8Array): void {
    const change = getOrMake(this.#changes, tenant, () => new Uint8Array(digestBytes));
    this.#blocks.fold(change, epoch, mac.subarray(0, digestBytes));
  }
}

function notSealed(
  table: SealedTable,
  place: Pick<Unsealed, 'tenant' | 'row' | 'fault'>,
): UnsealedRow {
  return new UnsealedRow(describeUnsealed(table, place));
}

function tableAt(index: SqlValue | undefined): SealedTable {
  return sealedTables[index as number] as SealedTable;
}

function triggersOf(table: SealedTable, index: number): string {
  const { name } = table;
  const of = (alias: string) => ({
    tenant: sqlOf(table.tenant, alias),
    row: sqlOf(table.row, alias),
    fields: fieldsOf(table, alias),
  });
  const [before, after] = [of('OLD'), of('NEW')];
  const at = ({ tenant, row }: typeof before) =>
    `tbl = '${name}' AND tenant = ${tenant} AND row = ${row}`;
  const unseal = `
    SELECT bursar_unseal(${index}, ${before.tenant}, ${before.row},
      (SELECT epoch FROM seals WHERE ${at(before)}), (SELECT mac FROM seals WHERE ${at(before)}),
      ${before.fields});
    DELETE FROM seals WHERE ${at(before)};`;
  const seal = `
    SELECT bursar_sealed_before(${index}, ${after.tenant}, ${after.row})
      WHERE EXISTS (SELECT 1 FROM seals WHERE ${at(after)});
    INSERT INTO seals VALUES ('${name}', ${after.tenant}, ${after.row}, bursar_epoch(),
      bursar_seal(${index}, ${after.tenant}, ${after.fields}));`;
  return `
    CREATE TEMP TRIGGER seal_${name}_insert AFTER INSERT ON main.${name} BEGIN ${seal} END;
    CREATE TEMP TRIGGER seal_${name}_delete AFTER DELETE ON main.${name} BEGIN ${unseal} END;
    CREATE TEMP TRIGGER seal_${name}_update AFTER UPDATE OF ${columnsOf(table)} ON main.${name}
      WHEN (${before.fields}) IS NOT (${after.fields}) BEGIN ${unseal} ${seal} END;`;
}
