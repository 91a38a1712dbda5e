// What is stored under prefixes that have limits, as the ledger's transactions change it. Triggers
// of the connection that writes see each row of a version, held or not, and of a part come and go,
// so that no change can forget to count. They are made when the first such limit is set: until then
// nothing is counted, and nothing costs. Invariants: the sum of what `take` gives of an account,
// since it has limits, is what is stored under its prefix; a row counts for its prefixes as it does
// for its bucket (catalog/version-rows.ts, held-release.ts).
import { countedBytes } from '../catalog/versions.ts';
import type { OpenDatabase, Reader } from '../core/database.ts';
import type { Limits } from '../core/quota-terms.ts';
import { textSuccessor } from '../core/text-order.ts';
import type { PrefixLevels, Stored } from '../quota/charge.ts';
import { readLimited } from '../quota/leases/account-tables.ts';
import { PrefixAccounts, prefixOf } from '../quota/prefix-accounts.ts';

export class StoredLevels {
  readonly #db: OpenDatabase;
  #accounts = new PrefixAccounts();
  #levels = new Map<string, Stored>();
  /** The transaction changed which prefixes have limits. */
  #isChanged = false;

  private constructor(db: OpenDatabase) {
    this.#db = db;
  }

  static async open(db: OpenDatabase): Promise<StoredLevels> {
    const levels = new StoredLevels(db);
    db.define('bursar_stored', (tenant, bucket, key, bytes, objects) => {
      levels.#count([String(tenant), String(bucket), String(key)], Number(bytes), Number(objects));
      return null;
    });
    await levels.#load();
    return levels;
  }

  /**
   * An account's limits from now on. Of one that had none, what is stored is counted, in a time
   * that grows with the number of keys. `used`: what it was said to have.
   */
  async setLimits(account: string, limits: Limits | null, used: Stored): Promise<void> {
    const prefix = prefixOf(account);
    if (!prefix || this.#accounts.has(account) === (limits !== null)) return;
    this.#isChanged = true;
    const stored = limits ? await countStored(this.#db.tx, prefix) : noneStored;
    this.#accounts.setLimits(account, limits);
    if (limits) this.#db.exec(triggers);
    this.#add(account, stored.storedBytes, stored.storedObjects);
    this.#add(account, 0 - used.storedBytes, 0 - used.storedObjects);
  }

  /** What the transaction changed since this was last called; null: nothing. */
  take(): PrefixLevels | null {
    if (this.#levels.size === 0) return null;
    const levels = this.#levels;
    this.#levels = new Map();
    for (const [account, { storedBytes, storedObjects }] of levels) {
      if (storedBytes === 0 && storedObjects === 0) levels.delete(account);
    }
    return levels.size > 0 ? levels : null;
  }

  /** After a commit. */
  settle(): void {
    this.#isChanged = false;
  }

  /** After a rollback. */
  async discard(): Promise<void> {
    this.#levels.clear();
    if (this.#isChanged) await this.#load();
  }

  async #load(): Promise<void> {
    this.#isChanged = false;
    this.#accounts = new PrefixAccounts();
    for (const { account, limits } of await readLimited(this.#db.tx)) {
      this.#accounts.setLimits(account, limits);
    }
    if (!this.#accounts.isEmpty) this.#db.exec(triggers);
  }

  #count([tenant, bucket, key]: [string, string, string], bytes: number, objects: number): void {
    const accounts = this.#accounts.of(tenant, bucket, key);
    if (!accounts) return;
    const counted = bytes < 0 ? -countedBytes(-bytes) : countedBytes(bytes);
    for (const account of accounts) this.#add(account, counted, objects);
  }

  #add(account: string, bytes: number, objects: number): void {
    const { storedBytes, storedObjects } = this.#levels.get(account) ?? noneStored;
    const sum = { storedBytes: storedBytes + bytes, storedObjects: storedObjects + objects };
    this.#levels.set(account, sum);
  }
}

const noneStored: Stored = { storedBytes: 0, storedObjects: 0 };

/** Delete markers count for nothing, and neither do images, which share what a version keeps. */
const counted = {
  versions: { when: 'NOT $.is_marker', objects: 1 },
  noncurrent_versions: { when: 'NOT $.is_marker', objects: 1 },
  held_versions: {
    when: 'NOT $.is_marker AND NOT $.is_image AND $.held_mac IS NOT NULL',
    objects: 0,
  },
};

const triggers = [
  ...Object.entries(counted).flatMap(([table, { when, objects }]) => {
    const select = (row: string, sign: string) =>
      `SELECT bursar_stored(tenant, name, ${row}.key, ${sign}${row}.size, ${sign}${objects})
         FROM main.buckets WHERE id = ${row}.bucket_id`;
    return bothWays(table, { when, select });
  }),
  ...bothWays('parts', {
    when: 'TRUE',
    select: (row, sign) =>
      `SELECT bursar_stored(b.tenant, b.name, u.key, ${sign}${row}.size, 0)
         FROM main.uploads AS u JOIN main.buckets AS b ON b.id = u.bucket_id
         WHERE u.id = ${row}.upload_id`,
  }),
].join('\n');

function bothWays(
  table: string,
  { when, select }: { when: string; select: (row: string, sign: string) => string },
): string[] {
  return (
    [
      ['INSERT', 'new', ''],
      ['DELETE', 'old', '-'],
    ] as const
  ).map(
    ([event, row, sign]) =>
      `CREATE TEMP TRIGGER IF NOT EXISTS stored_${table}_${row} AFTER ${event} ON main.${table}
         WHEN ${when.replaceAll('$', row)} BEGIN ${select(row, sign)}; END;`,
  );
}

const sumOf = (objects: number) =>
  `ifnull(sum(size), 0) AS bytes, ${objects} * count(*) AS objects`;
const isUnder = `bucket_id = (SELECT id FROM place)
  AND key >= (SELECT first FROM place) AND key < (SELECT behind FROM place)`;
const sums = `WITH place (id, first, behind) AS (SELECT ?, ?, ?) ${[
  ...Object.entries(counted).map(
    ([table, { when, objects }]) => `SELECT ${sumOf(objects)} FROM ${table} AS v
      WHERE ${isUnder} AND ${when.replaceAll('$', 'v')}`,
  ),
  `SELECT ${sumOf(0)} FROM uploads AS u JOIN parts AS p ON p.upload_id = u.id
     WHERE ${isUnder}`,
].join('\nUNION ALL ')}`;

/** What a bucket keeps under a prefix; nothing where there is no bucket. */
async function countStored(
  read: Reader,
  { tenant, bucket, prefix }: { tenant: string; bucket: string; prefix: string },
): Promise<Stored> {
  const sql = 'SELECT id FROM buckets WHERE tenant = ? AND name = ?';
  const found = await read.get<{ id: number }>(sql, tenant, bucket);
  if (!found) return noneStored;
  const counts = await read.all<{ bytes: number; objects: number }>(
    sums,
    // A blob comes after all texts.
    ...[found.id, prefix, textSuccessor(prefix) ?? Buffer.alloc(0)],
  );
  return {
    storedBytes: counts.reduce((sum, { bytes }) => sum + bytes, 0),
    storedObjects: counts.reduce((sum, { objects }) => sum + objects, 0),
  };
}
