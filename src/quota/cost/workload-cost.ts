// What a workload costs by a price book, also in another class or behind a cache.
// Invariant: exact but for one rounding, up, of each month's charge of a meter (`tariff.ts`).
// Specification: docs/formats/price-book.md, "Workloads".
import { divideUp, type Picodollars } from '../../core/money.ts';
import { classPrices, type PriceBook } from '../prices/price-book.ts';
import { bytesPerGb, priceTotal } from '../prices/tariff.ts';
import type { Workload, WorkloadPart } from './workload.ts';

/** What is asked: nothing of it changes what is put and kept but the class. */
export interface WhatIf {
  /** All in this class instead of the parts' own. */
  readonly storageClass?: string;
  /** Of a million reads, so many are answered by a cache: no GET, no retrieval, no egress. */
  readonly hitsPerMillion?: number;
}

/** Over all months of the workload. */
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
    ...part,
    ...(storageClass !== undefined && { storageClass }),
    ...missed(part, BigInt(1_000_000 - hitsPerMillion)),
  }));
  const sumOf = (price: (part: MissedPart) => Picodollars): Picodollars =>
    parts.reduce((sum, part) => sum + price(part), 0n);
  const pricesOf = (part: MissedPart) => classPrices(book, part.storageClass);
  const bytesIn = sumOf((part) => BigInt(part.ingressBytes));
  const bytesOut = sumOf((part) => part.missedEgressBytes);
  const cost = {
    storage: priceStorage(book, parts, months),
    earlyDeletion: sumOf((part) => priceEarlyDeletion(book, part, months)),
    puts: sumOf((part) => BigInt(part.putRequests) * pricesOf(part).picodollarsPerPut),
    gets: sumOf((part) => part.missedGets * pricesOf(part).picodollarsPerGet),
    ingress: sumMonths(bytesIn, months, (bytes) => priceTotal(book.ingress, bytes, bytesPerGb)),
    egress: sumMonths(bytesOut, months, (bytes) => priceTotal(book.egress, bytes, bytesPerGb)),
    retrieval: sumOf((part) =>
      divideUp(part.missedReadBytes * pricesOf(part).retrievalPicodollarsPerGb, bytesPerGb),
    ),
  };
  return { ...cost, total: Object.values(cost).reduce((sum, one) => sum + one, 0n) };
}

/** The same for a year, rounded up. */
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

interface MissedPart extends WorkloadPart {
  readonly missedGets: bigint;
  readonly missedReadBytes: bigint;
  readonly missedEgressBytes: bigint;
}

/** What of a part's reads a cache leaves, rounded up. */
function missed(part: WorkloadPart, missesPerMillion: bigint) {
  const left = (count: number) => divideUp(BigInt(count) * missesPerMillion, 1_000_000n);
  return {
    missedGets: left(part.getRequests),
    missedReadBytes: left(part.readBytes),
    missedEgressBytes: left(part.egressBytes),
  };
}

/** Storage of a class is one amount with one tariff, whatever parts it comes from. */
function priceStorage(
  book: PriceBook,
  parts: readonly WorkloadPart[],
  months: number,
): Picodollars {
  const bytesByClass = new Map<string, bigint>();
  for (const part of parts) {
    const bytes = bytesByClass.get(part.storageClass) ?? 0n;
    bytesByClass.set(part.storageClass, bytes + billedBytes(book, part));
  }
  let sum = 0n;
  for (const [storageClass, bytes] of bytesByClass) {
    const { storage } = classPrices(book, storageClass);
    sum += BigInt(months) * priceTotal(storage, bytes, bytesPerGb);
  }
  return sum;
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
