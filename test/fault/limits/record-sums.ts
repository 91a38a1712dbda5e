// What the records add up to for each account, whoever is charged (src/quota/charge.ts): requester,
// requester's tenant, tokens, bucket, its owner and the owner's tenant, each once. The log only
// ever grows, so each record is read once.
import { parseUsd } from '#bursar/core/money.js';
import { type AccountRow, type Amounts, meters } from './account-sheet.ts';

interface LogRecord {
  index: number;
  action: string;
  /** As which request it was charged; absent: as none, and nothing of what it moved. */
  price?: string;
  tenant: string;
  principal: string;
  tokens?: string[];
  bucket?: string;
  bucketTenant?: string;
  bucketOwner?: string;
  /** Decimal USD; absent: nobody was charged. */
  cost?: string;
  /** Of what was stored: the bucket's, its owner's and the owner's tenant's. */
  storageCost?: string;
  /** What stores were asked for it, and the operator is billed. */
  backend?: BackendUse[];
  error?: string;
  bytesIn: number;
  bytesOut: number;
  storedBytes: number;
  storedObjects: number;
  /** Of prefixes and writers with limits. */
  limited?: LimitedUse[];
}

interface LimitedUse {
  account: string;
  charged: boolean;
  storedBytes: number;
  storedObjects: number;
}

interface BackendUse {
  store: string;
  cost: string;
  puts: number;
  gets: number;
  frees: number;
  sentBytes: number;
  receivedBytes: number;
}

export class RecordSums {
  readonly #sums = new Map<string, Amounts>();
  lastIndex = -1;
  /** What no record should say. */
  readonly faults: string[] = [];
  refused = 0;

  add(records: readonly Record<string, unknown>[]): void {
    for (const record of records) this.#add(record as unknown as LogRecord);
  }

  of(account: string): Amounts {
    return this.#sums.get(account) ?? none();
  }

  /** Accounts whose counters are not the sum of their records. */
  compare(rows: Map<string, AccountRow>): string[] {
    const differing: string[] = [];
    for (const account of new Set([...rows.keys(), ...this.#sums.keys()])) {
      const [used, summed] = [rows.get(account)?.used ?? none(), this.of(account)];
      for (const meter of meters) {
        if (used[meter] === summed[meter]) continue;
        differing.push(`${account} ${meter}: ${used[meter]} used, ${summed[meter]} in records`);
      }
    }
    return differing;
  }

  #add(record: LogRecord): void {
    const { index, cost, error, backend = [], limited = [] } = record;
    if (index !== this.lastIndex + 1) this.faults.push(`${index} follows ${this.lastIndex}`);
    this.lastIndex = index;
    const isChanging = record.storedBytes !== 0 || record.storedObjects !== 0;
    if (error !== undefined && isChanging) this.faults.push(`${index} failed and stored`);
    if (error === 'QuotaExceeded') this.refused++;
    for (const use of backend) this.#bill(record, use);
    for (const { account, ...stored } of limited) {
      const storedBytes = BigInt(stored.storedBytes);
      this.#count(account, {
        ...none(),
        storedBytes,
        storedObjects: BigInt(stored.storedObjects),
      });
    }
    if (cost === undefined) {
      if (isChanging) this.faults.push(`${index} stored and charged nobody`);
      return;
    }
    if (error === 'QuotaExceeded') this.faults.push(`${index} was refused and charged`);
    const isPriced = record.price !== undefined;
    const moved = {
      ...none(),
      spend: picodollars(cost),
      requests: isPriced ? 1n : 0n,
      ingressBytes: isPriced ? BigInt(record.bytesIn) : 0n,
      egressBytes: isPriced ? BigInt(record.bytesOut) : 0n,
    };
    this.#post(record, moved);
  }

  #post(record: LogRecord, moved: Amounts): void {
    const { tenant, principal, bucket, bucketTenant = tenant, bucketOwner } = record;
    const storedBytes = BigInt(record.storedBytes);
    const storedObjects = BigInt(record.storedObjects);
    const charged = new Map([
      [`principal:${tenant}/${principal}`, moved],
      [`tenant:${tenant}`, moved],
    ]);
    // A bucket is charged from its creation on, which itself is charged to its maker alone.
    if (bucket !== undefined && bucketOwner !== undefined) {
      const spend = moved.spend + picodollars(record.storageCost ?? '0');
      const stored = { ...moved, spend, storedBytes, storedObjects };
      charged.set(`bucket:${bucketTenant}/${bucket}`, stored);
      charged.set(`principal:${bucketTenant}/${bucketOwner}`, stored);
      charged.set(`tenant:${bucketTenant}`, stored);
    }
    for (const token of record.tokens ?? []) {
      const added = {
        storedBytes: storedBytes > 0n ? storedBytes : 0n,
        storedObjects: storedObjects > 0n ? storedObjects : 0n,
      };
      charged.set(`token:${token}`, { ...moved, ...added });
    }
    for (const { account, charged: isCharged } of record.limited ?? []) {
      if (isCharged) charged.set(account, moved);
    }
    for (const [account, amounts] of charged) this.#count(account, amounts);
  }

  /**
   * To the store, and to the tenant whose data it was for: what the gateway asked for itself has
   * none.
   */
  #bill({ action, tenant, bucketTenant = tenant }: LogRecord, use: BackendUse): void {
    const amounts = {
      ...none(),
      spend: picodollars(use.cost),
      requests: BigInt(use.puts + use.gets + use.frees),
      ingressBytes: BigInt(use.sentBytes),
      egressBytes: BigInt(use.receivedBytes),
    };
    this.#count(`store:${use.store}`, amounts);
    if (action !== 'bursar:BackendCost') this.#count(`backend:${bucketTenant}`, amounts);
  }

  #count(account: string, amounts: Amounts): void {
    const sum = this.of(account);
    for (const meter of meters) sum[meter] += amounts[meter];
    this.#sums.set(account, sum);
  }
}

function picodollars(usd: string): bigint {
  const amount = parseUsd(usd);
  if (amount === undefined) throw new Error(`${usd} is no amount of money`);
  return amount;
}

function none(): Amounts {
  return Object.fromEntries(meters.map((meter) => [meter, 0n])) as Amounts;
}
