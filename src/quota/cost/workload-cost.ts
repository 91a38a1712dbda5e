// What a workload costs by a price book, also in another class or behind a cache.
// Invariant: exact but for one rounding, up, of each month's charge of a meter (`tariff.ts`).
// Specification: docs/formats/price-book.md, "Workloads".
import { divideUp, type Picodollars } from '../../core/money.ts';
import { classPrices, type PriceBook } from '../prices/price-book.ts';
import { bytesPerGb, priceTotal } from '../prices/tariff.ts';
import type { Workload, WorkloadPart } from './workload.ts';

/** A hypothesis: of what is put and kept it changes only the class. */
export interface WhatIf {
  /** All in this class instead of the parts' own. */
  readonly storageClass?: string | undefined;
  /**
   * How many of a million reads are answered by a cache: these cost no GET, no retrieval and no
   * egress.
   */
  readonly hitsPerMillion?: number | undefined;
}

/** The cost over all months of the workload. */
export interface WorkloadCost {
  readonly storage: Picodollars;
  readonly earlyDeletion: Picodollars;
  readonly puts: Picodollars;
  readonly gets: Picodollars;
  readonly ingress: Picodollars;
  readonly egress: Picodollars;
  readonly retrieval: Picodollars;
  /** The sum of the others. */
  readonly total: Picodollars;
}

/** Throws when the book has no price for a class. */
export function priceWorkload(
  book: PriceBook,
  workload: Workload,
  { storageClass, hitsPerMillion = 0 }: WhatIf = {},
): WorkloadCost {
  if (!Number.isInteger(hitsPerMillion) || hitsPerMillion < 0 || hitsPerMillion > 1_000_000) {
    throw new RangeError('hits per million must be a whole number from 0 to 1000000');
  }
  const { months } = workload;
  const parts = workload.parts.map((part) => ({
    ...behindCache(part, hitsPerMillion),
    ...(storageClass !== undefined && { storageClass }),
  }));
  const sumOf = (price: (part: WorkloadPart) => Picodollars): Picodollars =>
    parts.reduce((sum, part) => sum + price(part), 0n);
  const pricesOf = (part: WorkloadPart) => classPrices(book, part.storageClass);
  const bytesIn = sumOf((part) => BigInt(part.ingressBytes));
  const bytesOut = sumOf((part) => BigInt(part.egressBytes));
  const kept = parts.map((part) => ({ ...part, amount: billedBytes(book, part) }));
  return withTotal({
    storage: BigInt(months) * priceKept(book, kept, bytesPerGb),
    earlyDeletion: sumOf((part) => priceEarlyDeletion(book, part, months)),
    puts: sumOf((part) => BigInt(part.putRequests) * pricesOf(part).picodollarsPerPut),
    gets: sumOf((part) => BigInt(part.getRequests) * pricesOf(part).picodollarsPerGet),
    ingress: sumMonths(bytesIn, months, (bytes) => priceTotal(book.ingress, bytes, bytesPerGb)),
    egress: sumMonths(bytesOut, months, (bytes) => priceTotal(book.egress, bytes, bytesPerGb)),
    retrieval: sumOf((part) =>
      divideUp(BigInt(part.readBytes) * pricesOf(part).retrievalPicodollarsPerGb, bytesPerGb),
    ),
  });
}

/** The same cost for one year, rounded up. */
export function costOfYear(cost: Picodollars, months: number): Picodollars {
  return divideUp(cost * 12n, BigInt(months));
}

/**
 * Picocents (1e-14 USD) for each bit kept for a year, to three decimals: the unit of the Cloud
 * Performance Benchmark Series. Undefined when nothing is kept.
 */
export function picocentsPerBitYear(costPerYear: Picodollars, storedBytes: bigint) {
  if (storedBytes === 0n) return undefined;
  // A picodollar is 100 picocents.
  return Number((costPerYear * 100_000n) / (storedBytes * 8n)) / 1000;
}

