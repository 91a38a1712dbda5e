// What is kept in several stores at once, each under prices of its own. Invariants: what is kept of
// an object in all of them is one amount, of which each store has the same share; and shares are
// whole and add up to what is shared.
// Specification: docs/decisions/0151-several-price-books.md.
import type { Picodollars } from '../../core/money.ts';
import { billableBytes, chargeEarlyDeletion } from '../prices/charges.ts';
import { type ClassPrices, classPrices, type PriceBook } from '../prices/price-book.ts';

/** No name of a book has it (prices/price-book.ts). */
const separator = '+';

/** The name of the books of all copies together, in their order: of one, where all are the same. */
export function joinBooks(names: readonly string[]): string {
  return new Set(names).size < 2 ? (names[0] ?? '') : names.join(separator);
}

/** The books under which copies are, each with how many. */
export function copiesByBook(joined: string): Map<string, number> {
  const copies = new Map<string, number>();
  for (const name of namesIn(joined)) copies.set(name, (copies.get(name) ?? 0) + 1);
  return copies;
}

/** What is said of each book alone, of all together; undefined: of one of them nothing is. */
export function mapBooks(
  joined: string,
  tell: (name: string) => string | undefined,
): string | undefined {
  const told: string[] = [];
  for (const name of namesIn(joined)) {
    const one = tell(name);
    if (one === undefined) return undefined;
    told.push(one);
  }
  return joinBooks(told);
}

/**
 * Under what goes on what was under `before`, where the stores of copies have these books now. A
 * copy whose store is not configured any more goes on as before where that tells it, and else as
 * the first one whose store is.
 */
export function goOnUnder(before: string, now: readonly (string | undefined)[]): string {
  const known = now.find((name) => name !== undefined);
  if (known === undefined) return before;
  const names = namesIn(before);
  const isByCopy = names.length === now.length;
  return joinBooks(now.map((name, i) => name ?? (isByCopy ? names[i] : undefined) ?? known));
}

/** The same books, and for those that are gone what `now` has instead, where that is there. */
export function withoutGone(
  joined: string,
  now: string,
  isThere: (name: string) => boolean,
): string {
  const names = namesIn(joined);
  if (names.every(isThere)) return joined;
  const others = namesIn(now);
  const [first] = others.filter(isThere);
  if (first === undefined) return joined;
  const instead = (i: number) => {
    const other = others[i];
    return other !== undefined && isThere(other) ? other : first;
  };
  if (names.length === 1) return joinBooks(others.map((_, i) => instead(i)));
  return joinBooks(names.map((name, i) => (isThere(name) ? name : instead(i))));
}

/** What of an amount is whose, by how many copies each has. */
export function shareOut(amount: bigint, copies: readonly number[]): bigint[] {
  const all = BigInt(copies.reduce((sum, one) => sum + one, 0));
  let [before, given] = [0n, 0n];
  return copies.map((one) => {
    before += BigInt(one);
    const share = (amount * before) / all - given;
    given += share;
    return share;
  });
}

/** The prices of the stores in which an object has copies, each with how many. */
export type CopyPrices = readonly { book: string; prices: ClassPrices; copies: number }[];

/** The bytes that an object counts for where storage is charged, of all copies. */
export function billableCopies(all: CopyPrices, sizeBytes: number): number {
  return all.reduce((sum, one) => sum + one.copies * billableBytes(one.prices, sizeBytes), 0);
}

/**
 * What is still owed for an object that ends, by book. `billedBytes`: of all copies; `classDays`:
 * for how long it is paid for at least, whatever the books say.
 */
export function chargeEarlyEnd(
  all: CopyPrices,
  { billedBytes, ageMs, classDays }: { billedBytes: number; ageMs: number; classDays: number },
): { book: string; cost: Picodollars }[] {
  const copies = all.map((one) => one.copies);
  const shares = shareOut(BigInt(billedBytes), copies);
  return all.map(({ book, prices }, i) => {
    const share = { billedBytes: Number(shares[i]), ageMs };
    const minimumDays = Math.max(prices.minimumDays, classDays);
    return { book, cost: chargeEarlyDeletion({ ...prices, minimumDays }, share) };
  });
}

/** What storing an object costs at least, with a copy under each of the books. */
export function leastCost(
  books: readonly PriceBook[],
  storageClass: string,
  sizeBytes: number,
  minimum: { days: number; bytes: number },
): Picodollars {
  const all = books.map((book) => {
    return { book: book.name, prices: classPrices(book, storageClass), copies: 1 };
  });
  const isFree = all.every(({ prices }) => prices.minimumDays === 0);
  if (isFree && minimum.days === 0) return 0n;
  const billedBytes = billableCopies(all, Math.max(sizeBytes, minimum.bytes));
  const owed = chargeEarlyEnd(all, { billedBytes, ageMs: 0, classDays: minimum.days });
  return owed.reduce((sum, { cost }) => sum + cost, 0n);
}

function namesIn(joined: string): string[] {
  return joined.split(separator);
}
