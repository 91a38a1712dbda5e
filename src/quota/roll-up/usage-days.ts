// What accounts used, by day, action and class: added up from the records, in small batches behind
// the log, so that no request pays for it. Invariant: how far the log was read is written in the
// transaction of the sums, so each record is in them once, whatever dies.
import type { Reader, Tx } from '../../core/database.ts';
import { picodollarsPerUsd } from '../../core/money.ts';
import type { Part, Tally } from './charged-record.ts';

export const usageDaysSchema = `
CREATE TABLE usage_days (          -- sums of the records' charges; tokens have none
  account TEXT NOT NULL,
  day TEXT NOT NULL,               -- 2026-11-21, UTC
  action TEXT NOT NULL,
  class TEXT NOT NULL,             -- storage class; -: no object was concerned
  requests INTEGER NOT NULL,
  ingress_bytes INTEGER NOT NULL,
  egress_bytes INTEGER NOT NULL,
  stored_bytes INTEGER NOT NULL,   -- what was added, less what was removed
  stored_objects INTEGER NOT NULL,
  usd INTEGER NOT NULL,            -- spend is both; 64 bits do not hold the picodollars of all days
  picodollars INTEGER NOT NULL,
  PRIMARY KEY (account, day, action, class)
) WITHOUT ROWID;

CREATE TABLE usage_progress (      -- the records before this one are in usage_days
  next_idx INTEGER NOT NULL
);
INSERT INTO usage_progress VALUES (0);
`;

/** The log index of the first record that is not in the sums. */
export async function nextUnsummed(read: Reader): Promise<number> {
  const row = await read.get<{ idx: number }>('SELECT next_idx AS idx FROM usage_progress');
  return row?.idx ?? 0;
}

/** Adds what was charged by the records from `nextUnsummed` on, which are before `end`. */
export async function addToDays(tx: Tx, parts: readonly Part[], end: number): Promise<void> {
  const sums = new Map<string, Part>();
  for (const part of parts) add(sums, part);
  for (const sum of sums.values()) {
    await tx.run(
      `INSERT INTO usage_days VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET requests = requests + excluded.requests,
         ingress_bytes = ingress_bytes + excluded.ingress_bytes,
         egress_bytes = egress_bytes + excluded.egress_bytes,
         stored_bytes = stored_bytes + excluded.stored_bytes,
         stored_objects = stored_objects + excluded.stored_objects,
         usd = usd + excluded.usd, picodollars = picodollars + excluded.picodollars`,
      ...[sum.account, sum.day, sum.action, sum.class, sum.requests, sum.ingressBytes],
      ...[sum.egressBytes, sum.storedBytes, sum.storedObjects],
      ...[sum.spend / picodollarsPerUsd, sum.spend % picodollarsPerUsd],
    );
  }
  await tx.run('UPDATE usage_progress SET next_idx = ?', end);
}

function add(sums: Map<string, Part>, part: Part): void {
  const name = `${part.account}\n${part.day}\n${part.action}\n${part.class}`;
  const sum = sums.get(name);
  if (!sum) {
    sums.set(name, part);
    return;
  }
  sum.requests += part.requests;
  sum.ingressBytes += part.ingressBytes;
  sum.egressBytes += part.egressBytes;
  sum.storedBytes += part.storedBytes;
  sum.storedObjects += part.storedObjects;
  sum.spend += part.spend;
}

const dayMs = 86_400_000;
/** The day that was asked for last, and when it began. */
let lastDay = { beginMs: 0, name: '1970-01-01' };

/** `2026-11-21` of a time in milliseconds since 1970, UTC. */
export function dayOf(timeMs: number): string {
  const sinceMs = timeMs - lastDay.beginMs;
  if (sinceMs >= 0 && sinceMs < dayMs) return lastDay.name;
  const beginMs = Math.floor(timeMs / dayMs) * dayMs;
  lastDay = { beginMs, name: new Date(beginMs).toISOString().slice(0, 10) };
  return lastDay.name;
}

/** After all days. */
export const endOfDays = '9999';

const days = ['day', 'month', 'action', 'class'] as const;
/** These are accounts of their own, and of which kinds of accounts they are parts. */
const partsOf = {
  principal: ['tenant'],
  bucket: ['tenant'],
  prefix: ['tenant', 'bucket'],
  writer: ['tenant', 'bucket'],
  token: ['tenant', 'principal'],
} as const;

