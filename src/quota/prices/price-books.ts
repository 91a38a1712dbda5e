// All price books that a gateway knows, and which of them is in force.
// Invariant: at any time at most one book is in force for a provider's region.
// Specification: docs/formats/price-book.md, "Which book".
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type PriceBook, parsePriceBook } from './price-book.ts';

/** The folder of the books that come with Bursar. */
export const shippedFolder = fileURLToPath(new URL('../../../price-books/', import.meta.url));

export class PriceBooks {
  readonly #byName = new Map<string, PriceBook>();
  /** By provider and region, the latest first. */
  readonly #byPlace = new Map<string, PriceBook[]>();

  /** Throws Error when two books have one name, or one provider, region and day. */
  constructor(books: Iterable<PriceBook>) {
    for (const book of books) {
      if (this.#byName.has(book.name)) throw new Error(`two price books are named ${book.name}`);
      this.#byName.set(book.name, book);
      const place = placeOf(book.provider, book.region);
      const others = this.#byPlace.get(place) ?? [];
      const same = others.find(({ effectiveMs }) => effectiveMs === book.effectiveMs);
      if (same) throw new Error(`the price books ${same.name} and ${book.name} begin on one day`);
      others.push(book);
      others.sort((a, b) => b.effectiveMs - a.effectiveMs);
      this.#byPlace.set(place, others);
    }
  }

  /** The book in force at a time, in milliseconds since the epoch; undefined before the first. */
  inForce(provider: string, region: string, timeMs: number): PriceBook | undefined {
    const books = this.#byPlace.get(placeOf(provider, region));
    return books?.find(({ effectiveMs }) => effectiveMs <= timeMs);
  }

  named(name: string): PriceBook | undefined {
    return this.#byName.get(name);
  }

  [Symbol.iterator](): Iterator<PriceBook> {
    return this.#byName.values();
  }
}

/**
 * Reads all `*.json` of the folders. Throws Error, naming the file, for one that is no price book or
 * is not named as the book in it, and errors of the file system.
 */
export function readPriceBooks(folders: readonly string[] = [shippedFolder]): PriceBooks {
  const files = folders.flatMap((folder) =>
    readdirSync(folder)
      .filter((name) => name.endsWith('.json'))
      .map((name) => ({ name, path: join(folder, name) })),
  );
  return new PriceBooks(
    files.map(({ name, path }) => {
      try {
        const book = parsePriceBook(readFileSync(path, 'utf8'));
        if (name !== `${book.name}.json`) throw new Error(`name: must be that of the file`);
        return book;
      } catch (cause) {
        throw new Error(`${path}: ${cause instanceof Error ? cause.message : cause}`, { cause });
      }
    }),
  );
}

/** Names have no slash, so no two places have one text. */
function placeOf(provider: string, region: string): string {
  return `${provider}/${region}`;
}
