// When a cap tells that it was used up to a percentage; pure. Invariant: a cap tells of each
// percentage once in its window, of those that are passed at once the highest only, and again when
// the cap is set to another amount. Levels have no window: they tell again on a later day, if they
// had gone down since. A token tells three times at most, whatever its caps are: its holder can
// make any number of caps, and of tokens.
import { divideUp } from '../../core/money.ts';
import { isLevel, type Meter, meters, type Window } from '../../core/quota-terms.ts';
import type { Sums } from '../amounts.ts';
import { type AlarmPercent, alarmPercents, type Reached } from '../limits/alarms.ts';
import type { Cap } from '../limits/limit-set.ts';
import { type AccountState, lostIn, usedIn } from './account-state.ts';

/** Gives what the caps of an account reached and had not told yet, and notes it as told. */
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

/** More than any counter reaches. */
const never = 2n ** 128n;
const nothingNext = Object.fromEntries(meters.map((meter) => [meter, never])) as Sums;

/**
 * That something was refused for want of a cap: 100, however little is used. What is used goes on
 * to be told, since to ask once for too much would else silence the account's warnings.
 */
export function tellRefused(
  account: string,
  state: AccountState,
  { meter, window }: { meter: Meter; window: Window },
): Reached | undefined {
  const cap = state.limits?.caps.find((one) => one.meter === meter && one.window === window);
  if (!cap) return undefined;
  const percent = percentOf(usedOf(state, cap), cap.amount);
  if (percent === 100) return tell(account, state, cap, percent);
  if (toldBefore(state, cap, 100) === 100 || hasRefused(state, cap)) return undefined;
  note(state, cap, toldBefore(state, cap, percent), true);
  return reachedOf(account, state, cap, 100);
}

function tell(
  account: string,
  state: AccountState,
  cap: Cap,
  percent: AlarmPercent | 0,
): Reached | undefined {
  const before = toldBefore(state, cap, percent);
  const isRefused = hasRefused(state, cap);
  if (percent > before) {
    note(state, cap, percent, isRefused);
    if (percent === 100 && isRefused) return undefined;
    return reachedOf(account, state, cap, percent as AlarmPercent);
  }
  const told = state.told.get(nameOf(state, cap));
  if (told && before < told.percent && isLevel(cap.meter)) note(state, cap, before, isRefused);
  return undefined;
}

function note(state: AccountState, cap: Cap, percent: number, isRefused: boolean): void {
  const periodMs = periodOf(state, cap);
  const told = { amount: String(cap.amount), periodMs, percent, isRefused };
  state.told.set(nameOf(state, cap), told);
}

function reachedOf(account: string, state: AccountState, cap: Cap, percent: AlarmPercent): Reached {
  const { meter, window, amount: limit } = cap;
  const beginMs = isLevel(meter) ? 0 : periodOf(state, cap);
  const { token } = state;
  return { account, meter, window, beginMs, percent, limit, used: usedOf(state, cap), token };
}

/** The key in `told`. */
function nameOf({ token }: AccountState, { meter, window }: Cap): string {
  return token ? '' : `${meter}/${window}`;
}

/** Returns whether the alarm of 100% was told in this period because something was refused. */
function hasRefused(state: AccountState, cap: Cap): boolean {
  const told = state.told.get(nameOf(state, cap));
  if (!told?.isRefused) return false;
  if (state.token) return true;
  return told.amount === String(cap.amount) && told.periodMs === periodOf(state, cap);
}

/** The percentage that a cap told and that still counts. */
function toldBefore(state: AccountState, cap: Cap, percent: number): number {
  const told = state.told.get(nameOf(state, cap));
  if (state.token) return told?.percent ?? 0;
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

/** The highest percentage that was reached. A cap of 0 cannot be used up. */
function percentOf(used: bigint, amount: bigint): AlarmPercent | 0 {
  if (amount === 0n) return 0;
  const share = (used * 100n) / amount;
  return alarmPercents.findLast((percent) => share >= BigInt(percent)) ?? 0;
}
