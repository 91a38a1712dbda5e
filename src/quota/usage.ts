// Usage counters, one row an account. Transfers are charged to whoever asked; storage to the
// bucket's owner (DESIGN section 9). A batch of commits is added up in memory and written once per
// account, in the transaction of the commits themselves, so counters never drift from the records.
import type { Reader, Tx } from '../core/database.ts';
import { principalId } from '../core/principal.ts';

/** What one operation used. Bytes are counted as sent on the wire, without HTTP framing. */
export interface Amounts {
  requests: number;
  ingressBytes: number;
  egressBytes: number;
  storedBytes: number;
  storedObjects: number;
}

export interface UsageRow extends Amounts {
  account: string;
}

export const nothing: Readonly<Amounts> = {
  requests: 0,
  ingressBytes: 0,
  egressBytes: 0,
  storedBytes: 0,
  storedObjects: 0,
};

/**
 * Who is charged for an operation: the requester's side and, where a bucket is concerned, its side.
 */
export interface Charged {
  tenant: string;
  principal: string;
  /** Of the requester's tenant or another's. */
  bucket: { tenant: string; name: string; owner: string } | null;
}

/** Adds up charges, then writes each account once. */
export class UsagePosting {
  readonly #accounts = new Map<string, Amounts>();

  /**
   * Charges transfers to requester, requester's tenant and bucket; storage to bucket, owner,
   * tenant.
   */
  post(charged: Charged, amounts: Readonly<Amounts>): void {
    const { bucket } = charged;
    const transfer = { ...amounts, storedBytes: 0, storedObjects: 0 };
    this.#add(`principal:${principalId(charged.tenant, charged.principal)}`, transfer);
    this.#add(`tenant:${charged.tenant}`, transfer);
    if (!bucket) return;
    this.#add(`bucket:${bucket.tenant}/${bucket.name}`, amounts);
    if (amounts.storedBytes === 0 && amounts.storedObjects === 0) return;
    const storage = {
      ...nothing,
      storedBytes: amounts.storedBytes,
      storedObjects: amounts.storedObjects,
    };
    this.#add(`principal:${principalId(bucket.tenant, bucket.owner)}`, storage);
    this.#add(`tenant:${bucket.tenant}`, storage);
  }

  /** Forgets what was added: its transaction was rolled back. */
  discard(): void {
    this.#accounts.clear();
  }

  /** Writes everything added so far. */
  async flush(tx: Tx): Promise<void> {
    for (const [account, sum] of this.#accounts) {
      await tx.run(
        `INSERT INTO usage VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (account) DO UPDATE SET
           requests = requests + excluded.requests,
           ingress_bytes = ingress_bytes + excluded.ingress_bytes,
           egress_bytes = egress_bytes + excluded.egress_bytes,
           stored_bytes = stored_bytes + excluded.stored_bytes,
           stored_objects = stored_objects + excluded.stored_objects`,
        account,
        sum.requests,
        sum.ingressBytes,
        sum.egressBytes,
        sum.storedBytes,
        sum.storedObjects,
      );
    }
    this.#accounts.clear();
  }

  #add(account: string, amounts: Readonly<Amounts>): void {
    const sum = this.#accounts.get(account);
    if (!sum) {
      this.#accounts.set(account, { ...amounts });
      return;
    }
    sum.requests += amounts.requests;
    sum.ingressBytes += amounts.ingressBytes;
    sum.egressBytes += amounts.egressBytes;
    sum.storedBytes += amounts.storedBytes;
    sum.storedObjects += amounts.storedObjects;
  }
}

const columns = `account, requests, ingress_bytes AS ingressBytes, egress_bytes AS egressBytes,
  stored_bytes AS storedBytes, stored_objects AS storedObjects`;

/** One account's counters; zeros for an account that was never charged. */
export async function readUsage(read: Reader, account: string): Promise<UsageRow> {
  const row = await read.get<UsageRow>(`SELECT ${columns} FROM usage WHERE account = ?`, account);
  return row ?? { account, ...nothing };
}

/** The counters of a tenant, its principals and its buckets; of all tenants when null. */
export async function listUsage(read: Reader, tenant: string | null): Promise<UsageRow[]> {
  if (tenant === null) {
    return read.all<UsageRow>(`SELECT ${columns} FROM usage ORDER BY account`);
  }
  const within = (kind: string): [string, string] => [`${kind}:${tenant}/`, `${kind}:${tenant}0`];
  return read.all<UsageRow>(
    `SELECT ${columns} FROM usage WHERE account = ? OR (account > ? AND account < ?)
       OR (account > ? AND account < ?) ORDER BY account`,
    `tenant:${tenant}`,
    ...within('principal'),
    ...within('bucket'),
  );
}
