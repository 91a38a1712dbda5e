// Charges what is stored for the time it was, and what is owed for objects that ended early: to the
// bucket, its owner and the owner's tenant. It runs in the ledger's thread (docs/admin/charges.md).
// Invariants: what is charged is in a record of the same transaction; storage that goes on is
// charged whatever the limits say; and an object is replaced only where what is then owed can be
// paid, since nobody asked for that before.
import type { Reader, Tx } from '../../core/database.ts';
import type { Picodollars } from '../../core/money.ts';
import { isOwnClass } from '../../core/own-class.ts';
import { Pace } from '../../core/pace.ts';
import { type Charge, drawsOfOwner } from '../charge.ts';
import type { AccountBook } from '../leases/account-book.ts';
import type { AccountMacs } from '../leases/account-macs.ts';
import { noSettlement, type Shortage } from '../leases/requests.ts';
import { type PriceBooks, storageMarketOf } from '../prices/price-books.ts';
import { chargeStorage, monthAt } from '../prices/storage-accrual.ts';
import { billableCopies, chargeEarlyEnd, withoutGone } from './several-books.ts';
import { StorageBook } from './storage-book.ts';
import { type Accrued, accrue, takeDue } from './storage-level.ts';
import { divideAccrued, StoragePrices } from './storage-prices.ts';
import {
  listLevels,
  type OwnedPlace,
  type Place,
  readTotal,
  type UnchargedPlace,
} from './storage-tables.ts';

/** What an operation changed of what is charged by time. */
export interface StorageChange {
  /** Bytes added by class; less than 0: removed. */
  readonly billed: readonly { class: string; bytes: number }[];
  /** The object that was deleted or replaced. */
  readonly ended: Ended | null;
  /** Objects that snapshots held and that were let go of; absent: none. */
  readonly released?: readonly Ended[];
}

export interface Ended {
  readonly class: string;
  readonly billedBytes: number;
  /** Since when it was in the class. */
  readonly sinceMs: number;
}

/** What was charged for storage of one class in a part of one month. */
export interface StorageCharge extends Accrued {
  readonly cost: Picodollars;
}

/** What an operation was charged for storage, by the names of price books; of each more than 0. */
export type StorageCosts = Map<string, Picodollars>;

type Bucket = NonNullable<Charge['who']['bucket']>;

/**
 * For how many days what ends in a class of a tenant's own is paid for at least, by what the class
 * says.
 */
export type ClassDays = (tenant: string, storageClass: string) => Promise<number>;

/** An amount of one posting; a sum beyond it is posted in parts. */
const postedMax = BigInt(Number.MAX_SAFE_INTEGER);

export interface StorageChargesOptions {
  accounts: AccountBook;
  books: PriceBooks;
  macs: AccountMacs | null;
  classDays: ClassDays;
}

export class StorageCharges {
  readonly #accounts: AccountBook;
  readonly #prices: StoragePrices;
  readonly #book: StorageBook;
  readonly #classDays: ClassDays;

  /** `macs`: null: rows are trusted as they are read. */
  constructor(tx: Tx, { accounts, books, macs, classDays }: StorageChargesOptions) {
    this.#accounts = accounts;
    this.#classDays = classDays;
    this.#prices = new StoragePrices(books);
    this.#book = new StorageBook(tx, this.#prices, macs);
  }

  /** The bytes that storage of an object with so many copies is charged for, of all of them. */
  billedBytes(
    { who: { bucket }, pricing: { book, storageBook } }: Charge,
    storageClass: string,
    object: { sizeBytes: number; copies: number },
    timeMs: number,
  ): number | Promise<number> {
    if (!bucket || !isOwnClass(storageClass)) return this.#billedBy(book, storageClass, object);
    if (storageBook !== undefined) return this.#billedBy(storageBook, storageClass, object);
    const placed = this.#book.bookOf(placeOf(bucket, storageClass), book, timeMs);
    return placed.then((known) => this.#billedBy(known, storageClass, object));
  }

  #billedBy(
    book: string,
    storageClass: string,
    { sizeBytes, copies }: { sizeBytes: number; copies: number },
  ): number {
    const [first, ...others] = this.#prices.ofCopies(book, storageClass) ?? [];
    if (!first) return copies * sizeBytes;
    const all = others.length > 0 ? [first, ...others] : [{ ...first, copies }];
    return billableCopies(all, sizeBytes);
  }

