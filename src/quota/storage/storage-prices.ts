// The prices of storage by books and classes that may be gone: removing a book does not make
// storage free, and what was stored can always be charged.
import { type ClassPrices, type PriceBook, usualClass } from '../prices/price-book.ts';
import { type PriceBooks, storageMarketOf } from '../prices/price-books.ts';
import type { BookOrder } from './storage-level.ts';

export class StoragePrices implements BookOrder {
  readonly #books: PriceBooks;

  constructor(books: PriceBooks) {
    this.#books = books;
  }

  named(book: string): PriceBook | undefined {
    return this.#books.named(book);
  }

  /** A class that a book does not have is charged as the usual one, which every used book has. */
  classOf(book: PriceBook, storageClass: string): ClassPrices {
    const prices = book.classes.get(storageClass) ?? book.classes.get(usualClass);
    if (!prices) throw new Error(`the price book ${book.name} has no class ${usualClass}`);
    return prices;
  }

  marketOf(book: string): string | undefined {
    const named = this.#books.named(book);
    return named && storageMarketOf(named);
  }

  endMs(book: string, sinceMs: number): number {
    let endMs = Number.POSITIVE_INFINITY;
    for (const { effectiveMs } of this.#othersOf(book)) {
      if (effectiveMs > sinceMs) endMs = Math.min(endMs, effectiveMs);
    }
    return endMs;
  }

  nextOf(book: string, timeMs: number): string {
    const market = this.marketOf(book);
    return (market !== undefined && this.#books.inForce(market, timeMs)?.name) || book;
  }

  #othersOf(book: string): readonly PriceBook[] {
    const market = this.marketOf(book);
    return market === undefined ? [] : this.#books.booksOf(market);
  }
}
