// What one operation costs by a price book. Pure: it knows neither accounts nor the clock.
// Invariant: each part is a whole number of picodollars, and their sum is never more than
// `chargeOperationAtMost` of the same operation, which is what a reservation sets aside.
// Specification: docs/decisions/0021-money-and-price-books.md.
import { divideUp, type Picodollars } from '../../core/money.ts';
import { type ClassPrices, classPrices, type PriceBook, type UsePrices } from './price-book.ts';
import { bytesPerGb, chargeAdded, chargeAtMost, type Tariff } from './tariff.ts';

/** The parts of an operation that cost money. Storage accrues separately (`storage-accrual.ts`). */
export interface PricedOperation {
  /** The class written to, or read from; STANDARD where no object is concerned. */
  readonly storageClass: string;
  /** Which of S3's prices for requests it has. */
  readonly price: 'put' | 'get' | 'free';
  readonly ingressBytes: number;
  readonly egressBytes: number;
  /** Read to be sent or copied, from its own class or, of a copy, its source's. */
  readonly retrievalBytes: number;
  readonly sourceClass?: string | null;
  /** By which what is read is priced; absent: as the rest. */
  readonly sourceBook?: PriceBook | null;
}

/**
 * The transfers of the month before the operation, in bytes, which decide the tiers of the tariffs.
 */
export interface MonthTransfers {
  readonly ingressBytes: number;
  readonly egressBytes: number;
}

export interface OperationCharge {
  readonly request: Picodollars;
  readonly ingress: Picodollars;
  readonly egress: Picodollars;
  readonly retrieval: Picodollars;
  /** The sum of the others. */
  readonly total: Picodollars;
}

/** The charge for an operation after the month's earlier transfers. */
export function chargeOperation(
  book: PriceBook,
  operation: PricedOperation,
  before: MonthTransfers,
): OperationCharge {
  const prices = classPrices(book, operation.storageClass);
  const request = requestPrice(prices, operation.price);
  const ingress = transferCharge(book.ingress, before.ingressBytes, operation.ingressBytes);
  const egress = transferCharge(book.egress, before.egressBytes, operation.egressBytes);
  const { sourceBook, sourceClass } = operation;
  const source = classPrices(sourceBook ?? book, sourceClass ?? operation.storageClass);
  const retrieval = retrievalCharge(source, operation.retrievalBytes);
  return { request, ingress, egress, retrieval, total: request + ingress + egress + retrieval };
}

/**
 * The most that an operation of at most these bytes can be charged, in whatever tier it ends; and
 * in whatever class, where that is not known: null.
 */
export function chargeOperationAtMost(
  book: PriceBook,
  operation: Omit<PricedOperation, 'storageClass'> & { storageClass: string | null },
): Picodollars {
  const { storageClass, sourceClass = storageClass } = operation;
  const prices = storageClass === null ? book.dearest : classPrices(book, storageClass);
  let source = prices;
  const from = operation.sourceBook ?? book;
  if (sourceClass !== storageClass || from !== book) {
    source = sourceClass === null ? from.dearest : classPrices(from, sourceClass);
  }
  return (
    requestPrice(prices, operation.price) +
    transferAtMost(book.ingress, operation.ingressBytes) +
    transferAtMost(book.egress, operation.egressBytes) +
    retrievalCharge(source, operation.retrievalBytes)
  );
}

/** The size that storage is charged for, in bytes. */
export function billableBytes(prices: ClassPrices, sizeBytes: number): number {
  return Math.max(sizeBytes, prices.minimumBytes);
}

const dayMs = 24 * 3600 * 1000;
/** Minimum days are thirtieths of a month, whatever month it is. */
const minimumMonthMs = 30n * BigInt(dayMs);

/**
 * What is still owed for an object that is deleted or overwritten `ageMs` after it was stored: its
 * storage, as large as it is billed, for what is left of the class's minimum days, at the price of
 * the first tier. At age 0 it is what such an object costs at least.
 */
export function chargeEarlyDeletion(
  prices: ClassPrices,
  { billedBytes, ageMs }: { billedBytes: number; ageMs: number },
): Picodollars {
  const leftMs = prices.minimumDays * dayMs - Math.max(0, ageMs);
  if (leftMs <= 0) return 0n;
  const byteMs = BigInt(billedBytes) * BigInt(leftMs);
  const picodollarsPerGb = prices.storage.tiers[0]?.picodollarsPerGb ?? 0n;
  return divideUp(byteMs * picodollarsPerGb, bytesPerGb * minimumMonthMs);
}

function requestPrice(prices: UsePrices, price: PricedOperation['price']): Picodollars {
  if (price === 'free') return 0n;
  return price === 'put' ? prices.picodollarsPerPut : prices.picodollarsPerGet;
}

/** What it costs to read so many bytes from a class. */
export function retrievalCharge(prices: UsePrices, retrievalBytes: number): Picodollars {
  if (retrievalBytes === 0 || prices.retrievalPicodollarsPerGb === 0n) return 0n;
  return divideUp(BigInt(retrievalBytes) * prices.retrievalPicodollarsPerGb, bytesPerGb);
}

/** In whatever tier. What is free needs no arithmetic of bigints. */
function transferAtMost(tariff: Tariff, bytes: number): Picodollars {
  if (bytes === 0 || tariff.picodollarsPerGbMost === 0n) return 0n;
  return chargeAtMost(tariff, BigInt(bytes), bytesPerGb);
}

/** What it costs to move so many bytes after those of the month before. */
function transferCharge(tariff: Tariff, before: number, added: number): Picodollars {
  return chargeAdded(tariff, { before: BigInt(before), added: BigInt(added) }, bytesPerGb);
}
