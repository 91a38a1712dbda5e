// The prices of storage by books and classes that may be gone: removing a book does not make
// storage free, and what was stored can always be charged.
import { type ClassPrices, type PriceBook, usualClass } from '../prices/price-book.ts';
import { type PriceBooks, storageMarketOf } from '../prices/price-books.ts';
import { type CopyPrices, copiesByBook, mapBooks, shareOut } from './several-books.ts';
import type { Accrued, BookOrder } from './storage-level.ts';

export class StoragePrices implements BookOrder {
  readonly #books: PriceBooks;

  constructor(books: PriceBooks) {
    this.#books = books;
  }

  named(book: string): PriceBook | undefined {
    return this.#books.named(book);
  }

  /**
   * The prices of a class under a book, or under several, of which those that are gone have the
   * prices of another; undefined: all are gone.
   */
  ofCopies(book: string, storageClass: string): CopyPrices | undefined {
    const alone = this.#books.named(book);
    if (alone) return [{ book, prices: this.classOf(alone, storageClass), copies: 1 }];
    const copies = [...copiesByBook(book)];
    const all = copies.map(([name]) => this.#books.named(name));
    const known = all.find((one) => one !== undefined);
    return (
      known &&
      copies.map(([, count], i) => {
        const named = all[i] ?? known;
        return { book: named.name, prices: this.classOf(named, storageClass), copies: count };
      })
    );
  }

  /** A class that a book does not have is charged as the usual one, which every used book has. */
  classOf(book: PriceBook, storageClass: string): ClassPrices {
    const prices = book.classes.get(storageClass) ?? book.classes.get(usualClass);
    if (!prices) throw new Error(`the price book ${book.name} has no class ${usualClass}`);
    return prices;
  }

  marketOf(book: string): string | undefined {
    return this.#marketOf(book) ?? mapBooks(book, (name) => this.#marketOf(name));
  }

  endMs(book: string, sinceMs: number): number {
    let endMs = Number.POSITIVE_INFINITY;
    for (const name of copiesByBook(book).keys()) {
      for (const { effectiveMs } of this.#othersOf(name)) {
        if (effectiveMs > sinceMs) endMs = Math.min(endMs, effectiveMs);
      }
    }
    return endMs;
  }

  nextOf(book: string, timeMs: number): string {
    const next = mapBooks(book, (name) => {
      const market = this.#marketOf(name);
      return (market !== undefined && this.#books.inForce(market, timeMs)?.name) || name;
    });
    return next ?? book;
  }

  #marketOf(name: string): string | undefined {
    const named = this.#books.named(name);
    return named && storageMarketOf(named);
  }

  #othersOf(name: string): readonly PriceBook[] {
    const market = this.#marketOf(name);
    return market === undefined ? [] : this.#books.booksOf(market);
  }
}

/** What was kept under several books, as what was kept under each; no more than there was. */
export function divideAccrued(accrued: Accrued): Accrued[] {
  const books = copiesByBook(accrued.book);
  if (books.size === 1) return [accrued];
  const shares = shareOut(accrued.byteMs, [...books.values()]);
  return [...books.keys()]
    .map((book, i) => ({ ...accrued, book, byteMs: shares[i] ?? 0n }))
    .filter(({ byteMs }) => byteMs > 0n);
}
