// What audit records say that was paid, and what the same would have cost by other prices.
// Invariant: what was paid is the sum of the records' costs, to the picodollar; what of it was for
// requests follows from the books that they name. What is compared with it is priced by calendar
// months, as bills are, so the same prices give the same. Specification: docs/admin/cost.md.
import { getOrMake } from '../../core/maps.ts';
import { type Picodollars, parseUsd } from '../../core/money.ts';
import { accountsOf } from '../charge.ts';
import { retrievalCharge } from '../prices/charges.ts';
import { classPrices, type PriceBook, usualClass } from '../prices/price-book.ts';
import type { PriceBooks } from '../prices/price-books.ts';
import { type Month, monthAt } from '../prices/storage-accrual.ts';
import { bytesPerGb, chargeAtMost } from '../prices/tariff.ts';
import { type ChargedRecord, chargedOf, type Parties } from '../roll-up/charged-record.ts';
import { emptyPart, type WorkloadPart } from './workload.ts';
import {
  addCosts,
  behindCache,
  type Kept,
  noCost,
  priceKept,
  priceWorkload,
  type WorkloadCost,
} from './workload-cost.ts';

/** Those members of a record that say something about costs (docs/audit/records.md). */
export interface CostRecord
  extends Readonly<Pick<ChargedRecord, 'time' | 'action' | 'class' | 'bytesIn' | 'bytesOut'>>,
    Readonly<Pick<ChargedRecord, 'cost' | 'storageCost' | 'reads' | 'lastRead'>> {
  readonly index: number;
  readonly status: number;
  readonly size?: number;
  readonly price?: 'put' | 'get';
  readonly priceBook?: string;
  /** Of what was charged for storage: for a part of which month, and how much for how long. */
  readonly period?: string;
  readonly byteMs?: string;
}

/** What is asked of the same operations. */
export interface RecordsWhatIf {
  /** Undefined: by the books that were in force. */
  readonly book?: PriceBook | undefined;
  /** All in this class; undefined: in their own. */
  readonly storageClass?: string | undefined;
  /** How many of a million reads of objects are answered by a cache. */
  readonly hitsPerMillion?: number | undefined;
}

type Flows = { -readonly [P in keyof WorkloadPart]: WorkloadPart[P] };

/** What was done in one class. A cache is asked for objects, not for listings. */
interface Use {
  readonly reads: Flows;
  readonly others: Flows;
  byteMs: bigint;
}

interface MonthUse {
  readonly month: Month;
  /** The costs by price book, then by class. */
  readonly byBook: Map<string, Map<string, Use>>;
}

const deleteBucket = 's3:DeleteBucket';

export class RecordCosts {
  readonly #books: PriceBooks;
  readonly #months = new Map<number, MonthUse>();
  #charged: WorkloadCost = noCost;
  /** Records that somebody was charged for. */
  count = 0;

  constructor(books: PriceBooks) {
    this.#books = books;
  }

  /** The sums of what the records say. */
  get charged(): WorkloadCost {
    return this.#charged;
  }

  /** Throws Error for a record that names a price book that is not there, or is another now. */
  add(record: CostRecord): void {
    if (record.cost === undefined && record.storageCost === undefined) return;
    this.count++;
    const cost = usdOf(record.cost);
    if (record.byteMs !== undefined) {
      this.#charge({ storage: cost });
      const [from = ''] = record.period?.split('/') ?? [];
      this.#useOf(record, Date.parse(from)).byteMs += BigInt(record.byteMs);
      return;
    }
    if (record.storageCost !== undefined) {
      const owed = usdOf(record.storageCost);
      // Charges that accrued for a bucket and were not made yet end with the bucket.
      this.#charge(record.action === deleteBucket ? { storage: owed } : { earlyDeletion: owed });
    }
    if (record.cost === undefined) return;
    if (record.price === undefined) {
      if (cost > 0n) throw new Error(`record ${record.index} does not say what its cost is for`);
      return;
    }
    this.#charge(this.#divide(record, cost));
    addFlows(this.#useOf(record, Date.parse(record.lastRead ?? record.time)), record);
  }

  /**
   * The same by other prices, rounded up once a month and meter. Throws where there is no price.
   */
  price({ book, storageClass, hitsPerMillion = 0 }: RecordsWhatIf = {}): WorkloadCost {
    let sum = noCost;
    for (const { month, byBook } of this.#months.values()) {
      const groups = book ? [[book, merge(byBook)] as const] : this.#named(byBook);
      for (const [prices, uses] of groups) {
        sum = addCosts(sum, priceMonth(prices, { month, uses, storageClass, hitsPerMillion }));
      }
    }
    return sum;
  }

  #named(byBook: MonthUse['byBook']): (readonly [PriceBook, [string, Use][]])[] {
    return [...byBook].map(([name, byClass]) => [this.#bookOf(name), [...byClass]] as const);
  }

  #bookOf(name: string): PriceBook {
    const book = this.#books.named(name);
    if (!book) throw new Error(`the records name the price book ${name}, which is not here`);
    return book;
  }

  #useOf({ priceBook = '', class: of = usualClass }: CostRecord, timeMs: number): Use {
    const month = monthAt(timeMs);
    const inMonth = getOrMake(this.#months, month.beginMs, () => ({ month, byBook: new Map() }));
    const byClass = getOrMake(inMonth.byBook, priceBook, () => new Map<string, Use>());
    return getOrMake(byClass, of, () => ({
      reads: emptyPart(of),
      others: emptyPart(of),
      byteMs: 0n,
    }));
  }

  #charge(some: Partial<WorkloadCost>): void {
    this.#charged = addCosts(this.#charged, { ...noCost, ...some });
  }

