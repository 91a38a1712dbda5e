// The operator's side of the account: what the stores' providers bill for what was really asked of
// them, extents, retries and second requests included. It is kept beside what users are charged and
// never charged to them: its accounts have no limits. Invariant: each is the sum of the costs that
// the records say (docs/admin/operator-cost.md).
import type { StoreUse } from '../core/backend-use.ts';
import type { Reader } from '../core/database.ts';
import type { Picodollars } from '../core/money.ts';
import type { Draw } from './amounts.ts';
import { chargeOperation, type MonthTransfers } from './prices/charges.ts';
import { classPrices, type PriceBook, usualClass } from './prices/price-book.ts';

/** What the stores were asked for an operation, or for none. Plain data: it crosses threads. */
export interface BackendBill {
  /** The tenant whose data it was for; null for the gateway itself. */
  tenant: string | null;
  uses: readonly BilledUse[];
}

export interface BilledUse extends StoreUse {
  /** Name of the price book that was in force. */
  book: string;
}

export interface PricedUse extends BilledUse {
  cost: Picodollars;
}

/** The bytes that the provider moved: it receives what the gateway sends. */
export function transferOf({ sentBytes, receivedBytes }: StoreUse): MonthTransfers {
  return { ingressBytes: sentBytes, egressBytes: receivedBytes };
}

/** Returns what the provider bills for it after the month's earlier transfers. */
export function priceUse(book: PriceBook, use: StoreUse, before: MonthTransfers): Picodollars {
  const { picodollarsPerPut, picodollarsPerGet } = classPrices(book, usualClass);
  const moved = { ...transferOf(use), retrievalBytes: use.receivedBytes };
  const operation = { storageClass: usualClass, price: 'free', ...moved } as const;
  return (
    BigInt(use.puts) * picodollarsPerPut +
    BigInt(use.gets) * picodollarsPerGet +
    chargeOperation(book, operation, before).total
  );
}

/** Whom it is posted to: the store, and the tenant whose data it was for. */
export function backendDraws(tenant: string | null, use: StoreUse, cost: Picodollars): Draw[] {
  const amounts = {
    ...transferOf(use),
    requests: use.puts + use.gets + use.frees,
    spend: Number(cost),
  };
  const accounts = [`store:${use.store}`];
  if (tenant !== null) accounts.push(`backend:${tenant}`);
  return [{ accounts, amounts }];
}

/** What providers have billed since the beginning, by the prices that were in force. */
export interface BackendCost {
  /** `store:NAME`, or `backend:TENANT`: the part of all stores' that was for its data. */
  account: string;
  requests: number;
  /** Sent to the store. */
  ingressBytes: number;
  /** Received from it. */
  egressBytes: number;
  /** Picodollars, in decimal. */
  spend: string;
  /**
   * What the tenant was charged in the same time, in picodollars; null: it is a store, or was
   * charged nothing.
   */
  charged: string | null;
}

const columns = `cost.account, cost.used_requests AS requests,
  cost.used_ingress_bytes AS ingressBytes, cost.used_egress_bytes AS egressBytes,
  CAST(cost.used_spend AS TEXT) AS spend, CAST(charged.used_spend AS TEXT) AS charged
  FROM quota_accounts AS cost LEFT JOIN quota_accounts AS charged
    ON cost.account LIKE 'backend:%' AND charged.account = 'tenant:' || substr(cost.account, 9)`;

/**
 * Lists the costs of a tenant, for its admins; those of all stores and tenants when it is null, for
 * the operator.
 */
export function listBackendCosts(read: Reader, tenant: string | null): Promise<BackendCost[]> {
  if (tenant !== null) {
    const sql = `SELECT ${columns} WHERE cost.account = ?`;
    return read.all<BackendCost>(sql, `backend:${tenant}`);
  }
  return read.all<BackendCost>(
    `SELECT ${columns} WHERE (cost.account > 'backend:' AND cost.account < 'backend;')
       OR (cost.account > 'store:' AND cost.account < 'store;') ORDER BY cost.account`,
  );
}