/** How many of a part's reads remain behind a cache with this hit rate, rounded up. */
export function behindCache(part: WorkloadPart, hitsPerMillion: number): WorkloadPart {
  const missesPerMillion = BigInt(1_000_000 - hitsPerMillion);
  const left = (count: number) => Number(divideUp(BigInt(count) * missesPerMillion, 1_000_000n));
  return {
    ...part,
    getRequests: left(part.getRequests),
    readBytes: left(part.readBytes),
    egressBytes: left(part.egressBytes),
  };
}

/** What is kept in a class: bytes, or bytes times time. */
export interface Kept {
  readonly storageClass: string;
  readonly amount: bigint;
}

/**
 * The storage of a month, of which `unitsPerGb` of the amounts are a GB-month. That of a class is
 * one amount with one tariff, whatever parts it comes from.
 */
export function priceKept(book: PriceBook, kept: readonly Kept[], unitsPerGb: bigint): Picodollars {
  const byClass = new Map<string, bigint>();
  for (const { storageClass, amount } of kept) {
    byClass.set(storageClass, (byClass.get(storageClass) ?? 0n) + amount);
  }
  let sum = 0n;
  for (const [storageClass, amount] of byClass) {
    sum += priceTotal(classPrices(book, storageClass).storage, amount, unitsPerGb);
  }
  return sum;
}

function withTotal(cost: Omit<WorkloadCost, 'total'>): WorkloadCost {
  const { storage, earlyDeletion, puts, gets, ingress, egress, retrieval } = cost;
  const total = storage + earlyDeletion + puts + gets + ingress + egress + retrieval;
  return { ...cost, total };
}

export const noCost: WorkloadCost = withTotal({
  ...{ storage: 0n, earlyDeletion: 0n, puts: 0n, gets: 0n },
  ...{ ingress: 0n, egress: 0n, retrieval: 0n },
});

/** The sum of each meter, and of all. */
export function addCosts(a: WorkloadCost, b: WorkloadCost): WorkloadCost {
  return withTotal({
    storage: a.storage + b.storage,
    earlyDeletion: a.earlyDeletion + b.earlyDeletion,
    puts: a.puts + b.puts,
    gets: a.gets + b.gets,
    ingress: a.ingress + b.ingress,
    egress: a.egress + b.egress,
    retrieval: a.retrieval + b.retrieval,
  });
}

/** In a class with minimum days, an object that lives less leaves the rest to be paid each time. */
function priceEarlyDeletion(book: PriceBook, part: WorkloadPart, months: number): Picodollars {
  const { storage, minimumDays } = classPrices(book, part.storageClass);
  const { lifeDays = minimumDays } = part;
  if (lifeDays >= minimumDays) return 0n;
  // In 30 days, what is kept is replaced 30 / lifeDays times, and (minimumDays - lifeDays) / 30
  // months of storage are owed each time.
  const gbMonths = billedBytes(book, part) * BigInt(months) * BigInt(minimumDays - lifeDays);
  const picodollarsPerGb = storage.tiers[0]?.picodollarsPerGb ?? 0n;
  return divideUp(gbMonths * picodollarsPerGb, bytesPerGb * BigInt(lifeDays));
}

function billedBytes(book: PriceBook, part: WorkloadPart): bigint {
  const { minimumBytes } = classPrices(book, part.storageClass);
  const least = BigInt(part.storedObjects) * BigInt(minimumBytes);
  const stored = BigInt(part.storedBytes);
  return stored > least ? stored : least;
}

/** Adds up a total's months, which differ by at most one unit. */
function sumMonths(
  total: bigint,
  months: number,
  price: (share: bigint) => Picodollars,
): Picodollars {
  const [share, rest] = [total / BigInt(months), total % BigInt(months)];
  return (BigInt(months) - rest) * price(share) + rest * price(share + 1n);
}
