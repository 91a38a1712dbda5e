// What is stored under prefixes, and by writers, that have limits, as the ledger's transactions
// change it. Triggers of the connection that writes see each row of a version, held or not, and of
// a part come and go, so that no change can forget to count. Those of a kind are made when its
// first limit is set: until then nothing is counted, and nothing costs. Invariants: the sum of what
// `take` gives of an account, since it has limits, is what is stored under its prefix, or by its
// writer; a row counts for them as for its bucket (catalog/version-rows.ts, held-release.ts); and
// who wrote what is as `writerOf` says (catalog/versions.ts), of parts their upload's initiator.
import { countedBytes } from '../catalog/versions.ts';
import type { OpenDatabase, Reader } from '../core/database.ts';
import type { Limits } from '../core/quota-terms.ts';
import { textSuccessor } from '../core/text-order.ts';
import type { LimitedLevels, Stored } from '../quota/charge.ts';
import { readLimited } from '../quota/leases/account-tables.ts';
import {
  type AccountList,
  type LimitedAccount,
  LimitedAccounts,
  limitedAccountOf,
} from '../quota/limited-accounts.ts';

export class StoredLevels {
  readonly #db: OpenDatabase;
  #accounts = new LimitedAccounts();
  #levels = new Map<string, Stored>();
  /** The transaction changed which accounts have limits. */
  #isChanged = false;

  private constructor(db: OpenDatabase) {
    this.#db = db;
  }

