// The grants of all tenants, in memory as they are in the database. Invariant: a grant whose change
// was answered is in the index as the table has it, so it counts from the next request on; while one
// is being changed no other of its tenant is.
import { setImmediate } from 'node:timers/promises';
import type { Reader } from '../../core/database.ts';
import { Refusal } from '../../core/errors.ts';
import type { AuthzChange, Follower } from '../changes.ts';
import type { Page } from '../directory.ts';
import { readInTurns } from '../paced-page.ts';
import { Turns } from '../turns.ts';
import { tenantGrantsBytesMax } from './bounds.ts';
import type { Grant } from './grant.ts';
import { GrantIndex } from './grant-index.ts';

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

export class GrantBook implements Follower {
  readonly index = new GrantIndex();
  readonly #read: Reader;
  readonly #turns = new Turns();
  /** Of the rules as they are written, by tenant. */
  readonly #bytes = new Map<string, number>();

  private constructor(read: Reader) {
    this.#read = read;
  }

  /**
   * Reads all grants: about a second for 100,000. `onUnreadable`: told of what is none, which no gateway
   * can have stored.
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

  /** Throws `Refusal` TooManyGrants when there is no room for the grant that is put. */
  async follow(change: AuthzChange): Promise<() => void | Promise<void>> {
    switch (change.type) {
      case 'putGrant':
        return this.#inTurn(change.tenant, () =>
          this.#followOne(change.tenant, change.grant.name, change.grant),
        );
      case 'deleteGrant':
        return this.#inTurn(change.tenant, () => this.#followOne(change.tenant, change.name, null));
      case 'deleteTenant':
        return this.#inTurn(change.name, () => this.#followAll(change.name));
      default:
        return () => {};
    }
  }

  /** Runs what is to be done before the commit, and then what that gives after it, in the tenant's turn. */
  async #inTurn(
    tenant: string,
    begin: () => Promise<() => Promise<void>>,
  ): Promise<() => Promise<void>> {
    const end = await this.#turns.take(tenant);
    try {
      const update = await begin();
      return async () => {
        try {
          await update();
        } finally {
          end();
        }
      };
    } catch (error) {
      end();
      throw error;
    }
  }

  async #followOne(
    tenant: string,
    name: string,
    wanted: Grant | null,
  ): Promise<() => Promise<void>> {
    const before = (await this.#readRow(tenant, name))?.rule;
    if (wanted) this.#checkRoom(tenant, before, wanted);
    return async () => {
      const now = (await this.#readRow(tenant, name))?.rule;
      if (before === now) return;
      if (before !== undefined) this.#remove(tenant, before);
      if (now !== undefined) this.#add(tenant, now);
    };
  }

  async #followAll(tenant: string): Promise<() => Promise<void>> {
    const rules: string[] = [];
    for (let after = ''; ; ) {
      const rows = await this.#readRows(tenant, { after, limit: pageRows });
      for (const { rule } of rows) rules.push(rule);
      if (rows.length < pageRows) break;
      after = rows.at(-1)?.name ?? '';
      await setImmediate();
    }
    return async () => {
      if (await this.#read.get('SELECT 1 FROM tenants WHERE name = ?', tenant)) return;
      for (const [i, rule] of rules.entries()) {
        this.#remove(tenant, rule);
        if (i % removedAtOnce === removedAtOnce - 1) await setImmediate();
      }
    };
  }

  #checkRoom(tenant: string, before: string | undefined, wanted: Grant): void {
    // Nobody decides meanwhile: nothing here waits.
    if (before !== undefined) this.#remove(tenant, before);
    const bytes = (this.#bytes.get(tenant) ?? 0) + JSON.stringify(wanted).length;
    const hasRoom = bytes <= tenantGrantsBytesMax && this.index.hasRoomFor(tenant, wanted);
    if (before !== undefined) this.#add(tenant, before);
    if (!hasRoom) throw new Refusal('TooManyGrants');
  }

  #add(tenant: string, rule: string): void {
    this.index.add(tenant, JSON.parse(rule) as Grant);
    this.#bytes.set(tenant, (this.#bytes.get(tenant) ?? 0) + rule.length);
  }

  #remove(tenant: string, rule: string): void {
    this.index.remove(tenant, JSON.parse(rule) as Grant);
    this.#bytes.set(tenant, (this.#bytes.get(tenant) ?? 0) - rule.length);
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
