// The classes of a chain with their prices: those of a price book by its names, and classes of
// one's own, written TENANT/NAME, by the books of their stores.
import { CommandFailure } from '../../core/command-failure.ts';
import { picodollarsPerUsd } from '../../core/money.ts';
import type { PriceBook } from '../../quota/prices/price-book.ts';
import type { PriceBooks } from '../../quota/prices/price-books.ts';
import type { Chain, Tier } from '../../tiering/policy/tiers.ts';
import type { Connection } from '../api-client.ts';
import { type PricedLeg, readPlans } from '../class-plan.ts';

/** Of a year that has 365 days and a quarter. */
const daysPerMonth = 365.25 / 12;

/** Rejects with `CommandFailure`. */
export async function readChain(
  connection: Connection,
  books: PriceBooks,
  book: PriceBook | undefined,
  names: readonly string[],
): Promise<Chain> {
  const tiers: Tier[] = [];
  for (const name of names) {
    const legs = name.includes('/')
      ? (await readPlans(connection, books, [name])).flatMap((plan) => plan.legs)
      : [legOf(book, name)];
    tiers.push(tierOf(name, legs));
  }
  const [first, ...others] = tiers;
  if (first && others.length > 0) return [first, ...others];
  throw new CommandFailure('usage', 'a chain has two classes at least');
}

function legOf(book: PriceBook | undefined, storageClass: string): PricedLeg {
  if (!book) throw new CommandFailure('failed', 'no price book is in force: give --book');
  if (book.classes.has(storageClass)) return { book, storageClass };
  const names = [...book.classes.keys()].join(', ');
  throw new CommandFailure('usage', `${book.name} has no class ${storageClass}, but ${names}`);
}

/** All copies are stored; the first is asked, and the move is priced as a PUT there. */
function tierOf(name: string, legs: readonly PricedLeg[]): Tier {
  const all = legs.map(({ book, storageClass }) => {
    const prices = book.classes.get(storageClass);
    if (prices) return prices;
    throw new CommandFailure('failed', `${book.name} has no class ${storageClass}`);
  });
  const [first] = all;
  if (!first) throw new CommandFailure('failed', `${name} has no copies`);
  const perGbMonth = all.reduce((sum, { storage }) => {
    return sum + usdOf(storage.tiers[0]?.picodollarsPerGb ?? 0n);
  }, 0);
  return {
    name,
    perGbDay: perGbMonth / daysPerMonth,
    perGbRead: usdOf(first.retrievalPicodollarsPerGb),
    perRead: usdOf(first.picodollarsPerGet),
    perMove: usdOf(first.picodollarsPerPut),
    minimumDays: Math.max(...all.map(({ minimumDays }) => minimumDays)),
    minimumBytes: Math.max(...all.map(({ minimumBytes }) => minimumBytes)),
  };
}

function usdOf(picodollars: bigint): number {
  return Number(picodollars) / Number(picodollarsPerUsd);
}