type Kind = keyof typeof partsOf;
export const breakdowns = [...days, ...(Object.keys(partsOf) as Kind[])] as const;
export type Breakdown = (typeof breakdowns)[number];

/** The kinds of accounts that can be broken down by this; null: all can. */
export function brokenDownBy(by: Breakdown): readonly string[] | null {
  return by in partsOf ? partsOf[by as Kind] : null;
}

export interface BreakdownQuery {
  account: string;
  by: Breakdown;
  /** Days, inclusive and exclusive. */
  from: string;
  to: string;
  /** Only rows after this name. */
  after: string;
  limit: number;
}

export interface BreakdownRow extends Tally {
  /** The day, month, action or class; else the name of the part, without what all have. */
  name: string;
}

/** The first day in which an account was used; undefined: none is added up yet. */
export async function readFirstDay(read: Reader, account: string): Promise<string | undefined> {
  const sql = 'SELECT day FROM usage_days WHERE account = ? ORDER BY day LIMIT 1';
  return (await read.get<{ day: string }>(sql, account))?.day;
}

const sumsOfDays = `sum(requests) AS requests, sum(ingress_bytes) AS ingressBytes,
  sum(egress_bytes) AS egressBytes, sum(stored_bytes) AS storedBytes,
  sum(stored_objects) AS storedObjects, sum(usd) AS usd,
  CAST(sum(picodollars) AS TEXT) AS picodollars`;

function selectBy(name: string): string {
  return `SELECT ${name} AS name, ${sumsOfDays} FROM usage_days
    WHERE account = ? AND day >= ? AND day < ? AND ${name} > ?
    GROUP BY ${name} ORDER BY ${name} LIMIT ?`;
}

/** Of all accounts whose names begin alike; its first two parameters are the ends of the range. */
const selectAccounts = `SELECT account AS name, ${sumsOfDays} FROM usage_days
  WHERE account > ? AND account < ? AND day >= ? AND day < ? GROUP BY account
  ORDER BY account LIMIT ?`;

/** Since ever: nothing is added up of tokens by day. Principal null: of the whole tenant. */
const selectTokens = `SELECT account AS name, used_requests AS requests,
    used_ingress_bytes AS ingressBytes, used_egress_bytes AS egressBytes,
    used_stored_bytes AS storedBytes, used_stored_objects AS storedObjects, 0 AS usd,
    CAST(used_spend AS TEXT) AS picodollars FROM quota_accounts
  WHERE account > 'token:' || ? AND account < 'token;' AND token_tenant = ?
    AND token_principal = ifnull(?, token_principal) ORDER BY account LIMIT ?`;

/** One SQL text for each breakdown, so that its statement can be reused. */
const selects: Record<Breakdown, string> = {
  day: selectBy('day'),
  month: selectBy('substr(day, 1, 7)'),
  action: selectBy('action'),
  class: selectBy('class'),
  principal: selectAccounts,
  bucket: selectAccounts,
  prefix: selectAccounts,
  writer: selectAccounts,
  token: selectTokens,
};

/**
 * What an account used, by day, month, action or class, in the order of that; or what each of the
 * accounts that are parts of it was charged, of tokens since ever.
 */
export async function readBreakdown(read: Reader, query: BreakdownQuery): Promise<BreakdownRow[]> {
  const { account, by, from, to, after, limit } = query;
  type Row = Omit<BreakdownRow, 'spend'> & { usd: number; picodollars: string };
  const [whole = '', name = ''] = account.split(/:(.*)/s);
  const [tenant = '', principal = null] = name.split('/');
  // `tenant:cms` has `bucket:cms/raw`; 0 comes right after the slash.
  const isPart = brokenDownBy(by) !== null;
  const begin = by === 'token' ? 'token:' : isPart ? `${by}:${name}/` : '';
  if (isPart && !brokenDownBy(by)?.includes(whole)) throw new Error(`no ${whole} has a ${by}`);
  const inRange = [`${begin}${after}`, `${begin.slice(0, -1)}0`, from, to, limit];
  const ofTokens = [after, tenant, principal, limit];
  const given = by === 'token' ? ofTokens : isPart ? inRange : [account, from, to, after, limit];
  const rows = await read.all<Row>(selects[by], ...given);
  return rows.map(({ usd, picodollars, ...row }) => {
    return {
      ...row,
      name: row.name.slice(begin.length),
      spend: BigInt(usd) * picodollarsPerUsd + BigInt(picodollars),
    };
  });
}
