// What the same would cost in storage classes of one's own: what each leg stores is priced by the
// book of its store, requests, transfers and what is read by that of the first, which answers.
import { CommandFailure } from '../core/command-failure.ts';
import type { Answers } from '../gateway/native/routes.ts';
import { addCosts, noCost, type WorkloadCost } from '../quota/cost/workload-cost.ts';
import { type PriceBook, usualClass } from '../quota/prices/price-book.ts';
import type { PriceBooks } from '../quota/prices/price-books.ts';
import { type Connection, callApi } from './api-client.ts';
import { pathIn } from './api-command.ts';

export interface PricedLeg {
  readonly book: PriceBook;
  readonly storageClass: string;
}

export interface ClassPlan {
  /** TENANT/NAME. */
  readonly name: string;
  /** Not empty. */
  readonly legs: readonly PricedLeg[];
  /** What the class promises, in words. */
  readonly sentences: readonly string[];
}

/** Asks for these classes, written TENANT/NAME. Rejects with `CommandFailure`. */
export async function readPlans(
  connection: Connection,
  books: PriceBooks,
  names: readonly string[],
): Promise<ClassPlan[]> {
  const plans: ClassPlan[] = [];
  for (const name of names) {
    const { json } = await callApi(connection, { method: 'GET', path: pathIn('classes', name) });
    const { explanation, minimum } = json as Answers['GetClass'];
    const legs = explanation.legs
      .map((leg) => pricedLeg(name, leg, books))
      .map((leg) => withMinimum(leg, minimum));
    plans.push({ name, legs, sentences: explanation.sentences });
  }
  return plans;
}

type Leg = Answers['GetClass']['explanation']['legs'][number];

function pricedLeg(name: string, { store, storageClass, priceBook }: Leg, books: PriceBooks) {
  if (priceBook === null) {
    throw new CommandFailure('failed', `${name}: the store ${store} is not configured now`);
  }
  const book = books.named(priceBook);
  if (book) return { book, storageClass: storageClass ?? usualClass };
  throw new CommandFailure('failed', `${name}: the price book ${priceBook} is not here`);
}

/** The same, with what the class itself has charged at least in its book. */
function withMinimum(leg: PricedLeg, { days, bytes }: Answers['GetClass']['minimum']): PricedLeg {
  const { book, storageClass } = leg;
  const prices = book.classes.get(storageClass);
  if (!prices || (days === 0 && bytes === 0)) return leg;
  const least = {
    minimumDays: Math.max(prices.minimumDays, days),
    minimumBytes: Math.max(prices.minimumBytes, bytes),
  };
  const classes = new Map(book.classes).set(storageClass, { ...prices, ...least });
  return { book: { ...book, classes }, storageClass };
}

/** `price` says what all of it costs by one book, in one class. */
export function costInClass(
  { legs }: ClassPlan,
  price: (leg: PricedLeg) => WorkloadCost,
): WorkloadCost {
  return legs
    .map(price)
    .map((cost, i) => (i === 0 ? cost : keptOf(cost)))
    .reduce(addCosts, noCost);
}

/** Of another leg than the first: what it stores. Its requests are the gateway's own. */
function keptOf({ storage, earlyDeletion }: WorkloadCost): WorkloadCost {
  return { ...noCost, storage, earlyDeletion };
}
