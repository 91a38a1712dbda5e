// What is stored under prefixes, and by writers, that have limits, as the ledger's transactions
// change it. Triggers of the connection that writes see each row of a version, held or not, and of
// a part come and go, so that no change can forget to count. Those of a kind are made when its
// first limit is set: until then nothing is counted, and nothing costs. What was there before is
// counted in slices (stored-count.ts); until that has ended, what comes and goes where it has not
// come to is left to it. Invariants: the sum of what `take` gives of an account, since it has
// limits, is what is stored under its prefix, or by its writer, as far as it is counted; a row
// counts for them as for its bucket (catalog/version-rows.ts, held-release.ts); and who wrote what
// is as `writerOf` says (catalog/versions.ts), of parts their upload's initiator.
import { countedBytes } from '../catalog/versions.ts';
import type { OpenDatabase, SqlValue } from '../core/database.ts';
import type { Limits } from '../core/quota-terms.ts';
import type { LimitedLevel, LimitedLevels, Stored } from '../quota/charge.ts';
import { readLimited } from '../quota/leases/account-tables.ts';
import { type AccountList, LimitedAccounts, limitedAccountOf } from '../quota/limited-accounts.ts';
import {
  type CountPlace,
  countBegin,
  countSlice,
  isBefore,
  noneStored,
  noteCount,
  readCounts,
  sumOf,
} from './stored-count.ts';
import { prefixTriggers, writerTriggers } from './stored-triggers.ts';

/** So many rows are counted where limits are set: a few milliseconds. */
const countedAtOnce = 5000;

export class StoredLevels {
  readonly #db: OpenDatabase;
  readonly #countedAtOnce: number;
  #accounts = new LimitedAccounts();
  #levels = new Map<string, Stored>();
  /** Accounts that are being counted, and how far they are. */
  #counts = new Map<string, CountPlace>();
  /** The transaction changed which accounts have limits, or are counted. */
  #isChanged = false;

  private constructor(db: OpenDatabase, atOnce: number) {
    this.#db = db;
    this.#countedAtOnce = atOnce;
  }

  static async open(db: OpenDatabase, atOnce = countedAtOnce): Promise<StoredLevels> {
    const levels = new StoredLevels(db, atOnce);
    db.define('bursar_stored', (id, tenant, bucket, key, bytes, objects) => {
      const under = levels.#accounts.under(String(tenant), String(bucket), String(key));
      if (under) levels.#count(under, { id, key }, Number(bytes), Number(objects));
      return null;
    });
    db.define('bursar_written', (id, tenant, bucket, key, writer, bytes, objects) => {
      const by = levels.#accounts.by(String(tenant), String(bucket), String(writer));
      if (by) levels.#count(by, { id, key }, Number(bytes), Number(objects));
      return null;
    });
    await levels.#load();
    return levels;
  }

  /**
   * An account's limits from now on. Of one that had none, what is stored is counted: at once where
   * that is little, else in slices (`countOn`). `used`: what it was said to have.
   */
  async setLimits(account: string, limits: Limits | null, used: Stored): Promise<void> {
    const limited = limitedAccountOf(account);
    if (!limited || this.#accounts.has(account) === (limits !== null)) return;
    this.#isChanged = true;
    this.#accounts.setLimits(account, limits);
    this.#watch();
    this.#add(account, {
      storedBytes: 0 - used.storedBytes,
      storedObjects: 0 - used.storedObjects,
    });
    if (limits) await this.#countFrom(account, countBegin, this.#countedAtOnce);
    else await this.#noteCount(account, null);
  }

  /** The accounts with limits of somebody, `tenant/name`, who writes in a bucket. */
  accountsOf(of: { tenant: string; bucket: string; writer: string }): AccountList {
    return this.#accounts.by(of.tenant, of.bucket, of.writer) ?? [];
  }

  /** Counts up to so many rows more of an account that is being counted; of others nothing. */
  async countOn(account: string, max: number): Promise<void> {
    const from = this.#counts.get(account);
    if (from) await this.#countFrom(account, from, max);
  }

  async #countFrom(account: string, begin: CountPlace, max: number): Promise<void> {
    const limited = limitedAccountOf(account);
    if (!limited) return;
    this.#isChanged = true;
    let from: CountPlace | null = begin;
    // A slice of what is left may be a share of one table: the last ones are not worth their time.
    for (let left = max; from && left > max / 8; ) {
      const { stored, end, rows } = await countSlice(this.#db.tx, limited, { from, max: left });
      this.#add(account, stored);
      from = end;
      left -= rows;
    }
    await this.#noteCount(account, from);
  }

  async #noteCount(account: string, place: CountPlace | null): Promise<void> {
    await noteCount(this.#db.tx, account, place);
    if (place) this.#counts.set(account, place);
    else this.#counts.delete(account);
  }

  /** What the transaction changed since this was last called; null: nothing. */
  take(): LimitedLevels | null {
    if (this.#levels.size === 0) return null;
    const levels = new Map<string, LimitedLevel>();
    for (const [account, level] of this.#levels) {
      if (level.storedBytes === 0 && level.storedObjects === 0) continue;
      levels.set(account, this.#counts.has(account) ? { ...level, isCounting: true } : level);
    }
    this.#levels.clear();
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
    this.#counts = await readCounts(this.#db.tx);
    this.#watch();
  }

  #watch(): void {
    if (this.#accounts.hasPrefixes) this.#db.exec(prefixTriggers);
    if (this.#accounts.hasWriters) this.#db.exec(writerTriggers);
  }

  #count(accounts: AccountList, { id, key }: Row, bytes: number, objects: number): void {
    const counted = bytes < 0 ? -countedBytes(-bytes) : countedBytes(bytes);
    const stored = { storedBytes: counted, storedObjects: objects };
    for (const account of accounts) {
      const place = this.#counts.size > 0 ? this.#counts.get(account) : undefined;
      if (!place || isBefore(Number(id), String(key), place)) this.#add(account, stored);
    }
  }

  #add(account: string, stored: Stored): void {
    this.#levels.set(account, sumOf(this.#levels.get(account) ?? noneStored, stored));
  }
}

/** Where a row is. */
interface Row {
  id: SqlValue;
  key: SqlValue;
}
