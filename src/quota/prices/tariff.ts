// A tariff: a price per GB that changes with how much it has been in the month.
// Invariant: a charge is the price of the new total less the price of the old one, each rounded up
// once. So the charges of a month add up to the price of its total, however it came together, and
// `chargeAtMost` is never less than the charge for as much, whatever came before it.
import { divideUp, type Picodollars } from '../../core/money.ts';

/** What S3's bills call a GB. */
export const bytesPerGb = 2n ** 30n;

export interface Tier {
  /** Where it ends, in GB of the month's total; undefined in the last. */
  readonly upToGb: bigint | undefined;
  readonly picodollarsPerGb: Picodollars;
}

/** Tiers in ascending order. One of price 0 at the beginning is a free amount. */
export interface Tariff {
  readonly tiers: readonly Tier[];
  /** The dearest tier's price. */
  readonly picodollarsPerGbMost: Picodollars;
}

export function makeTariff(tiers: readonly Tier[]): Tariff {
  let most = 0n;
  for (const { picodollarsPerGb } of tiers) if (picodollarsPerGb > most) most = picodollarsPerGb;
  return { tiers, picodollarsPerGbMost: most };
}

/**
 * The price of a month's total, rounded up. `unitsPerGb` says what is counted: 2^30 for bytes, 2^30
 * times the length of the month for bytes times time.
 */
export function priceTotal(tariff: Tariff, total: bigint, unitsPerGb: bigint): Picodollars {
  let sum = 0n;
  let begin = 0n;
  for (const { upToGb, picodollarsPerGb } of tariff.tiers) {
    const end = upToGb === undefined ? total : upToGb * unitsPerGb;
    if (end >= total) {
      sum += (total - begin) * picodollarsPerGb;
      break;
    }
    sum += (end - begin) * picodollarsPerGb;
    begin = end;
  }
  return divideUp(sum, unitsPerGb);
}

/** The charge for `added` units after `before` ones in the same month. */
export function chargeAdded(
  tariff: Tariff,
  { before, added }: { before: bigint; added: bigint },
  unitsPerGb: bigint,
): Picodollars {
  if (before < 0n || added < 0n) throw new RangeError('amounts must not be negative');
  if (added === 0n || tariff.picodollarsPerGbMost === 0n) return 0n;
  return priceTotal(tariff, before + added, unitsPerGb) - priceTotal(tariff, before, unitsPerGb);
}

/** The most that `added` units can be charged, whatever came before them. */
export function chargeAtMost(tariff: Tariff, added: bigint, unitsPerGb: bigint): Picodollars {
  if (added < 0n) throw new RangeError('amounts must not be negative');
  return divideUp(added * tariff.picodollarsPerGbMost, unitsPerGb);
}
