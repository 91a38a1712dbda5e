// Which prices each store has: those of a market, by the books that come with Bursar and the
// operator's own. Invariant: a gateway that serves has a book for every store, now and as later
// ones come into force; a missing one stops the start. Specification: docs/admin/prices.md.

import { CommandFailure, messageOfFailure } from '../../core/command-failure.ts';
import { localStore } from '../../core/manifest.ts';
import { type PriceBook, usualClass } from '../../quota/prices/price-book.ts';
import {
  booksInForce,
  freeMarket,
  MarketPrices,
  type PriceBooks,
  readPriceBooks,
  shippedFolder,
} from '../../quota/prices/price-books.ts';
import type { Config } from '../settings/config.ts';
import { flagOf } from '../settings/setting.ts';
import { settings } from '../settings/settings.ts';

/** The books that are shipped, and an operator's. Throws `CommandFailure` (usage). */
export function openPriceBooks(folder: string | undefined): PriceBooks {
  try {
    return readPriceBooks(folder === undefined ? [shippedFolder] : [shippedFolder, folder]);
  } catch (error) {
    const message = `${flagOf(settings.priceBooks)}: ${messageOfFailure(error)}`;
    throw new CommandFailure('usage', message, error);
  }
}

/** Prices by the name of their store. */
export class StorePrices {
  readonly books: PriceBooks;
  /** The book in force of a store. */
  readonly bookOf: (store: number) => PriceBook;
  readonly #byName = new Map<string, MarketPrices>();
  readonly #byNumber = new Map<number, MarketPrices>();

  /** Throws `CommandFailure` (usage) that names the setting. */
  constructor(config: Pick<Config, 'prices' | 'priceBooks' | 'stores'>, timeMs: number) {
    this.books = openPriceBooks(config.priceBooks);
    const follow = (market: string, origin: string, storageClass?: string): MarketPrices => {
      try {
        const isPriced = storageClass !== undefined && market !== freeMarket;
        const classes = isPriced ? [usualClass, storageClass] : [usualClass];
        const isClassed = isPriced && storageClass !== usualClass;
        const ofClass = isClassed ? storageClass : undefined;
        return new MarketPrices(this.books, { market, timeMs, classes, ofClass });
      } catch (error) {
        throw new CommandFailure('usage', `${origin}: ${messageOfFailure(error)}`, error);
      }
    };
    this.bookOf = booksInForce(follow(config.prices, flagOf(settings.prices)), this.#byNumber);
    for (const { name, prices, storageClass } of config.stores ?? []) {
      if (prices === undefined && storageClass === undefined) continue;
      const origin = `stores.${name}.${prices === undefined ? 'storageClass' : 'prices'}`;
      this.#byName.set(name, follow(prices ?? config.prices, origin, storageClass));
    }
  }

  /** Says which store has which number, before prices are looked up by number. */
  enter(stores: readonly { number: number; name: string }[]): void {
    for (const { number, name } of stores) {
      const prices = this.#byName.get(name);
      if (prices && number !== localStore) this.#byNumber.set(number, prices);
    }
  }
}