  static async open(db: OpenDatabase): Promise<StoredLevels> {
    const levels = new StoredLevels(db);
    db.define('bursar_stored', (tenant, bucket, key, bytes, objects) => {
      const under = levels.#accounts.under(String(tenant), String(bucket), String(key));
      levels.#count(under, Number(bytes), Number(objects));
      return null;
    });
    db.define('bursar_written', (tenant, bucket, writer, bytes, objects) => {
      const by = levels.#accounts.by(String(tenant), String(bucket), String(writer));
      levels.#count(by, Number(bytes), Number(objects));
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
    const limited = limitedAccountOf(account);
    if (!limited || this.#accounts.has(account) === (limits !== null)) return;
    this.#isChanged = true;
    const stored = limits ? await countStored(this.#db.tx, limited) : noneStored;
    this.#accounts.setLimits(account, limits);
    this.#watch();
    this.#add(account, stored.storedBytes, stored.storedObjects);
    this.#add(account, 0 - used.storedBytes, 0 - used.storedObjects);
  }

  /** What the transaction changed since this was last called; null: nothing. */
  take(): LimitedLevels | null {
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
    this.#accounts = new LimitedAccounts();
    for (const { account, limits } of await readLimited(this.#db.tx)) {
      this.#accounts.setLimits(account, limits);
    }
    this.#watch();
  }

  #watch(): void {
    if (this.#accounts.hasPrefixes) this.#db.exec(prefixTriggers);
    if (this.#accounts.hasWriters) this.#db.exec(writerTriggers);
  }

  #count(accounts: AccountList | undefined, bytes: number, objects: number): void {
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

/** What a row of a version says that is not the bucket's owner wrote it; null: nobody. */
const namedWriter = (row: string) => `CASE WHEN instr(${row}.attributes, '"writer":"') > 0
  AND json_valid(${row}.attributes) THEN json_extract(${row}.attributes, '$.writer') END`;

const prefixTriggers = triggersOf('stored', {
  ofVersion: (row, sign, objects) =>
    `SELECT bursar_stored(tenant, name, ${row}.key, ${sign}${row}.size, ${sign}${objects})
       FROM main.buckets WHERE id = ${row}.bucket_id`,
  ofPart: (row, sign) =>
    `SELECT bursar_stored(b.tenant, b.name, u.key, ${sign}${row}.size, 0)
       FROM main.uploads AS u JOIN main.buckets AS b ON b.id = u.bucket_id
       WHERE u.id = ${row}.upload_id`,
});

const writerTriggers = triggersOf('written', {
  ofVersion: (row, sign, objects) =>
    `SELECT bursar_written(tenant, name,
         ifnull(${namedWriter(row)}, tenant || '/' || ${row}.owner),
         ${sign}${row}.size, ${sign}${objects})
       FROM main.buckets WHERE id = ${row}.bucket_id`,
  ofPart: (row, sign) =>
    `SELECT bursar_written(b.tenant, b.name, u.initiator, ${sign}${row}.size, 0)
       FROM main.uploads AS u JOIN main.buckets AS b ON b.id = u.bucket_id
       WHERE u.id = ${row}.upload_id`,
});

interface Counting {
  ofVersion(row: string, sign: string, objects: number): string;
  ofPart(row: string, sign: string): string;
}

function triggersOf(name: string, { ofVersion, ofPart }: Counting): string {
  const versions = Object.entries(counted).flatMap(([table, { when, objects }]) =>
    bothWays(name, table, when, (row, sign) => ofVersion(row, sign, objects)),
  );
  return [...versions, ...bothWays(name, 'parts', 'TRUE', ofPart)].join('\n');
}

function bothWays(
  name: string,
  table: string,
  when: string,
  select: (row: string, sign: string) => string,
): string[] {
  return (
    [
      ['INSERT', 'new', ''],
      ['DELETE', 'old', '-'],
    ] as const
  ).map(
    ([event, row, sign]) =>
      `CREATE TEMP TRIGGER IF NOT EXISTS ${name}_${table}_${row} AFTER ${event} ON main.${table}
         WHEN ${when.replaceAll('$', row)} BEGIN ${select(row, sign)}; END;`,
  );
}

const sumOf = (objects: number) =>
  `ifnull(sum(size), 0) AS bytes, ${objects} * count(*) AS objects`;

/** Sums over rows `v` of versions and over parts `p` of uploads `u`. */
function sumsOf(given: string, ofVersion: (row: string) => string, ofUpload: string): string {
  const versions = Object.entries(counted).map(
    ([table, { when, objects }]) => `SELECT ${sumOf(objects)} FROM given, ${table} AS v
      WHERE ${ofVersion('v')} AND ${when.replaceAll('$', 'v')}`,
  );
  const parts = `SELECT ${sumOf(0)} FROM given, uploads AS u JOIN parts AS p ON p.upload_id = u.id
     WHERE ${ofUpload}`;
  return `WITH ${given} ${[...versions, parts].join('\nUNION ALL ')}`;
}

const isUnder = (row: string) => `${row}.bucket_id = place AND ${row}.key >= first
  AND ${row}.key < behind`;
const sumsUnder = sumsOf('given (place, first, behind) AS (SELECT ?, ?, ?)', isUnder, isUnder('u'));

const sumsBy = sumsOf(
  'given (place, tenant, writer) AS (SELECT ?, ?, ?)',
  (row) => `${row}.bucket_id = place AND CASE
    WHEN instr(${row}.attributes, '"writer":"') > 0 AND ${namedWriter(row)} IS NOT NULL
    THEN ${namedWriter(row)} = writer
    ELSE tenant || '/' || ${row}.owner = writer END`,
  'u.bucket_id = place AND u.initiator = writer',
);

/** What is stored under a prefix, or by a writer; nothing where there is no such bucket. */
export async function countStored(read: Reader, limited: LimitedAccount): Promise<Stored> {
  const { tenant, bucket } = limited;
  const places =
    bucket === null
      ? await read.all<Place>('SELECT id, tenant FROM buckets')
      : await read.all<Place>(
          `SELECT id, tenant FROM buckets
          WHERE tenant = ? AND name = ?`,
          tenant,
          bucket,
        );
  let sum = noneStored;
  for (const place of places) {
    for (const { bytes, objects } of await countIn(read, place, limited)) {
      const { storedBytes, storedObjects } = sum;
      sum = { storedBytes: storedBytes + bytes, storedObjects: storedObjects + objects };
    }
  }
  return sum;
}

interface Place {
  id: number;
  tenant: string;
}

type Count = { bytes: number; objects: number };

function countIn(read: Reader, { id, tenant }: Place, limited: LimitedAccount) {
  if (limited.kind === 'prefix') {
    const { prefix } = limited;
    // A blob comes after all texts.
    return read.all<Count>(sumsUnder, id, prefix, textSuccessor(prefix) ?? Buffer.alloc(0));
  }
  const writer = `${limited.writer.tenant}/${limited.writer.name}`;
  return read.all<Count>(sumsBy, id, tenant, writer);
}
