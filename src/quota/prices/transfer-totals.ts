// What was sent and received in a month under the prices of one provider's region: what the tiers of
// its tariffs go by. It is the gateway's total, as the provider bills it, not a tenant's; and what
// users moved, which they are charged, is counted apart from what the gateway moved for it.
// Invariant: after a rollback comes `discard`, before a commit `flush`; the ledger's thread alone
// writes, so what was read stays true.
import type { Tx } from '../../core/database.ts';
import { windowBeginMs } from '../limits/windows.ts';
import type { MonthTransfers } from './charges.ts';
import type { PriceBook } from './price-book.ts';

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

interface Total {
  provider: string;
  region: string;
  monthMs: number;
  ingressBytes: number;
  egressBytes: number;
}

export class TransferTotals {
  readonly #tx: Tx;
  readonly #side: 'users' | 'backend';
  readonly #totals = new Map<string, Total>();
  readonly #changed = new Set<Total>();

  constructor(tx: Tx, side: 'users' | 'backend') {
    this.#tx = tx;
    this.#side = side;
  }

  /** Adds an operation's bytes; gives what there was in the month before it. */
  async add(
    { provider, region }: Pick<PriceBook, 'provider' | 'region'>,
    { ingressBytes, egressBytes }: MonthTransfers,
    timeMs: number,
  ): Promise<MonthTransfers> {
    const place = `${provider}/${region}`;
    let total = this.#totals.get(place);
    if (!total) {
      total = (await this.#read(provider, region)) ?? emptyTotal(provider, region);
      this.#totals.set(place, total);
    }
    const monthMs = windowBeginMs('month', timeMs);
    if (monthMs > total.monthMs) Object.assign(total, emptyTotal(provider, region), { monthMs });
    const before = { ingressBytes: total.ingressBytes, egressBytes: total.egressBytes };
    total.ingressBytes += ingressBytes;
    total.egressBytes += egressBytes;
    this.#changed.add(total);
    return before;
  }

  async flush(): Promise<void> {
    for (const { provider, region, monthMs, ingressBytes, egressBytes } of this.#changed) {
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

  #read(provider: string, region: string): Promise<Total | undefined> {
    return this.#tx.get<Total>(
      `SELECT provider, region, month_ms AS monthMs, ingress_bytes AS ingressBytes,
         egress_bytes AS egressBytes FROM quota_transfers
         WHERE side = ? AND provider = ? AND region = ?`,
      this.#side,
      provider,
      region,
    );
  }
}

function emptyTotal(provider: string, region: string): Total {
  return { provider, region, monthMs: 0, ingressBytes: 0, egressBytes: 0 };
}
