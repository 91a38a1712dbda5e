// All price books that a gateway knows, and which of them is in force.
// Invariant: at any time at most one book is in force in a market.
// Specification: docs/formats/price-book.md, "Which book".
import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bookOfClass, type PriceBook, parsePriceBook, type RestoreTier } from './price-book.ts';

/** The folder of the books that come with Bursar. */
export const shippedFolder = fileURLToPath(new URL('../../../price-books/', import.meta.url));

/** The market in which nothing has a price. */
export const freeMarket = 'none/none';

/** A provider's region, `aws/us-east-1`. Names have no slash, so no two have one text. */
export function marketOf({ provider, region }: Pick<PriceBook, 'provider' | 'region'>): string {
  return `${provider}/${region}`;
}

/** The same, of what is stored: what lies in a class of the provider is apart from the rest. */
export function storageMarketOf(book: PriceBook): string {
  return book.ofClass === undefined ? marketOf(book) : `${marketOf(book)}:${book.ofClass}`;
}

export class PriceBooks {
  readonly #byName = new Map<string, PriceBook>();
  /** Those of one class that were asked for, by their names. */
  readonly #ofClasses = new Map<string, PriceBook>();
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

  /** The book of what lies in a class, or of the rest; of its restores, where those have one. */
  inClass(book: PriceBook, storageClass: string, tier?: RestoreTier): PriceBook {
    const [plain = ''] = divide(book.name);
    const inClass = this.named(`${plain}:${storageClass}`) ?? book;
    return tier ? (this.named(`${inClass.name}:${tier}`) ?? inClass) : inClass;
  }

  /** All books of a market, the latest first; of `MARKET:CLASS` those that have the class. */
  booksOf(market: string): readonly PriceBook[] {
    const [plain = '', ofClass] = divide(market);
    const books = this.#byMarket.get(plain) ?? [];
    if (ofClass === undefined) return books;
    return books.flatMap(({ name }) => this.named(`${name}:${ofClass}`) ?? []);
  }

  get markets(): string[] {
    return [...this.#byMarket.keys()].sort();
  }

  /**
   * `BOOK`, or `BOOK:CLASS` and `BOOK:CLASS:TIER`, the book of what lies in a class of the provider
   * (`bookOfClass`). There are no more of them than there are classes and tiers.
   */
  named(name: string): PriceBook | undefined {
    return this.#byName.get(name) ?? this.#ofClasses.get(name) ?? this.#makeNamed(name);
  }

  #makeNamed(name: string): PriceBook | undefined {
    const [plain = '', ofClass] = divide(name);
    const book = this.#byName.get(plain);
    if (!book || ofClass === undefined) return undefined;
    const [storageClass = '', tier] = divide(ofClass);
    const made = bookOfClass(book, storageClass, tier as RestoreTier | undefined);
    if (made) this.#ofClasses.set(name, made);
    return made;
  }

  [Symbol.iterator](): Iterator<PriceBook> {
    return this.#byName.values();
  }
}

/** At the first colon, which no name has. */
function divide(name: string): string[] {
  const at = name.indexOf(':');
  return at < 0 ? [name] : [name.slice(0, at), name.slice(at + 1)];
}

/** The prices of a market over time. Asking costs next to nothing while a book stays in force. */
export class MarketPrices {
  /** The latest first. */
  readonly #books: readonly PriceBook[];
  #current: PriceBook;
  /** When the next book comes into force. */
  #untilMs = Number.NEGATIVE_INFINITY;

  /**
   * Throws Error when no book of the market is in force, or one that is to be lacks a class. With
   * `ofClass` the books are those of what lies in that class.
   */
  constructor(
    books: PriceBooks,
    {
      market,
      timeMs,
      classes,
      ofClass,
    }: { market: string; timeMs: number; classes: readonly string[]; ofClass?: string | undefined },
  ) {
    const known = books.booksOf(market);
    const current = books.inForce(market, timeMs);
    if (known.length === 0) {
      throw new Error(`no price book is of ${market}; there are ${books.markets.join(', ')}`);
    }
    if (!current) throw new Error(`no price book of ${market} is in force yet`);
    const used = known.slice(0, known.indexOf(current) + 1);
    for (const book of used) {
      const lacking = classes.find((name) => !book.classes.has(name));
      if (lacking !== undefined) {
        throw new Error(`the price book ${book.name} of ${market} has no class ${lacking}`);
      }
    }
    const inClass = (book: PriceBook) =>
      ofClass === undefined ? book : (books.named(`${book.name}:${ofClass}`) ?? book);
    this.#books = used.map(inClass);
    this.#current = inClass(current);
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
