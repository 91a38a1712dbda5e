// Prices what operations did and charges it, in the ledger's transactions. It runs in the ledger's
// thread, the only writer. Invariants: what an account has spent is the sum of the costs that this
// gave, which the records say; and after a rollback comes `discard`, before a commit `flush`.
import type { Tx } from '../core/database.ts';
import type { Picodollars } from '../core/money.ts';
import {
  type BackendBill,
  backendDraws,
  type PricedUse,
  priceUse,
  transferOf,
} from './backend-cost.ts';
import { type Charge, drawsOf, drawsOfLevels, type LimitedLevels, type Stored } from './charge.ts';
import { AccountBook } from './leases/account-book.ts';
import type { AccountMacs } from './leases/account-macs.ts';
import { AccountTables } from './leases/account-tables.ts';
import { noSettlement } from './leases/requests.ts';
import { chargeOperation, chargeOperationAtMost, type MonthTransfers } from './prices/charges.ts';
import type { PriceBook } from './prices/price-book.ts';
import type { PriceBooks } from './prices/price-books.ts';
import { type TransferSeals, TransferTotals } from './prices/transfer-totals.ts';
import { type ClassDays, StorageCharges } from './storage/storage-charges.ts';

/** What knows the rows of charges that are what was written. */
export interface ChargeSeals {
  readonly accounts: AccountMacs;
  readonly transfers: TransferSeals;
}

export class Billing {
  readonly accounts: AccountBook;
  readonly storage: StorageCharges;
  readonly #books: PriceBooks;
  readonly #totals: TransferTotals;
  readonly #backendTotals: TransferTotals;

  /**
   * `holder` names this run of the gateway. Without `seals`, rows are trusted as they are read;
   * without `classDays`, no class of a tenant's own is paid for longer than its books say.
   */
  constructor(
    tx: Tx,
    holder: string,
    books: PriceBooks,
    { seals, classDays = async () => 0 }: { seals?: ChargeSeals; classDays?: ClassDays } = {},
  ) {
    const { accounts: macs = null, transfers = null } = seals ?? {};
    this.accounts = new AccountBook(new AccountTables(tx, macs), holder);
    this.#books = books;
    this.#totals = new TransferTotals(tx, 'users', transfers);
    this.#backendTotals = new TransferTotals(tx, 'backend', transfers);
    this.storage = new StorageCharges(tx, { accounts: this.accounts, books, macs, classDays });
  }

  /**
   * Charges an operation, and what it added to or removed from what is stored, in all and under
   * prefixes with limits; gives its cost, at once where nothing has to be read for it.
   */
  charge(
    charge: Charge,
    stored: Stored & { levels?: LimitedLevels | null },
    timeMs: number,
  ): Picodollars | Promise<Picodollars> {
    const before = this.#addTransfer(charge, timeMs);
    return before instanceof Promise
      ? before.then((known) => this.#chargeAfter(known, charge, stored, timeMs))
      : this.#chargeAfter(before, charge, stored, timeMs);
  }

  /** What an operation can cost, in whatever tier it ends. */
  costAtMost({ transfer, pricing }: Charge): Picodollars {
    const sourceBook = this.#sourceBookOf(pricing);
    const operation = { ...pricing, ...transfer, sourceBook };
    return chargeOperationAtMost(this.#bookOf(pricing.book), operation);
  }

  /** Counts what is stored under prefixes, where nobody is charged for anything. */
  async countLevels(levels: LimitedLevels, timeMs: number): Promise<void> {
    await this.accounts.post(noSettlement, drawsOfLevels(levels), timeMs);
  }

  /** Ends what an operation had reserved that is refused and not charged. */
  async refuse({ settlement }: Charge, timeMs: number): Promise<void> {
    if (settlement) await this.accounts.void(settlement, timeMs);
  }

  /** Posts what the stores' providers bill the operator; gives each use with its cost. */
  async chargeBackend({ tenant, uses }: BackendBill, timeMs: number): Promise<PricedUse[]> {
    const priced: PricedUse[] = [];
    for (const use of uses) {
      const book = this.#bookOf(use.book);
      const before = await this.#backendTotals.add(book, transferOf(use), timeMs);
      const cost = priceUse(book, use, before);
      const draws = backendDraws(tenant, use, cost);
      await this.accounts.post(noSettlement, draws, timeMs);
      priced.push({ ...use, cost });
    }
    return priced;
  }

  /** Before each commit. Not `withAccounts`: the rows of accounts can wait (`AccountBook`). */
  async flush({ withAccounts = true }: { withAccounts?: boolean } = {}): Promise<void> {
    await this.#totals.flush();
    await this.#backendTotals.flush();
    await this.storage.flush();
    if (withAccounts) await this.accounts.flush();
  }

  discard(): void {
    this.#totals.discard();
    this.#backendTotals.discard();
    this.storage.discard();
    this.accounts.discard();
  }

  /** Gives the month's transfers before this one; null: it costs nothing. */
  #addTransfer(
    { transfer, pricing }: Charge,
    timeMs: number,
  ): MonthTransfers | null | Promise<MonthTransfers> {
    if (pricing.price === 'free' && !movesBytes(transfer)) return null;
    const book = this.#bookOf(pricing.book);
    // A tariff without a price has no tiers, so its total is not kept: that would write one more
    // page.
    const egressBytes = book.egress.picodollarsPerGbMost > 0n ? transfer.egressBytes : 0;
    const ingressBytes = book.ingress.picodollarsPerGbMost > 0n ? transfer.ingressBytes : 0;
    const counted = { egressBytes, ingressBytes };
    return movesBytes(counted) ? this.#totals.add(book, counted, timeMs) : nothingBefore;
  }

  #chargeAfter(
    before: MonthTransfers | null,
    { who, transfer, pricing, settlement }: Charge,
    stored: Stored & { levels?: LimitedLevels | null },
    timeMs: number,
  ): Picodollars | Promise<Picodollars> {
    const { requests, ingressBytes, egressBytes } = transfer;
    const cost = before ? this.#price(transfer, pricing, before) : 0n;
    const moved = { requests, ingressBytes, egressBytes, spend: Number(cost) };
    const used = drawsOf(who, moved, stored, stored.levels ?? null);
    const posted = this.accounts.post(settlement ?? noSettlement, used, timeMs);
    return posted ? posted.then(() => cost) : cost;
  }

  #price(
    { requests, ingressBytes, egressBytes, retrievalBytes }: Charge['transfer'],
    pricing: Charge['pricing'],
    before: MonthTransfers,
  ): Picodollars {
    const { book, price, storageClass, sourceClass } = pricing;
    const operation = {
      storageClass,
      sourceClass,
      sourceBook: this.#sourceBookOf(pricing),
      ingressBytes,
      egressBytes,
      retrievalBytes,
      price: requests > 0 ? price : ('free' as const),
    };
    return chargeOperation(this.#bookOf(book), operation, before).total;
  }

  #sourceBookOf({ sourceBook }: Charge['pricing']): PriceBook | null {
    return sourceBook === undefined ? null : this.#bookOf(sourceBook);
  }

  #bookOf(name: string): PriceBook {
    const book = this.#books.named(name);
    if (!book) throw new Error(`there is no price book ${name}`);
    return book;
  }
}

const nothingBefore: MonthTransfers = { ingressBytes: 0, egressBytes: 0 };

function movesBytes({ ingressBytes, egressBytes }: MonthTransfers): boolean {
  return ingressBytes > 0 || egressBytes > 0;
}