  /** Why an object may not be replaced by this operation now; undefined: it may. */
  async findShortage(charge: Charge, ended: Ended, timeMs: number): Promise<Shortage | undefined> {
    const { bucket } = charge.who;
    const owed = await this.owedFor(charge, ended, timeMs);
    if (owed === 0n || !bucket) return undefined;
    return this.#accounts.findShortage(drawsOfOwner(bucket, owed), timeMs);
  }

  /** Notes what an operation changed, and gives the charges for objects that it ended. */
  async change(
    charge: Charge,
    { billed, ended, released = [] }: StorageChange,
    timeMs: number,
  ): Promise<StorageCosts> {
    const { pricing } = charge;
    const { bucket } = charge.who;
    const { book } = pricing;
    const owed: StorageCosts = new Map();
    if (!bucket) return owed;
    for (const one of ended ? [ended, ...released] : released) {
      for (const due of await this.#owedFor(charge, one, timeMs)) addCost(owed, due);
    }
    for (const { class: storageClass, bytes } of billed) {
      // What is in a class of a tenant's own is not in the bucket's store.
      const of = isOwnClass(storageClass)
        ? {
            book: pricing.storageBook ?? book,
            // That of the class that something leaves is not known here.
            keepsMarket: pricing.storageBook === undefined || bytes < 0,
          }
        : { book, keepsMarket: false };
      await this.#book.add(placeOf(bucket, storageClass), { bytes, ...of }, timeMs);
    }
    await this.#post(bucket, sumCosts(owed), timeMs);
    return owed;
  }

  /** Charges the rest of a bucket that was deleted. */
  async close({ who, pricing }: Charge, timeMs: number): Promise<StorageCosts> {
    const { bucket } = who;
    const costs: StorageCosts = new Map();
    if (!bucket) return costs;
    for (const storageClass of await this.#book.listClasses(bucket.tenant, bucket.name)) {
      const place = placeOf(bucket, storageClass);
      const due = await this.#book.end(place, pricing.book, timeMs);
      for (const charge of await this.#price(place, due, pricing.book)) addCost(costs, charge);
    }
    await this.#post(bucket, sumCosts(costs), timeMs);
    return costs;
  }

  /** Up to `max` places that were last charged before `beforeMs`. */
  listUncharged(beforeMs: number, max: number): Promise<UnchargedPlace[]> {
    return this.#book.listUncharged(beforeMs, max);
  }

  /**
   * Charges what has accrued in a place until now. From now on it does under `books`, of each copy
   * one, undefined where its store is not configured; if there are none, as before. Throws
   * UnsealedRow, and has changed nothing, where the place or who pays for it is not what was
   * written.
   */
  async charge(
    place: OwnedPlace,
    books: readonly (string | undefined)[],
    timeMs: number,
  ): Promise<StorageCharge[]> {
    const bucket = { tenant: place.tenant, name: place.bucket, owner: place.owner };
    for (const { accounts } of drawsOfOwner(bucket, 0n)) {
      for (const account of accounts) await this.#accounts.read(account, timeMs);
    }
    const { due, now } = await this.#book.take(place, books, timeMs);
    const charges = await this.#price(place, due, now);
    for (const { cost } of charges) await this.#post(bucket, cost, timeMs);
    return charges;
  }

  /**
   * Charges what has accrued in all of a bucket until now, by class; it goes on as before. Throws
   * as `charge` does.
   */
  async chargeBucket(
    { tenant, name: bucket, owner }: Bucket,
    timeMs: number,
  ): Promise<{ place: OwnedPlace; charges: StorageCharge[] }[]> {
    const charged: { place: OwnedPlace; charges: StorageCharge[] }[] = [];
    for (const storageClass of await this.#book.listClasses(tenant, bucket)) {
      const place = { tenant, bucket, class: storageClass, owner };
      charged.push({ place, charges: await this.charge(place, [], timeMs) });
    }
    return charged;
  }

  /** Does not list this one any more before what is charged before another time is asked for. */
  passOver(place: Place): void {
    this.#book.passOver(place);
  }

  flush(): Promise<void> {
    return this.#book.flush();
  }

  discard(): void {
    this.#book.discard();
  }

  /**
   * Prices what is due, by the book of `now` where its own is gone; what has no price is left out.
   */
  async #price(
    { class: storageClass }: Place,
    due: readonly Accrued[],
    now: string,
  ): Promise<StorageCharge[]> {
    const charges: StorageCharge[] = [];
    const isThere = (name: string) => this.#prices.named(name) !== undefined;
    const known = due.map((one) => ({ ...one, book: withoutGone(one.book, now, isThere) }));
    for (const one of known.flatMap(divideAccrued)) {
      const book = this.#prices.named(one.book);
      if (!book) continue;
      const prices = this.#prices.classOf(book, storageClass);
      if (prices.storage.picodollarsPerGbMost === 0n) continue;
      const month = monthAt(one.fromMs);
      const total = { market: storageMarketOf(book), class: storageClass, monthMs: month.beginMs };
      const before = await this.#book.addTotal(total, one.byteMs);
      const cost = chargeStorage(prices, { month, byteMs: one.byteMs }, before);
      charges.push({ ...one, book: book.name, cost });
    }
    return charges;
  }

  /**
   * What an object that ends now is still charged for, by the book that is in force then; in a
   * class of a tenant's own by the one by which that is charged, which may be of another store.
   */
  async owedFor(charge: Charge, ended: Ended, timeMs: number): Promise<Picodollars> {
    const owed = await this.#owedFor(charge, ended, timeMs);
    return owed.reduce((sum, { cost }) => sum + cost, 0n);
  }

  async #owedFor(
    { who: { bucket }, pricing }: Charge,
    { class: of, billedBytes, sinceMs }: Ended,
    timeMs: number,
  ): Promise<{ book: string; cost: Picodollars }[]> {
    const book =
      bucket && isOwnClass(of)
        ? await this.#book.bookOf(placeOf(bucket, of), pricing.book, timeMs)
        : pricing.book;
    const all = this.#prices.ofCopies(book, of) ?? [];
    const classDays = bucket && isOwnClass(of) ? await this.#classDays(bucket.tenant, of) : 0;
    return chargeEarlyEnd(all, { billedBytes, ageMs: timeMs - sinceMs, classDays });
  }

