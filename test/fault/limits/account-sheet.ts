// The accounts as the gateway's database has them at one moment, read beside the gateway that
// serves it, and the arithmetic of limits done once more, from the rows alone.
import { join } from 'node:path';
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { parseUsd } from '#bursar/core/money.js';
import { meters as storedOrder } from '#bursar/core/quota-terms.js';

export const flows = ['spend', 'ingressBytes', 'egressBytes', 'requests'] as const;
export const levels = ['storedBytes', 'storedObjects'] as const;
export const meters = [...flows, ...levels] as const;
export type Meter = (typeof meters)[number];
export type Amounts = Record<Meter, bigint>;

export interface AccountRow {
  used: Amounts;
  /** Flows only. */
  lost: Amounts;
  leased: Amounts;
  /** By `meter window`. */
  caps: Map<string, bigint>;
  /** What was used and lost before the window began, by window. */
  before: Map<string, { beginMs: number; used: Amounts; lost: Amounts }>;
}

type Row = Record<string, string | null>;

export class AccountSheet {
  readonly #db: OpenDatabase;

  constructor(dataDir: string) {
    this.#db = openDatabase(join(dataDir, 'bursar.db'), { readonly: true, cacheKib: 1024 });
  }

  /** All accounts, as of one committed transaction. */
  read(): Promise<Map<string, AccountRow>> {
    return this.#within(() => this.#readRows());
  }

  /** And the records after the one of the index, as of the same. */
  readWith(
    afterIndex: number,
  ): Promise<{ rows: Map<string, AccountRow>; records: Record<string, unknown>[] }> {
    return this.#within(async () => {
      const sql = 'SELECT record FROM records WHERE idx > ? ORDER BY idx';
      const texts = await this.#db.tx.all<{ record: string }>(sql, afterIndex);
      const records = texts.map(({ record }) => JSON.parse(record));
      return { rows: await this.#readRows(), records };
    });
  }

  /** What is stored, as `bucket/key`. */
  async names(): Promise<Set<string>> {
    const sql = `SELECT b.name || '/' || v.key AS name FROM versions v
      JOIN buckets b ON b.id = v.bucket_id`;
    const rows = await this.#db.tx.all<{ name: string }>(sql);
    return new Set(rows.map(({ name }) => name));
  }

  close(): void {
    this.#db.close();
  }

  async #within<T>(read: () => Promise<T>): Promise<T> {
    this.#db.exec('BEGIN');
    try {
      return await read();
    } finally {
      this.#db.exec('COMMIT');
    }
  }

  async #readRows(): Promise<Map<string, AccountRow>> {
    const rows = new Map<string, AccountRow>();
    for (const row of await this.#all('quota_accounts', ['account', 'limits', 'leases'])) {
      const [used, lost] = [amountsOf(row, 'used_'), amountsOf(row, 'lost_')];
      const caps = capsOf(row.limits ?? null);
      const leased = leasedOf(row.leases ?? null);
      rows.set(String(row.account), { used, lost, leased, caps, before: new Map() });
    }
    for (const row of await this.#all('quota_windows', ['account', 'window', 'begin_ms'])) {
      const [used, lost] = [amountsOf(row, 'used_'), amountsOf(row, 'lost_')];
      const mark = { beginMs: Number(row.begin_ms), used, lost };
      rows.get(String(row.account))?.before.set(String(row.window), mark);
    }
    return rows;
  }

  /** Amounts as text: 64 bits are more than a number holds. */
  async #all(table: string, names: readonly string[]): Promise<Row[]> {
    const info = await this.#db.tx.all<{ name: string }>(`PRAGMA table_info(${table})`);
    const columns = info.map(({ name }) =>
      names.includes(name) ? name : `CAST(${name} AS TEXT) AS ${name}`,
    );
    return this.#db.tx.all<Row>(`SELECT ${columns.join(', ')} FROM ${table}`);
  }
}

/** Caps that are exceeded by what is used, lost and leased together. */
export function findOverruns(rows: Map<string, AccountRow>): string[] {
  const overruns: string[] = [];
  for (const [account, row] of rows) {
    for (const [name, cap] of row.caps) {
      const [meter, window] = name.split(' ') as [Meter, string];
      const before = window === 'total' ? undefined : row.before.get(window);
      const used = row.used[meter] - (before?.used[meter] ?? 0n);
      const lost = row.lost[meter] - (before?.lost[meter] ?? 0n);
      const sum = used + lost + row.leased[meter];
      if (sum <= cap) continue;
      const parts = `${used} used + ${lost} lost + ${row.leased[meter]} reserved`;
      overruns.push(`${account} ${name}: ${parts} of ${cap}`);
    }
  }
  return overruns;
}

function amountsOf(row: Row, prefix: string): Amounts {
  const entries = meters.map((meter) => {
    const column = prefix + meter.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    return [meter, BigInt(row[column] ?? 0)];
  });
  return Object.fromEntries(entries) as Amounts;
}

function capsOf(limits: string | null): Map<string, bigint> {
  const caps = new Map<string, bigint>();
  if (limits === null) return caps;
  const all = JSON.parse(limits) as Record<string, Record<string, string | number>>;
  for (const meter of meters) {
    for (const [window, amount] of Object.entries(all[meter] ?? {})) {
      const cap = meter === 'spend' ? parseUsd(String(amount)) : BigInt(amount);
      if (cap === undefined) throw new Error(`${amount} is no amount of money`);
      caps.set(`${meter} ${window}`, cap);
    }
  }
  return caps;
}

/** All leases of an account together: amounts in the meters' order, by holder. */
function leasedOf(text: string | null): ReturnType<typeof amountsOf> {
  const leased = amountsOf({}, '');
  const leases = JSON.parse(text ?? '{}') as Record<string, string[]>;
  for (const amounts of Object.values(leases)) {
    for (const [i, meter] of storedOrder.entries()) leased[meter] += BigInt(amounts[i] as string);
  }
  return leased;
}
