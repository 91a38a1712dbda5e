// Verifies all rows of the sealed tables against their seals, and the seals against the digests of
// their tenants: what was altered, added, removed, and put back to what it was before. In one
// transaction of the reader, or of a writer that nobody can be beside.
import type { OpenDatabase } from '../database.ts';
import { IntegrityError } from '../errors.ts';
import type { Keyring } from '../keyring.ts';
import {
  DigestBlocks,
  describeUnsealed,
  digestBytes,
  isSealed,
  type SealedValue,
  type Unsealed,
} from './row-seal.ts';
import { describeReplaced, SealHeads } from './seal-heads.ts';
import { fieldsOf, type SealedTable, sealedTables, sqlOf } from './sealed-tables.ts';

export interface VerifiedSeals {
  unsealed: Unsealed[];
  /** Rows that were looked at. */
  rows: number;
  heads: SealHeads;
}

/** At most so many rows are reported, unless all are asked for. */
const toldMaxDefault = 1000;
/** Seals of one tenant that are taken into its digest at once. */
const foldedAtOnce = 1024;

/**
 * Looks at every row and every seal: about five seconds for a million. Seals of a table that the
 * schema of the database does not have yet do not fit the digests of their tenants.
 */
export async function verifySeals(
  db: OpenDatabase,
  keyring: Keyring,
  toldMax = toldMaxDefault,
): Promise<VerifiedSeals> {
  const scan = new Scan(db, keyring, toldMax);
  const schema = db.userVersion();
  for (const [i, table] of sealedTables.entries()) {
    if ((table.since ?? 0) <= schema) await scan.verify(table, i);
  }
  return scan.end();
}

class Scan {
  readonly #db: OpenDatabase;
  readonly #keyring: Keyring;
  readonly #toldMax: number;
  readonly #blocks: DigestBlocks;
  readonly #digests = new Map<string, Uint8Array>();
  readonly #unsealed: Unsealed[] = [];
  /** MACs that are not in the digest of their tenant yet. */
  readonly #pending = Buffer.alloc(foldedAtOnce * digestBytes);
  #pendingBytes = 0;
  #pendingOf = { tenant: '', epoch: 0 };
  #rows = 0;
  #sealed = 0;

  constructor(db: OpenDatabase, keyring: Keyring, toldMax: number) {
    this.#db = db;
    this.#keyring = keyring;
    this.#toldMax = toldMax;
    this.#blocks = new DigestBlocks(keyring);
    // 1 where a row is not what was sealed: only those come back from the statement.
    db.define('bursar_is_unsealed', (index, tenant, epoch, mac, ...values) => {
      this.#rows += 1;
      if (mac !== null) this.#take(String(tenant), Number(epoch), mac as Uint8Array);
      const table = sealedTables[index as number] as SealedTable;
      return Number(!isSealed(keyring, table, { epoch, mac }, values as SealedValue[]));
    });
  }

  async verify(table: SealedTable, index: number): Promise<void> {
    const { tx } = this.#db;
    const { name } = table;
    const [tenant, row] = [sqlOf(table.tenant, 't'), sqlOf(table.row, 't')];
    this.#sealed = 0;
    const wrong = await tx.all<{ tenant: unknown; row: unknown; isAdded: number }>(
      `SELECT ${tenant} AS tenant, ${row} AS row, s.mac IS NULL AS isAdded
         FROM main.${name} AS t LEFT JOIN main.seals AS s
           ON s.tbl = '${name}' AND s.tenant = ${tenant} AND s.row = ${row}
         WHERE bursar_is_unsealed(${index}, ${tenant}, s.epoch, s.mac, ${fieldsOf(table, 't')})`,
    );
    for (const { isAdded, ...place } of wrong) {
      const named = { tenant: String(place.tenant), row: String(place.row) };
      this.#tell(describeUnsealed(table, { ...named, fault: isAdded ? 'added' : 'altered' }));
    }
    const counted = await tx.get<{ n: number }>(
      `SELECT count(*) AS n FROM main.seals WHERE tbl = '${name}'`,
    );
    if (counted?.n !== this.#sealed) await this.#findRemoved(table, { tenant, row });
  }

  async end(): Promise<VerifiedSeals> {
    this.#fold();
    const heads = await SealHeads.read(this.#db.tx, this.#keyring);
    for (const tenant of new Set([...this.#digests.keys(), ...heads.tenants])) {
      const found = this.#digests.get(tenant) ?? new Uint8Array(digestBytes);
      if (heads.isOf(tenant, found)) continue;
      this.#tell(describeReplaced(tenant));
    }
    return { unsealed: this.#unsealed, rows: this.#rows, heads };
  }

  async #findRemoved(
    table: SealedTable,
    { tenant, row }: { tenant: string; row: string },
  ): Promise<void> {
    const removed = await this.#db.tx.all<{
      tenant: string;
      row: string;
      epoch: number;
      mac: Uint8Array;
    }>(
      `SELECT tenant, row, epoch, mac FROM main.seals WHERE tbl = '${table.name}'
         AND (tenant, row) NOT IN (SELECT ${tenant}, ${row} FROM main.${table.name} AS t)`,
    );
    for (const { epoch, mac, ...place } of removed) {
      this.#take(place.tenant, epoch, mac);
      this.#tell(describeUnsealed(table, { ...place, fault: 'removed' }));
    }
  }

  #tell(unsealed: Unsealed): void {
    if (this.#unsealed.length < this.#toldMax) this.#unsealed.push(unsealed);
  }

  #take(tenant: string, epoch: number, mac: Uint8Array): void {
    this.#sealed += 1;
    const of = this.#pendingOf;
    const isFull = this.#pendingBytes === this.#pending.length;
    if (isFull || of.tenant !== tenant || of.epoch !== epoch) {
      this.#fold();
      this.#pendingOf = { tenant, epoch };
    }
    if (!(mac instanceof Uint8Array) || mac.length < digestBytes) return;
    this.#pending.set(mac.subarray(0, digestBytes), this.#pendingBytes);
    this.#pendingBytes += digestBytes;
  }

  #fold(): void {
    const { tenant, epoch } = this.#pendingOf;
    if (this.#pendingBytes === 0) return;
    const digest = this.#digests.get(tenant) ?? new Uint8Array(digestBytes);
    this.#digests.set(tenant, digest);
    try {
      this.#blocks.fold(digest, epoch, this.#pending.subarray(0, this.#pendingBytes));
    } catch (error) {
      // The epoch never existed: the digest cannot be that of the head.
      if (!(error instanceof IntegrityError)) throw error;
    }
    this.#pendingBytes = 0;
  }
}
