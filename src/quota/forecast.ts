// When a limit will be reached if things go on as they do. Pure. Each forecast goes by one rate,
// which says over what time it was measured; several rates give several forecasts, and none is a
// promise.
import { isLevel, type Meter } from '../core/quota-terms.ts';
import { type AccountState, lostIn, usedIn } from './leases/account-state.ts';
import type { Cap } from './limits/limit-set.ts';
import { windowBeginMs, windowEndMs } from './limits/windows.ts';

/**
 * Over what a rate was measured: the limit's own window so far; the present hour or day so far; or
 * today and the six days before it, as far back as the account was used.
 */
export type Basis = 'window' | 'hour' | 'day' | 'week';

interface Rate {
  basis: Basis;
  /** The amount used in that time; of a level, its growth, which is negative where it shrank. */
  amount: bigint;
  elapsedMs: number;
}

export interface Forecast {
  basis: Basis;
  /** The amount that would be used in 24 hours at the same rate, rounded towards zero. */
  perDay: bigint;
  /**
   * When the limit is reached, milliseconds since 1970; null: not before the window ends, nor
   * within a hundred years.
   */
  reachedMs: number | null;
}

const dayMs = 86_400_000;
/** Days that a week's rate is measured over, today included. */
export const weekDays = 7;
/** A shorter time says nothing about a rate. */
const elapsedMsMin = 1000;
/** A rate of the present hour or day counts once it was measured for this long. */
const recentMsMin = 300_000;

/** What was used in the days of a week, by meter, and not only counted then: from `firstMs` on. */
export interface Week {
  /** When the time began; not before the account's first day. null: it was never used. */
  firstMs: number | null;
  amounts: Readonly<Record<Meter, bigint>>;
}

/** When the days begin that a week's rate is measured over. */
export function weekBeginMs(nowMs: number): number {
  return windowBeginMs('day', nowMs) - (weekDays - 1) * dayMs;
}

/** How near a cap is, and when it will be reached. */
export interface Outlook {
  /** Hundredths of the limit that are used or lost, rounded down: at 100 and more it is reached. */
  percent: number;
  forecasts: Forecast[];
}

/**
 * Makes the forecasts of an account whose windows were brought to `nowMs`. While it is still being
 * counted what is stored (`isCounting`), nothing is said of when a limit on that is reached.
 */
export function lookAhead(
  state: AccountState,
  cap: Cap,
  { week, isCounting = false }: { week: Week; isCounting?: boolean },
  nowMs: number,
): Outlook {
  const { meter, window, amount: limit } = cap;
  const used = usedIn(state, meter, window) + lostIn(state, meter, window);
  const percent = limit > 0n ? Number((used * 100n) / limit) : 100;
  if (isCounting && isLevel(meter)) return { percent, forecasts: [] };
  const endMs = window === 'total' ? Infinity : windowEndMs(window, state.marks[window].beginMs);
  const forecasts = ratesOf(state, cap, week, nowMs).map((rate): Forecast => {
    const { basis, amount, elapsedMs } = rate;
    const leftMs = timeFor(limit - used, rate);
    const atMs = nowMs + leftMs;
    const reachedMs = atMs < endMs && leftMs <= horizonMs ? Math.ceil(atMs) : null;
    return { basis, perDay: (amount * BigInt(dayMs)) / BigInt(elapsedMs), reachedMs };
  });
  return { percent, forecasts };
}

/** A hundred years: a rate that was measured over days says nothing of what comes later. */
const horizonMs = 36_525 * dayMs;

/** How long until the rest is used. Where a limit was lowered the rest may be negative. */
function timeFor(left: bigint, { amount, elapsedMs }: Rate): number {
  if (left <= 0n) return 0;
  return amount > 0n ? (Number(left) / Number(amount)) * elapsedMs : Infinity;
}

function ratesOf(state: AccountState, { meter, window }: Cap, week: Week, nowMs: number): Rate[] {
  const since = (basis: Basis, mark: 'minute' | 'hour' | 'day' | 'month'): Rate => ({
    basis,
    amount: usedIn(state, meter, mark),
    elapsedMs: Math.max(elapsedMsMin, Math.floor(nowMs - state.marks[mark].beginMs)),
  });
  const rates: Rate[] = [];
  if (window !== 'total') rates.push(since('window', window));
  if (window === 'total' && week.firstMs !== null) {
    const elapsedMs = Math.max(elapsedMsMin, Math.floor(nowMs - week.firstMs));
    rates.push({ basis: 'week', amount: week.amounts[meter], elapsedMs });
  }
  const recent = recentOf[window];
  if (recent && !isLevel(meter)) {
    const rate = since(recent, recent);
    if (rate.elapsedMs >= recentMsMin) rates.push(rate);
  }
  return rates;
}

/** The shorter time whose rate is reported beside that of the window. */
const recentOf = { minute: null, hour: null, day: 'hour', month: 'day', total: 'day' } as const;
