// The grants of all tenants, kept in memory as the database has them. Invariant: once a change of a
// grant was answered, the index has the grant as the table has it, so it counts from the next
// request on; while one grant of a tenant is being put, no other of that tenant is.
import { setImmediate } from 'node:timers/promises';
import { tenantGrantsBytesMax } from '../authz/grants/bounds.ts';
import type { Grant } from '../authz/grants/grant.ts';
import { GrantIndex } from '../authz/grants/grant-index.ts';
import { type Page, readInTurns } from '../authz/paced-page.ts';
import type { Reader } from '../core/database.ts';
import { Refusal } from '../core/errors.ts';
import { Turns } from '../core/turns.ts';
import type { LedgerEvent } from '../ledger/events.ts';
import { AliasBook } from './alias-book.ts';

const pageRows = 10_000;
/** Grants taken out of the index before others get a turn. */
const removedAtOnce = 1000;

export interface GrantEntry {
  tenant: string;
  name: string;
  grant: Grant;
  createdMs: number;
}

interface GrantRow {
  tenant: string;
  name: string;
  rule: string;
  createdMs: number;
}

const columns = 'tenant, name, rule, created_ms AS createdMs';

export class GrantBook {
  readonly index = new GrantIndex();
  readonly aliases = new AliasBook();
  readonly #read: Reader;
  readonly #turns = new Turns();
  /** The length of the rules as they are written, by tenant. */
  readonly #bytes = new Map<string, number>();

  private constructor(read: Reader) {
    this.#read = read;
  }

  /**
   * Reads all grants: about a second for 100,000. `onUnreadable` is told of a row that is no grant,
   * which no gateway can have stored.
   */
  static async load(
    read: Reader,
    onUnreadable: (error: unknown) => void = fail,
  ): Promise<GrantBook> {
    const book = new GrantBook(read);
    let after = { tenant: '', name: '' };
    for (;;) {
      const rows = await read.all<GrantRow>(
        `SELECT ${columns} FROM grants WHERE (tenant, name) > (?, ?) ORDER BY tenant, name LIMIT ?`,
        after.tenant,
        after.name,
        pageRows,
      );
      for (const { tenant, rule } of rows) {
        try {
          book.#add(tenant, rule);
        } catch (error) {
          onUnreadable(error);
        }
      }
      const last = rows.at(-1);
      if (!last || rows.length < pageRows) return book;
      after = last;
    }
  }

  async read(tenant: string, name: string): Promise<GrantEntry | undefined> {
    const row = await this.#readRow(tenant, name);
    return row && entryOf(row);
  }

  async list(tenant: string, page: Page): Promise<GrantEntry[]> {
    return readInTurns(page, async (slice) => {
      const rows = await this.#readRows(tenant, slice);
      return rows.map(entryOf);
    });
  }

  /**
   * Does `work`, which puts the grant, where there is room for it, and while no other of its tenant
   * is put. Throws `Refusal` TooManyGrants, or InvalidInput for an alias that cannot be.
   */
  withRoom<T>(tenant: string, wanted: Grant, work: () => Promise<T>): Promise<T> {
    return this.#turns.take(tenant, async () => {
      const before = await this.#readRow(tenant, wanted.name);
      if (!this.#hasRoom(tenant, before?.rule, wanted)) throw new Refusal('TooManyGrants');
      return work();
    });
  }

  apply(event: LedgerEvent): void | Promise<void> {
    if (event.kind !== 'grants') return;
    const { tenant, removed, added } = event;
    // Nothing is decided in the middle of this, since nothing here waits.
    for (const rule of removed.slice(0, removedAtOnce)) this.#remove(tenant, rule);
    for (const rule of added) this.#add(tenant, rule);
    if (removed.length > removedAtOnce) return this.#removeRest(tenant, removed);
  }

  /**
   * Removes the grants of a deleted tenant slowly: nobody needs them, and there can be a million.
   */
  async #removeRest(tenant: string, removed: readonly string[]): Promise<void> {
    for (let i = removedAtOnce; i < removed.length; i++) {
      if (i % removedAtOnce === 0) await setImmediate();
      this.#remove(tenant, removed[i] as string);
    }
  }

  #hasRoom(tenant: string, before: string | undefined, wanted: Grant): boolean {
    // Nothing is decided in the middle of this, since nothing here waits. The grant may have been
    // deleted since it was read.
    const isThere = before !== undefined && this.#remove(tenant, before);
    const bytes = (this.#bytes.get(tenant) ?? 0) + JSON.stringify(wanted).length;
    const hasRoom = bytes <= tenantGrantsBytesMax && this.index.hasRoomFor(tenant, wanted);
    const fault = this.aliases.findFault(tenant, wanted);
    if (isThere) this.#add(tenant, before);
    if (fault !== undefined) {
      throw new Refusal('InvalidInput', { message: `${fault}.`, fields: { field: 'alias' } });
    }
    return hasRoom;
  }

  #add(tenant: string, rule: string): void {
    const grant = JSON.parse(rule) as Grant;
    this.index.add(tenant, grant);
    this.aliases.add(tenant, grant);
    this.#bytes.set(tenant, (this.#bytes.get(tenant) ?? 0) + rule.length);
  }

  /** Gives whether it was there. */
  #remove(tenant: string, rule: string): boolean {
    const grant = JSON.parse(rule) as Grant;
    if (!this.index.remove(tenant, grant)) return false;
    this.aliases.remove(tenant, grant);
    const left = (this.#bytes.get(tenant) ?? 0) - rule.length;
    if (left > 0) this.#bytes.set(tenant, left);
    else this.#bytes.delete(tenant);
    return true;
  }

  #readRow(tenant: string, name: string): Promise<GrantRow | undefined> {
    const sql = `SELECT ${columns} FROM grants WHERE tenant = ? AND name = ?`;
    return this.#read.get<GrantRow>(sql, tenant, name);
  }

  #readRows(tenant: string, { after, limit }: Page): Promise<GrantRow[]> {
    const sql = `SELECT ${columns} FROM grants WHERE tenant = ? AND name > ? ORDER BY name LIMIT ?`;
    return this.#read.all<GrantRow>(sql, tenant, after, limit);
  }
}

function fail(error: unknown): never {
  throw error;
}

function entryOf({ rule, ...row }: GrantRow): GrantEntry {
  return { ...row, grant: JSON.parse(rule) as Grant };
}
