// What was sent and received in a month under the prices of one provider's region: what the tiers
// of its tariffs go by. It is the gateway's total, as the provider bills it, not a tenant's; and
// what users moved, which they are charged, is counted apart from what the gateway moved for it.
// Invariant: after a rollback comes `discard`, before a commit `flush`; the ledger's thread alone
// writes, so what was read stays true.
import type { Reader, Tx } from '../../core/database.ts';
import { windowBeginMs, windowEndMs } from '../limits/windows.ts';
import type { MonthTransfers } from './charges.ts';
import type { PriceBook } from './price-book.ts';
import { marketOf } from './price-books.ts';

export const transferSchema = `
CREATE TABLE quota_transfers (     -- of the latest month in which there were any
  side TEXT NOT NULL,              -- users | backend: moved by users, or by the gateway for them
  provider TEXT NOT NULL,
  region TEXT NOT NULL,
  month_ms INTEGER NOT NULL,       -- its begin
  ingress_bytes INTEGER NOT NULL,
  egress_bytes INTEGER NOT NULL,
  PRIMARY KEY (side, provider, region)
) WITHOUT ROWID;
`;

type Market = Pick<PriceBook, 'provider' | 'region'>;

/** A row. */
export interface TransferTotal extends Market {
  readonly side: 'users' | 'backend';
  monthMs: number;
  ingressBytes: number;
  egressBytes: number;
}

interface Total extends TransferTotal {
  endMs: number;
}

/** What knows which totals are what was written (ledger/seal-roots.ts). */
export interface TransferSeals {
  /**
   * Throws UnsealedRow for a total that is not what was written. `total`: as it is stored;
   * undefined: it is not.
   */
  verifyTransfer(name: string, total: TransferTotal | undefined): void;
  /** This total is about to be written, with the value that it has when the transaction ends. */
  noteTransfer(name: string, total: TransferTotal): void;
}

/** `users aws/us-east-1`. */
export function nameOfTransfer({ side, ...market }: Pick<TransferTotal, 'side'> & Market): string {
  return `${side} ${marketOf(market)}`;
}

const columns = `side, provider, region, month_ms AS monthMs, ingress_bytes AS ingressBytes,
  egress_bytes AS egressBytes`;

export function listTransfers(read: Reader): Promise<TransferTotal[]> {
  return read.all<TransferTotal>(`SELECT ${columns} FROM quota_transfers`);
}

export class TransferTotals {
  readonly #tx: Tx;
  readonly #side: 'users' | 'backend';
  readonly #seals: TransferSeals | null;
  readonly #totals = new Map<string, Total>();
  readonly #changed = new Set<Total>();

  /** `seals`: null: totals are trusted as they are read. */
  constructor(tx: Tx, side: 'users' | 'backend', seals: TransferSeals | null) {
    this.#tx = tx;
    this.#side = side;
    this.#seals = seals;
  }

  /**
   * Adds an operation's bytes; gives what there was in the month before it, at once if it is known.
   */
  add(
    market: Market,
    moved: MonthTransfers,
    timeMs: number,
  ): MonthTransfers | Promise<MonthTransfers> {
    const total = this.#totals.get(marketOf(market));
    if (total) return this.#addTo(total, moved, timeMs);
    return this.#load(market).then((loaded) => this.#addTo(loaded, moved, timeMs));
  }

  #addTo(
    total: Total,
    { ingressBytes, egressBytes }: MonthTransfers,
    timeMs: number,
  ): MonthTransfers {
    if (timeMs >= total.endMs) {
      Object.assign(total, emptyTotal(total, windowBeginMs('month', timeMs)));
    }
    const before = { ingressBytes: total.ingressBytes, egressBytes: total.egressBytes };
    total.ingressBytes += ingressBytes;
    total.egressBytes += egressBytes;
    this.#changed.add(total);
    return before;
  }

  async flush(): Promise<void> {
    for (const total of this.#changed) {
      const { provider, region, monthMs, ingressBytes, egressBytes } = total;
      this.#seals?.noteTransfer(nameOfTransfer(total), total);
      await this.#tx.run(
        'INSERT OR REPLACE INTO quota_transfers VALUES (?, ?, ?, ?, ?, ?)',
        this.#side,
        provider,
        region,
        monthMs,
        ingressBytes,
        egressBytes,
      );
    }
    this.#changed.clear();
  }

  /** Forgets what was not committed. */
  discard(): void {
    this.#changed.clear();
    this.#totals.clear();
  }

  async #load({ provider, region }: Market): Promise<Total> {
    const side = this.#side;
    const row = await this.#tx.get<TransferTotal>(
      `SELECT ${columns} FROM quota_transfers WHERE side = ? AND provider = ? AND region = ?`,
      ...[side, provider, region],
    );
    this.#seals?.verifyTransfer(nameOfTransfer({ side, provider, region }), row);
    const total = { ...emptyTotal({ side, provider, region }, row?.monthMs ?? 0), ...row };
    this.#totals.set(marketOf(total), total);
    return total;
  }
}

function emptyTotal(of: Pick<TransferTotal, 'side'> & Market, monthMs: number): Total {
  const { side, provider, region } = of;
  const endMs = windowEndMs('month', monthMs);
  return { side, provider, region, monthMs, endMs, ingressBytes: 0, egressBytes: 0 };
}
