// Where a probe measures, and by which prices it estimates what that costs.
import type { ProbePrices } from '../../instruments/probe/spending.ts';
import { classPrices, type PriceBook } from '../../quota/prices/price-book.ts';
import { freeMarket, marketOf } from '../../quota/prices/price-books.ts';

export interface ProbePlace {
  bucket: string;
  /** The name that samples have of it. */
  name: string;
  /** Picodollars in decimal; null: they are not known. */
  prices: Readonly<Record<keyof ProbePrices, string>> | null;
}

/**
 * The prices that samples are estimated by: of prices with tiers the highest. Null: nothing has a
 * price.
 */
export function tellPrices(book: PriceBook, storageClass: string): ProbePlace['prices'] {
  if (marketOf(book) === freeMarket) return null;
  const prices = classPrices(book, storageClass);
  const perGbOut = book.egress.picodollarsPerGbMost + prices.retrievalPicodollarsPerGb;
  return {
    perPut: String(prices.picodollarsPerPut),
    perGet: String(prices.picodollarsPerGet),
    perGbIn: String(book.ingress.picodollarsPerGbMost),
    perGbOut: String(perGbOut),
  };
}