  /** What of a record's cost is for what. All but the request hang on the month's tiers. */
  #divide(record: CostRecord, cost: Picodollars): Partial<WorkloadCost> {
    const { price, priceBook = '', class: of = usualClass, bytesIn, bytesOut, reads = 1 } = record;
    const book = this.#bookOf(priceBook);
    const prices = classPrices(book, of);
    const each = price === 'put' ? prices.picodollarsPerPut : prices.picodollarsPerGet;
    const request = each * BigInt(reads);
    if (request > cost) {
      throw new Error(`record ${record.index} was charged less than ${priceBook} says for it`);
    }
    let left = cost - request;
    const take = (most: Picodollars): Picodollars => {
      const taken = most < left ? most : left;
      left -= taken;
      return taken;
    };
    const retrieval = take(retrievalCharge(prices, readBytesOf(record)));
    const isOut = bytesOut > 0 && book.egress.picodollarsPerGbMost > 0n;
    const ingress = take(isOut ? chargeAtMost(book.ingress, BigInt(bytesIn), bytesPerGb) : left);
    const requests = price === 'put' ? { puts: request } : { gets: request };
    return { ...requests, retrieval, ingress, egress: left };
  }
}

interface MonthAsked {
  readonly month: Month;
  readonly uses: readonly [string, Use][];
  readonly storageClass: string | undefined;
  readonly hitsPerMillion: number;
}

function priceMonth(book: PriceBook, asked: MonthAsked): WorkloadCost {
  const { month, uses, storageClass, hitsPerMillion } = asked;
  const parts = uses.flatMap(([, { reads, others }]) => [
    behindCache(reads, hitsPerMillion),
    others,
  ]);
  const flows = priceWorkload(book, { name: '', months: 1, parts }, { storageClass });
  const kept = uses.map(
    ([of, { byteMs }]): Kept => ({ storageClass: storageClass ?? of, amount: byteMs }),
  );
  const monthMs = BigInt(month.endMs - month.beginMs);
  return addCosts(flows, { ...noCost, storage: priceKept(book, kept, bytesPerGb * monthMs) });
}

function addFlows({ reads, others }: Use, record: CostRecord): void {
  const { action, price, status, bytesIn, bytesOut, reads: count = 1 } = record;
  const part = isRead(action) && status < 400 ? reads : others;
  if (price === 'put') part.putRequests += count;
  else part.getRequests += count;
  part.ingressBytes += bytesIn;
  part.egressBytes += bytesOut;
  part.readBytes += readBytesOf(record);
}

/** Of an object, or of a version that the request named. */
function isRead(action: string): boolean {
  return action === 's3:GetObject' || action === 's3:GetObjectVersion';
}

/** What was read of an object to be sent, or copied: which has a size, and no body came in. */
function readBytesOf({ action, price, status, size = 0, bytesIn, bytesOut }: CostRecord): number {
  if (status >= 400) return 0;
  if (isRead(action)) return bytesOut;
  // All of it is read for a restore that is begun; that one lasts longer reads nothing.
  if (action === 's3:RestoreObject') return status === 202 ? size : 0;
  return action === 's3:PutObject' && price === 'put' && bytesIn === 0 ? size : 0;
}

/** All of a month, by class. */
function merge(byBook: MonthUse['byBook']): [string, Use][] {
  return [...byBook.values()].flatMap((byClass) => [...byClass]);
}

function usdOf(text: string | undefined): Picodollars {
  const amount = parseUsd(text ?? '0');
  if (amount === undefined) throw new Error(`a record has the cost ${JSON.stringify(text)}`);
  return amount;
}

/**
 * The record with those of its costs that the account was charged; null: none. Over all records
 * they add up to what the account has spent, because the accounts are named by the function that
 * charged them.
 */
export function costsOfAccount(record: CostRecord & Parties, account: string): CostRecord | null {
  const who = chargedOf(record);
  const isCharged = accountsOf(who).includes(account);
  if (record.storageCost === undefined) return isCharged ? record : null;
  // The cost of what is stored is the owner's, whoever makes the request.
  const { cost, storageCost, ...rest } = record;
  const { bucket } = who;
  const asOwner = bucket && { tenant: bucket.tenant, principal: bucket.owner, tokens: [], bucket };
  const isStored = asOwner && accountsOf(asOwner).includes(account);
  if (!isCharged && !isStored) return null;
  return {
    ...rest,
    ...(isCharged && cost !== undefined && { cost }),
    ...(isStored && { storageCost }),
  };
}
