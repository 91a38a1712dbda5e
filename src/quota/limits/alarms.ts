// Alarms: a cap was used up to 50, 80 or 100 percent. Written in the transaction that did it, so
// they are neither lost nor doubled by a crash; whoever tells of one forgets it then. The log's
// record of it stays.
import type { Reader, Tx } from '../../core/database.ts';
import type { Meter, Window } from '../../core/quota-terms.ts';
import type { TokenFacts } from '../amounts.ts';

/** Ascending. */
export const alarmPercents = [50, 80, 100] as const;
export type AlarmPercent = (typeof alarmPercents)[number];

/** A percentage of a cap that an account reached. */
export interface Reached {
  account: string;
  meter: Meter;
  window: Window;
  /** When the window began, milliseconds since 1970; 0 for what has no window. */
  beginMs: number;
  /** 100: the cap is used up, or something was refused because it would have been exceeded. */
  percent: AlarmPercent;
  /** Picodollars where the meter is `spend`. */
  limit: bigint;
  /** What was used in the window, including what crashes lost. */
  used: bigint;
  /** The token whose account it is; null: it is not a token's. */
  token: TokenFacts | null;
}

export interface Alarm extends Omit<Reached, 'token'> {
  /** Log index of its record. */
  id: number;
  /**
   * The tenant and principal that the account belongs to. `principal` is the bucket's owner, and
   * empty for a tenant.
   */
  tenant: string;
  principal: string;
  timeMs: number;
}

export const alarmSchema = `
CREATE TABLE quota_alarms (        -- which nobody was told of yet
  id INTEGER PRIMARY KEY,          -- log index of its record
  account TEXT NOT NULL,
  tenant TEXT NOT NULL,
  principal TEXT NOT NULL,
  meter TEXT NOT NULL,
  window TEXT NOT NULL,
  begin_ms INTEGER NOT NULL,
  percent INTEGER NOT NULL,
  amount TEXT NOT NULL,            -- the limit
  used TEXT NOT NULL,              -- may be more than 64 bits hold
  time_ms INTEGER NOT NULL
);
`;

export async function appendAlarm(tx: Tx, alarm: Alarm): Promise<void> {
  const { id, account, tenant, principal, meter, window, beginMs, percent, limit, used } = alarm;
  await tx.run(
    'INSERT INTO quota_alarms VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)',
    ...[
      id,
      account,
      tenant,
      principal,
      meter,
      window,
      beginMs,
      percent,
      String(limit),
      String(used),
    ],
    alarm.timeMs,
  );
}

/**
 * Up to `max` alarms that nobody was told of, oldest first; those of tokens, of which anybody can
 * make any number, behind all others.
 */
export async function listUntoldAlarms(read: Reader, max: number): Promise<Alarm[]> {
  const rows = await read.all<Omit<Alarm, 'limit' | 'used'> & { amount: string; used: string }>(
    `SELECT id, account, tenant, principal, meter, window, begin_ms AS beginMs, percent,
       amount, used, time_ms AS timeMs
     FROM quota_alarms ORDER BY account GLOB 'token:*', id LIMIT ?`,
    max,
  );
  return rows.map(({ amount, used, ...alarm }) => {
    return { ...alarm, limit: BigInt(amount), used: BigInt(used) };
  });
}

/** Removes them, and gives how many there were. */
export async function forgetAlarms(tx: Tx, ids: readonly number[]): Promise<number> {
  let forgotten = 0;
  for (const id of ids) {
    forgotten += (await tx.run('DELETE FROM quota_alarms WHERE id = ?', id)).changes;
  }
  return forgotten;
}
