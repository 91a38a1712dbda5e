// Storage accrues: what is kept for how long, in byte-milliseconds (1/1000 of a byte-second), so
// that it can be cut at any tick of the clock without a remainder. Invariant: the charges of a
// class in a month add up to the price of its byte-milliseconds, however the time was cut
// (`tariff.ts`). Specification: "How will I be charged", Amazon S3 FAQ, which averages over the
// month in hours; here it is milliseconds.
import type { Picodollars } from '../../core/money.ts';
import type { ClassPrices } from './price-book.ts';
import { bytesPerGb, chargeAdded } from './tariff.ts';

/** A calendar month (UTC): `beginMs <= t < endMs`. */
export interface Month {
  readonly beginMs: number;
  readonly endMs: number;
}

/** What was kept in one month. */
export interface MonthStorage {
  readonly month: Month;
  readonly byteMs: bigint;
}

export function monthAt(timeMs: number): Month {
  const time = new Date(timeMs);
  const [year, month] = [time.getUTCFullYear(), time.getUTCMonth()];
  return { beginMs: Date.UTC(year, month), endMs: Date.UTC(year, month + 1) };
}

/** The charge for more of a month's storage of a class, after what was charged before. */
export function chargeStorage(
  prices: ClassPrices,
  { month, byteMs }: MonthStorage,
  beforeByteMs: bigint,
): Picodollars {
  const amounts = { before: beforeByteMs, added: byteMs };
  return chargeAdded(prices.storage, amounts, bytesPerGb * BigInt(month.endMs - month.beginMs));
}
