// When a cap tells that it was used up to a percentage; pure. Invariant: a cap tells of each
// percentage once in its window, of those that are passed at once the highest only, and again when
// the cap is set to another amount. Levels have no window: they tell again on a later day, if they
// had gone down since. A token tells three times at most, whatever its caps are: its holder can make
// any number of caps, and of tokens.
import { divideUp } from '../../core/money.ts';
import { isLevel, type Meter, meters, type Window } from '../../core/quota-terms.ts';
import type { Sums } from '../amounts.ts';
import { type AlarmPercent, alarmPercents, type Reached } from '../limits/alarms.ts';
import type { Cap } from '../limits/limit-set.ts';
import { type AccountState, lostIn, usedIn } from './account-state.ts';

/** What all caps of an account reached and had not told; it is noted as told. */
export function watchCaps(account: string, state: AccountState): Reached[] {
  const all: Reached[] = [];
  for (const cap of state.limits?.caps ?? []) {
    const reached = tell(account, state, cap, percentOf(usedOf(state, cap), cap.amount));
    if (reached) all.push(reached);
  }
  return all;
}

/**
 * By meter the counter at which a cap tells next, until a window begins or a cap changes; so that
 * most charges need not look at caps.
 */
export function nextAlarms(state: AccountState): Sums {
  const next = { ...nothingNext };
  for (const cap of state.limits?.caps ?? []) {
    const told = toldBefore(state, cap, 100);
    const percent = alarmPercents.find((one) => one > told);
    if (percent === undefined || cap.amount === 0n) continue;
    const missing = divideUp(cap.amount * BigInt(percent), 100n) - usedOf(state, cap);
    const at = state.used[cap.meter] + missing;
    if (at < next[cap.meter]) next[cap.meter] = at;
  }
  return next;
}

export function hasReached(state: AccountState, next: Sums): boolean {
  for (const meter of meters) if (state.used[meter] >= next[meter]) return true;
  return false;
}

/** Beyond what an account can hold. */
const never = 2n ** 64n;
const nothingNext = Object.fromEntries(meters.map((meter) => [meter, never])) as Sums;

/** The same of a cap that something was refused for. */
export function tellRefused(
  account: string,
  state: AccountState,
  { meter, window }: { meter: Meter; window: Window },
): Reached | undefined {
  const cap = state.limits?.caps.find((one) => one.meter === meter && one.window === window);
  return cap && tell(account, state, cap, 100);
}

function tell(
  account: string,
  state: AccountState,
  cap: Cap,
  percent: AlarmPercent | 0,
): Reached | undefined {
  const { meter, window, amount } = cap;
  const name = state.token ? '' : `${meter}/${window}`;
  const periodMs = periodOf(state, cap);
  const before = toldBefore(state, cap, percent);
  if (percent > before) {
    state.told.set(name, { amount: String(amount), periodMs, percent });
    const beginMs = isLevel(meter) ? 0 : periodMs;
    return {
      ...{ account, meter, window, beginMs, percent: percent as AlarmPercent },
      ...{ limit: amount, used: usedOf(state, cap), token: state.token },
    };
  }
  const told = state.told.get(name);
  if (told && before < told.percent && isLevel(meter)) {
    state.told.set(name, { amount: String(amount), periodMs, percent: before });
  }
  return undefined;
}

/** The percentage that a cap told and that still counts. */
function toldBefore(state: AccountState, cap: Cap, percent: number): number {
  if (state.token) return state.told.get('')?.percent ?? 0;
  const told = state.told.get(`${cap.meter}/${cap.window}`);
  if (!told || told.amount !== String(cap.amount)) return 0;
  if (told.periodMs === periodOf(state, cap)) return told.percent;
  return isLevel(cap.meter) ? Math.min(told.percent, percent) : 0;
}

/** In which it tells once: when its window began, or a level's day. */
function periodOf({ marks }: AccountState, { meter, window }: Cap): number {
  if (isLevel(meter)) return marks.day.beginMs;
  return window === 'total' ? 0 : marks[window].beginMs;
}

function usedOf(state: AccountState, { meter, window }: Cap): bigint {
  return usedIn(state, meter, window) + lostIn(state, meter, window);
}

/** The highest that was reached. Of a cap of 0 nothing can be used up. */
function percentOf(used: bigint, amount: bigint): AlarmPercent | 0 {
  if (amount === 0n) return 0;
  const share = (used * 100n) / amount;
  return alarmPercents.findLast((percent) => share >= BigInt(percent)) ?? 0;
}
