// What accounts have used, for everybody who may see the account. The ledger's thread counts it
// (`leases/account-book.ts`); this reads what it has committed.

import type { Reader } from '../core/database.ts';
import { meters } from '../core/quota-terms.ts';
import { emptySums, type Sums } from './amounts.ts';
import { type CapReport, reportCaps } from './cap-report.ts';
import { lookAhead, type Outlook, type Week, weekBeginMs } from './forecast.ts';
import { newAccountState } from './leases/account-state.ts';
import { readAccountState } from './leases/account-tables.ts';
import type { Tally } from './roll-up/charged-record.ts';
import { dayOf, endOfDays, readBreakdown, readFirstDay } from './roll-up/usage-days.ts';

/** Flows count from the beginning; levels are the present ones. */
export interface UsageRow extends Omit<Tally, 'spend'> {
  account: string;
  /** Picodollars, in decimal. */
  spend: string;
}

/** One cap, and how near it is. */
export interface CapUsage extends CapReport, Outlook {}

export interface AccountUsage {
  account: string;
  /** Flows count from the beginning; levels are the present ones. */
  used: Sums;
  caps: CapUsage[];
}

/** What was there when a prefix or a writer got its first limit: it did not grow that day. */
const countingActions = [
  ...['bursar:PutLimit', 'bursar:DeleteLimit', 'bursar:RestoreLimits', 'bursar:CountStored'],
];

const columns = `account, used_requests AS requests, used_ingress_bytes AS ingressBytes,
  used_egress_bytes AS egressBytes, used_stored_bytes AS storedBytes,
  used_stored_objects AS storedObjects, CAST(used_spend AS TEXT) AS spend`;

/** One account's counters; zeros for an account that was never charged. */
export async function readUsage(read: Reader, account: string): Promise<UsageRow> {
  const sql = `SELECT ${columns} FROM quota_accounts WHERE account = ?`;
  return (await read.get<UsageRow>(sql, account)) ?? emptyUsage(account);
}

/**
 * One account with its limits, and when these will be reached, as of `nowMs`. `isCounting`: what is
 * stored of it is still being counted.
 */
export async function readAccountUsage(
  read: Reader,
  account: string,
  { nowMs, isCounting = false }: { nowMs: number; isCounting?: boolean },
): Promise<AccountUsage> {
  const state = (await readAccountState(read, account)) ?? newAccountState();
  const reports = reportCaps(state, nowMs);
  const caps = state.limits?.caps ?? [];
  const isWeekNeeded = caps.some(({ window }) => window === 'total');
  const week = isWeekNeeded ? await readWeek(read, account, nowMs) : noWeek;
  const outlooks = caps.map((cap) => lookAhead(state, cap, { week, isCounting }, nowMs));
  return {
    account,
    used: state.used,
    caps: reports.map((report, i) => ({ ...report, ...(outlooks[i] as Outlook) })),
  };
}

/** More than there are. */
const actionsMax = 10_000;
const noWeek: Week = { firstMs: null, amounts: emptySums() };

async function readWeek(read: Reader, account: string, nowMs: number): Promise<Week> {
  const first = await readFirstDay(read, account);
  if (first === undefined) return noWeek;
  const beginMs = weekBeginMs(nowMs);
  const from = dayOf(beginMs);
  const range = { account, by: 'action', from, to: endOfDays, after: '' } as const;
  const actions = await readBreakdown(read, { ...range, limit: actionsMax });
  const amounts = emptySums();
  for (const action of actions) {
    if (countingActions.includes(action.name)) continue;
    for (const meter of meters) amounts[meter] += BigInt(action[meter]);
  }
  return { firstMs: Math.max(beginMs, Date.parse(first)), amounts };
}

/** Gives what all tenants together keep. */
export async function sumStored(
  read: Reader,
): Promise<Pick<UsageRow, 'storedBytes' | 'storedObjects'>> {
  const stored = await read.get<Pick<UsageRow, 'storedBytes' | 'storedObjects'>>(
    `SELECT ifnull(sum(used_stored_bytes), 0) AS storedBytes,
       ifnull(sum(used_stored_objects), 0) AS storedObjects
     FROM quota_accounts WHERE account > 'tenant:' AND account < 'tenant;'`,
  );
  return stored ?? { storedBytes: 0, storedObjects: 0 };
}

function emptyUsage(account: string): UsageRow {
  return {
    ...{ account, requests: 0, ingressBytes: 0, egressBytes: 0 },
    ...{ storedBytes: 0, storedObjects: 0, spend: '0' },
  };
}
