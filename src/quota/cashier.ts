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
import { type Charge, drawsOf } from './charge.ts';
import { AccountBook } from './leases/account-book.ts';
import { AccountTables } from './leases/account-tables.ts';
import { chargeOperation } from './prices/charges.ts';
import type { PriceBook } from './prices/price-book.ts';
import type { PriceBooks } from './prices/price-books.ts';
import { TransferTotals } from './prices/transfer-totals.ts';
import { StorageCharges } from './storage/storage-charges.ts';

export class Cashier {
  readonly accounts: AccountBook;
  readonly storage: StorageCharges;
  readonly #books: PriceBooks;
  readonly #totals: TransferTotals;
  readonly #backendTotals: TransferTotals;

  /** `holder` names this run of the gateway. */
  constructor(tx: Tx, holder: string, books: PriceBooks) {
    this.accounts = new AccountBook(new AccountTables(tx), holder);
    this.#books = books;
    this.#totals = new TransferTotals(tx, 'users');
    this.#backendTotals = new TransferTotals(tx, 'backend');
    this.storage = new StorageCharges(tx, this.accounts, books);
  }

  /** Charges an operation, and what it added to or removed from what is stored; gives its cost. */
  async charge(
    { who, transfer, pricing, settlement }: Charge,
    stored: { storedBytes: number; storedObjects: number },
    timeMs: number,
  ): Promise<Picodollars> {
    const { requests, ingressBytes, egressBytes } = transfer;
    const cost = await this.#price(transfer, pricing, timeMs);
    const moved = { requests, ingressBytes, egressBytes, spend: Number(cost) };
    const used = drawsOf(who, moved, stored);
    await this.accounts.post(settlement ?? { held: [], isMixed: false }, used, timeMs);
    return cost;
  }

  /** Ends what an operation had reserved that is not charged, since budgets refused it. */
  async refuse({ settlement }: Charge, timeMs: number): Promise<void> {
    await this.accounts.giveBack(settlement?.held ?? [], timeMs);
  }

  /** Posts what the stores' providers bill the operator; gives each use with its cost. */
  async chargeBackend({ tenant, uses }: BackendBill, timeMs: number): Promise<PricedUse[]> {
    const priced: PricedUse[] = [];
    for (const use of uses) {
      const book = this.#bookOf(use.book);
      const before = await this.#backendTotals.add(book, transferOf(use), timeMs);
      const cost = priceUse(book, use, before);
      const draws = backendDraws(tenant, use, cost);
      await this.accounts.post({ held: [], isMixed: false }, draws, timeMs);
      priced.push({ ...use, cost });
    }
    return priced;
  }

  async flush(): Promise<void> {
    await this.#totals.flush();
    await this.#backendTotals.flush();
    await this.storage.flush();
    await this.accounts.flush();
  }

  discard(): void {
    this.#totals.discard();
    this.#backendTotals.discard();
    this.storage.discard();
    this.accounts.discard();
  }

  async #price(
    transfer: Charge['transfer'],
    { book: name, price, ...classes }: Charge['pricing'],
    timeMs: number,
  ): Promise<Picodollars> {
    if (price === 'free' && transfer.egressBytes === 0 && transfer.ingressBytes === 0) return 0n;
    const book = this.#bookOf(name);
    const before = await this.#totals.add(book, transfer, timeMs);
    const priced = transfer.requests > 0 ? price : 'free';
    return chargeOperation(book, { ...transfer, ...classes, price: priced }, before).total;
  }

  #bookOf(name: string): PriceBook {
    const book = this.#books.named(name);
    if (!book) throw new Error(`there is no price book ${name}`);
    return book;
  }
}
