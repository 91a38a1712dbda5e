// Charges for storage on a database in memory, at times that the test says.
import { type OpenDatabase, openDatabase } from '#bursar/core/database.js';
import { schema } from '#bursar/ledger/schema.js';
import { Billing } from '#bursar/quota/billing.js';
import { type Charge, chargeStored } from '#bursar/quota/charge.js';
import type { PriceBook } from '#bursar/quota/prices/price-book.js';
import { PriceBooks, readPriceBooks } from '#bursar/quota/prices/price-books.js';
import {
  type StorageChange,
  type StorageCharge,
  sumCosts,
} from '#bursar/quota/storage/storage-charges.js';
import { labBooks } from './lab-books.ts';

export const GB = 2 ** 30;
export const hourMs = 3_600_000;
export const dayMs = 24 * hourMs;

export interface TestBucket {
  tenant: string;
  name: string;
  owner: string;
}

export const data: TestBucket = { tenant: 'one', name: 'data', owner: 'alice' };
export const logs: TestBucket = { tenant: 'two', name: 'logs', owner: 'bob' };

export class StorageRig {
  readonly db: OpenDatabase = openDatabase(':memory:', { readonly: false, cacheKib: 1024 });
  books: PriceBooks;
  billing: Billing;

  constructor(books: Iterable<PriceBook> = [...readPriceBooks(), ...labBooks()]) {
    this.books = new PriceBooks(books);
    this.db.exec(schema);
    for (const { tenant, name, owner } of [data, logs]) {
      this.db.exec(`
        INSERT INTO tenants (name, created_ms) VALUES ('${tenant}', 0);
        INSERT INTO buckets (tenant, name, owner, created_ms) VALUES
          ('${tenant}', '${name}', '${owner}', 0);`);
    }
    this.billing = new Billing(this.db.tx, 'run', this.books);
  }

  /** As after the end of a process: only what was flushed is there. */
  restart(books: Iterable<PriceBook> = this.books): void {
    this.books = new PriceBooks(books);
    this.billing = new Billing(this.db.tx, 'another run', this.books);
  }

  /** Adds bytes to what is kept, or changes it otherwise; gives what was charged for its end. */
  async change(
    timeMs: number,
    bytes: number,
    { bucket = data, book = 'lab-january', ...change }: Options = {},
  ): Promise<bigint> {
    const billed = [{ class: change.storageClass ?? 'STANDARD', bytes }];
    const ended = change.ended ?? null;
    const { storage } = this.billing;
    return sumCosts(await storage.change(chargeOf(bucket, book), { billed, ended }, timeMs));
  }

  /** Charges all that was not charged at this time yet. `books`: of each copy, as they are now. */
  async charge(
    timeMs: number,
    ...books: readonly (string | undefined)[]
  ): Promise<StorageCharge[]> {
    const { storage } = this.billing;
    const charges: StorageCharge[] = [];
    for (const place of await storage.listUncharged(timeMs, 100)) {
      charges.push(...(await storage.charge(place, books, timeMs)));
    }
    return charges;
  }

  async spent(account: string, timeMs: number): Promise<bigint> {
    return (await this.billing.accounts.read(account, timeMs)).used.spend;
  }
}

interface Options {
  bucket?: TestBucket;
  book?: string;
  storageClass?: string;
  ended?: StorageChange['ended'];
}

/** The charge of an operation of a stranger, who pays for no storage. */
export function chargeOf(bucket: TestBucket, book: string): Charge {
  return chargeStored({ tenant: 'far', principal: 'guest', tokens: [], bucket }, book);
}

export function sumOf(charges: readonly { cost: bigint }[]): bigint {
  return charges.reduce((sum, { cost }) => sum + cost, 0n);
}
