// What accounts have used, as anybody may read it who may see the account. The ledger's thread counts
// (`leases/account-book.ts`); here is what it has committed.
import type { Reader } from '../core/database.ts';

/** Flows since ever, levels now. */
export interface UsageRow {
  account: string;
  requests: number;
  ingressBytes: number;
  egressBytes: number;
  storedBytes: number;
  storedObjects: number;
  /** Picodollars, in decimal. */
  spend: string;
}

const columns = `account, used_requests AS requests, used_ingress_bytes AS ingressBytes,
  used_egress_bytes AS egressBytes, used_stored_bytes AS storedBytes,
  used_stored_objects AS storedObjects, CAST(used_spend AS TEXT) AS spend`;

/** One account's counters; zeros for an account that was never charged. */
export async function readUsage(read: Reader, account: string): Promise<UsageRow> {
  const sql = `SELECT ${columns} FROM quota_accounts WHERE account = ?`;
  return (await read.get<UsageRow>(sql, account)) ?? emptyUsage(account);
}

/** The counters of a tenant, its principals and its buckets; of all but tokens when null. */
export async function listUsage(read: Reader, tenant: string | null): Promise<UsageRow[]> {
  if (tenant === null) {
    const sql = `SELECT ${columns} FROM quota_accounts
      WHERE account < 'token:' OR account > 'token;' ORDER BY account`;
    return read.all<UsageRow>(sql);
  }
  const within = (kind: string): [string, string] => [`${kind}:${tenant}/`, `${kind}:${tenant}0`];
  return read.all<UsageRow>(
    `SELECT ${columns} FROM quota_accounts WHERE account = ? OR (account > ? AND account < ?)
       OR (account > ? AND account < ?) ORDER BY account`,
    `tenant:${tenant}`,
    ...within('principal'),
    ...within('bucket'),
  );
}

function emptyUsage(account: string): UsageRow {
  return {
    account,
    requests: 0,
    ingressBytes: 0,
    egressBytes: 0,
    storedBytes: 0,
    storedObjects: 0,
    spend: '0',
  };
}