  async #post(bucket: Bucket, cost: Picodollars, timeMs: number): Promise<void> {
    for (let rest = cost; rest > 0n; ) {
      const part = rest < postedMax ? rest : postedMax;
      await this.#accounts.post(noSettlement, drawsOfOwner(bucket, part), timeMs);
      rest -= part;
    }
  }
}

/** Notes what something costs; nothing of what is free. */
export function addCost(
  costs: StorageCosts,
  { book, cost }: { book: string; cost: Picodollars },
): void {
  if (cost > 0n) costs.set(book, (costs.get(book) ?? 0n) + cost);
}

export function sumCosts(costs: StorageCosts): Picodollars {
  return [...costs.values()].reduce((sum, cost) => sum + cost, 0n);
}

function placeOf({ tenant, name: bucket }: Bucket, storageClass: string): Place {
  return { tenant, bucket, class: storageClass };
}

/**
 * What has accrued for storage and was not charged yet, by bucket of a tenant, picodollars: of one
 * owner, or one bucket, only where that is given. It changes nothing. With tiers it is an estimate:
 * what others are charged meanwhile counts before it.
 */
export async function readAccrued(
  read: Reader,
  books: PriceBooks,
  of: { tenant: string; owner?: string | undefined; bucket?: string | undefined },
  timeMs: number,
): Promise<{ bucket: string; owner: string; accrued: Picodollars }[]> {
  const order = new StoragePrices(books);
  const before = new Map<string, bigint>();
  const sums = new Map<string, { bucket: string; owner: string; accrued: Picodollars }>();
  const pace = new Pace();
  for (const { place, level } of await listLevels(read, of, order)) {
    const { bucket, owner, class: storageClass } = place;
    const sum = sums.get(bucket) ?? { bucket, owner, accrued: 0n };
    sums.set(bucket, sum);
    accrue(level, timeMs, order);
    for (const { book: name, fromMs, byteMs } of takeDue(level, '', order).flatMap(divideAccrued)) {
      const book = order.named(name);
      if (!book) continue;
      const month = monthAt(fromMs);
      const total = { market: storageMarketOf(book), class: storageClass, monthMs: month.beginMs };
      const key = `${total.market} ${storageClass} ${month.beginMs}`;
      const charged = before.get(key) ?? (await readTotal(read, total));
      before.set(key, charged + byteMs);
      sum.accrued += chargeStorage(order.classOf(book, storageClass), { month, byteMs }, charged);
    }
    await pace.rest();
  }
  return [...sums.values()];
}
