// All price books that a gateway knows, and which of them is in force.
// Invariant: at any time at most one book is in force in a market.
// Specification: docs/formats/price-book.md, "Which book".
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type PriceBook, parsePriceBook } from './price-book.ts';

/** The folder of the books that come with Bursar. */
export const shippedFolder = fileURLToPath(new URL('../../../price-books/', import.meta.url));

/** The market in which nothing has a price. */
export const freeMarket = 'none/none';

/** A provider's region, `aws/us-east-1`. Names have no slash, so no two have one text. */
export function marketOf({ provider, region }: Pick<PriceBook, 'provider' | 'region'>): string {
  return `${provider}/${region}`;
}

export class PriceBooks {
  readonly #byName = new Map<string, PriceBook>();
  readonly #byMarket = new Map<string, PriceBook[]>();

  /** Throws Error when two books have one name, or one market and day. */
  constructor(books: Iterable<PriceBook>) {
    for (const book of books) {
      if (this.#byName.has(book.name)) throw new Error(`two price books are named ${book.name}`);
      this.#byName.set(book.name, book);
      const market = marketOf(book);
      const others = this.#byMarket.get(market) ?? [];
      const same = others.find(({ effectiveMs }) => effectiveMs === book.effectiveMs);
      if (same) throw new Error(`the price books ${same.name} and ${book.name} begin on one day`);
      others.push(book);
      others.sort((a, b) => b.effectiveMs - a.effectiveMs);
      this.#byMarket.set(market, others);
    }
  }

  /** The book in force at a time, in milliseconds since the epoch; undefined before the first. */
  inForce(market: string, timeMs: number): PriceBook | undefined {
    return this.booksOf(market).find(({ effectiveMs }) => effectiveMs <= timeMs);
  }

  /** All books of a market, the latest first. */
  booksOf(market: string): readonly PriceBook[] {
    return this.#byMarket.get(market) ?? [];
  }

  get markets(): string[] {
    return [...this.#byMarket.keys()].sort();
  }

  named(name: string): PriceBook | undefined {
    return this.#byName.get(name);
  }

  [Symbol.iterator](): Iterator<PriceBook> {
    return this.#byName.values();
  }
}

/** The prices of a market over time. Asking costs next to nothing while a book stays in force. */
export class MarketPrices {
  /** The latest first. */
  readonly #books: readonly PriceBook[];
  #current: PriceBook;
  /** When the next book comes into force. */
  #untilMs = Number.NEGATIVE_INFINITY;

  /** Throws Error when no book of the market is in force, or one that is to be lacks a class. */
  constructor(
    books: PriceBooks,
    { market, timeMs, classes }: { market: string; timeMs: number; classes: readonly string[] },
  ) {
    const known = books.booksOf(market);
    const current = books.inForce(market, timeMs);
    if (known.length === 0) {
      throw new Error(`no price book is of ${market}; there are ${books.markets.join(', ')}`);
    }
    if (!current) throw new Error(`no price book of ${market} is in force yet`);
    this.#books = known.slice(0, known.indexOf(current) + 1);
    for (const book of this.#books) {
      const lacking = classes.find((name) => !book.classes.has(name));
      if (lacking !== undefined) {
        throw new Error(`the price book ${book.name} of ${market} has no class ${lacking}`);
      }
    }
    this.#current = current;
  }

  /** The book in force. A clock that is set back to before the first keeps that one. */
  at(timeMs: number): PriceBook {
    if (timeMs >= this.#untilMs || timeMs < this.#current.effectiveMs) this.#find(timeMs);
    return this.#current;
  }

  #find(timeMs: number): void {
    const found = this.#books.findIndex(({ effectiveMs }) => effectiveMs <= timeMs);
    const index = found < 0 ? this.#books.length - 1 : found;
    this.#current = this.#books[index] as PriceBook;
    this.#untilMs = this.#books[index - 1]?.effectiveMs ?? Number.POSITIVE_INFINITY;
  }
}

/** Says the book in force of a store; `usual`: where the store has no prices of its own. */
export function booksInForce(
  usual: MarketPrices,
  ofStores: ReadonlyMap<number, MarketPrices>,
): (store: number) => PriceBook {
  return (store) => (ofStores.get(store) ?? usual).at(Date.now());
}

/**
 * Reads all `*.json` of the folders. Throws Error, naming the file, for one that is no price book
 * or is not named as the book in it, and errors of the file system.
 */
export function readPriceBooks(folders: readonly string[] = [shippedFolder]): PriceBooks {
  const files = folders.flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => name.endsWith('.json'))
      .map((name) => join(folder, name)),
  );
  return new PriceBooks(files.map(readPriceBook));
}

/** What the file of a book is called. */
export function fileOf(name: string): string {
  return `${name}.json`;
}

/** Reads one file. Throws Error as `readPriceBooks` does. */
export function readPriceBook(path: string): PriceBook {
  try {
    const book = parsePriceBook(readFileSync(path, 'utf8'));
    if (basename(path) !== fileOf(book.name)) throw new Error(`name: must be that of the file`);
    return book;
  } catch (cause) {
    throw new Error(`${path}: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
}
