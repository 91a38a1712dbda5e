// One account as the ledger knows it, and the arithmetic of its limits; pure. Invariant: for each
// cap, used in its window + lost in its window + leased <= the cap, unless the cap was lowered.
// Granting is the one step that adds to that sum, and it checks; posting moves from leased to used;
// and a window that begins starts with nothing used. So what is leased can be spent in any window.
// (docs/decisions/0022-leases.md; escrow, after O'Neil 1986.)
//
// What was used in a window is the counter now minus the counter when the window began: a post
// touches six counters and no window.
import { stepMsMax } from '../../core/clock.ts';
import { isLevel, type Meter, meters, type Window } from '../../core/quota-terms.ts';
import {
  addAmounts,
  emptySums,
  type MeterAmounts,
  type Sums,
  type TokenFacts,
} from '../amounts.ts';
import type { Cap, LimitSet } from '../limits/limit-set.ts';
import { windowBeginMs, windowEndMs } from '../limits/windows.ts';
import type { Headroom, Shortage } from './requests.ts';

export const markedWindows = ['minute', 'hour', 'day', 'month'] as const;
export type MarkedWindow = (typeof markedWindows)[number];

/** The counters as they were when a window began. */
export interface Mark {
  beginMs: number;
  used: Sums;
  lost: Sums;
}

/** What a cap told last (`alarm-watch.ts`). Plain data, kept as JSON. */
export interface Told {
  /** The amount of the cap. */
  amount: string;
  /** When its window began, or the day for a level. */
  periodMs: number;
  /** The percentage of the cap that was used. */
  percent: number;
  /** Whether the alarm of 100% was told because something was refused. */
  isRefused: boolean;
}

export interface AccountState {
  limits: LimitSet | null;
  /** The token whose account it is; null: it is not a token's. */
  token: TokenFacts | null;
  /**
   * By meter and window, `spend/month`; of a token, which is told of fewer times, by the empty
   * name.
   */
  told: Map<string, Told>;
  /** Flows count from the beginning; levels are the present ones. */
  used: Sums;
  /** Leased by a gateway that died; perhaps spent, never recorded. Flows only. */
  lost: Sums;
  marks: Record<MarkedWindow, Mark>;
  /** By holder, the amounts that are set aside and neither posted nor given back. */
  leases: Map<string, Sums>;
}

/** Part of the headroom that is leased beyond what is needed now. */
const headroomShare = 32n;
/** Minutes are the shortest windows: others begin with one. */
const minuteMs = 60_000;

export function newAccountState(): AccountState {
  const mark = (): Mark => ({ beginMs: 0, used: emptySums(), lost: emptySums() });
  return {
    limits: null,
    token: null,
    told: new Map(),
    used: emptySums(),
    lost: emptySums(),
    marks: { minute: mark(), hour: mark(), day: mark(), month: mark() },
    leases: new Map(),
  };
}

/**
 * Returns whether a window has ended and the next one begins. A clock that is corrected backwards
 * begins none.
 */
export function isWindowOver({ marks }: AccountState, timeMs: number): boolean {
  const sinceMs = timeMs - marks.minute.beginMs;
  return sinceMs >= minuteMs || sinceMs < -stepMsMax;
}

/**
 * Begins the windows that `timeMs` is in; says which. One that was begun in the future, by a clock
 * that was wrong, becomes that of now, and what was used in it counts: who has a limit gets nothing
 * by it.
 */
export function beginWindows(state: AccountState, timeMs: number): MarkedWindow[] {
  const begun: MarkedWindow[] = [];
  for (const window of markedWindows) {
    const beginMs = windowBeginMs(window, timeMs);
    const mark = state.marks[window];
    if (beginMs < mark.beginMs && timeMs < mark.beginMs - stepMsMax) {
      state.marks[window] = { ...mark, beginMs };
      begun.push(window);
    }
    if (beginMs <= mark.beginMs) continue;
    state.marks[window] = { beginMs, used: { ...state.used }, lost: { ...state.lost } };
    begun.push(window);
  }
  return begun;
}

/** The amount used in the window that `beginWindows` began last; of a level, the present one. */
export function usedIn(state: AccountState, meter: Meter, window: Window): bigint {
  if (window === 'total' || isLevel(meter)) return state.used[meter];
  return state.used[meter] - state.marks[window].used[meter];
}

export function lostIn(state: AccountState, meter: Meter, window: Window): bigint {
  if (window === 'total' || isLevel(meter)) return state.lost[meter];
  return state.lost[meter] - state.marks[window].lost[meter];
}

export function leasedOf(state: AccountState, meter: Meter): bigint {
  let sum = 0n;
  for (const lease of state.leases.values()) sum += lease[meter];
  return sum;
}

/** The least that a cap of the meter leaves; undefined: it has none. Less than 0: lowered. */
export function headroomOf(state: AccountState, meter: Meter): bigint | undefined {
  let least: bigint | undefined;
  for (const cap of state.limits?.caps ?? []) {
    if (cap.meter !== meter) continue;
    const left = leftOf(state, cap);
    if (least === undefined || left < least) least = left;
  }
  return least;
}

/** Returns what is left of each cap on a flow. */
export function listHeadroom(state: AccountState): Headroom[] {
  const list: Headroom[] = [];
  for (const cap of state.limits?.caps ?? []) {
    const { meter, window, amount } = cap;
    if (isLevel(meter)) continue;
    const beginMs = window === 'total' ? 0 : state.marks[window].beginMs;
    const resetMs = windowEndMs(window, beginMs);
    const left = Number(leftOf(state, cap));
    list.push({ meter, window, limit: Number(amount), left, windowMs: resetMs - beginMs, resetMs });
  }
  return list;
}

/**
 * The cap that does not leave `need`, undefined if all do. Of several the one that is reset last:
 * to wait for another would be in vain.
 */
export function findShortage(
  state: AccountState,
  account: string,
  need: MeterAmounts,
): Shortage | undefined {
  let found: Shortage | undefined;
  for (const cap of state.limits?.caps ?? []) {
    const asked = BigInt(need[cap.meter] ?? 0);
    if (asked === 0n || asked <= leftOf(state, cap)) continue;
    const { meter, window } = cap;
    const beginMs = window === 'total' ? 0 : state.marks[window].beginMs;
    const resetMs = windowEndMs(window, beginMs);
    if (found && found.resetMs >= resetMs) continue;
    found = {
      account,
      meter,
      window,
      limit: cap.amount,
      used: usedIn(state, meter, window) + lostIn(state, meter, window),
      reserved: leasedOf(state, meter),
      asked,
      resetMs,
    };
  }
  return found;
}

/** Whether `need` would be left of all caps if these holders had no lease. */
export function couldFit(
  state: AccountState,
  need: MeterAmounts,
  others: readonly string[],
): boolean {
  for (const cap of state.limits?.caps ?? []) {
    const asked = BigInt(need[cap.meter] ?? 0);
    let left = leftOf(state, cap);
    for (const holder of others) left += state.leases.get(holder)?.[cap.meter] ?? 0n;
    if (asked > 0n && asked > left) return false;
  }
  return true;
}

/**
 * Leases `need`, which `findShortage` let pass, and of `want` no more than a small part of what is
 * then left: so a lease shrinks towards single requests as the limit nears, and a crash loses
 * little. A meter without a cap needs no lease, and gets what is needed only.
 */
export function grantLease(
  state: AccountState,
  holder: string,
  need: MeterAmounts,
  want: MeterAmounts,
): MeterAmounts {
  const granted: { [M in Meter]?: number } = {};
  for (const meter of meters) {
    const needed = need[meter] ?? 0;
    const wanted = want[meter] ?? 0;
    if (needed < 0 || wanted < 0) throw new Error(`less than no ${meter} was asked for`);
    if (needed + wanted === 0) continue;
    const left = headroomOf(state, meter) ?? 0n;
    const share = (left - BigInt(needed)) / headroomShare;
    const extra = share > 0n ? Math.min(wanted, Number(share)) : 0;
    granted[meter] = needed + Math.floor(extra);
  }
  const lease = state.leases.get(holder) ?? emptySums();
  addAmounts(lease, granted);
  state.leases.set(holder, lease);
  return granted;
}

/** Takes off a lease what was posted or given back. Throws if that was not leased: a bug. */
export function settleLease(state: AccountState, holder: string, amounts: MeterAmounts): void {
  const lease = state.leases.get(holder) ?? emptySums();
  addAmounts(lease, amounts, -1);
  for (const meter of meters) {
    if (lease[meter] < 0n) throw new Error(`more ${meter} was settled than was leased`);
  }
}

/**
 * Takes off leases what their holders posted before they died and no row has yet, as far as they
 * have it; gives the holders that had some. Flows only: levels come free anyway (`writeOffLease`).
 */
export function useUpLeases(state: AccountState, amounts: MeterAmounts): string[] {
  const changed = new Set<string>();
  for (const meter of meters) {
    let left = isLevel(meter) ? 0n : BigInt(amounts[meter] ?? 0);
    for (const [holder, lease] of state.leases) {
      const taken = lease[meter] < left ? lease[meter] : left;
      if (taken <= 0n) continue;
      lease[meter] -= taken;
      left -= taken;
      changed.add(holder);
    }
  }
  return [...changed];
}

/**
 * Ends the lease of a holder that died. The part of it that was posted is used already. Of the
 * rest, flows may have been spent without a record, so they count as spent in the present windows.
 * Levels change only together with their record, so they become free.
 */
export function writeOffLease(state: AccountState, holder: string): void {
  const lease = state.leases.get(holder);
  if (!lease) return;
  for (const meter of meters) if (!isLevel(meter)) state.lost[meter] += lease[meter];
  state.leases.delete(holder);
}

/** Counts what was lost as unspent, because the operator knows that it was not spent. */
export function forgetLost(state: AccountState): void {
  state.lost = emptySums();
  for (const window of markedWindows) state.marks[window].lost = emptySums();
}

function leftOf(state: AccountState, { meter, window, amount }: Cap): bigint {
  return (
    amount - usedIn(state, meter, window) - lostIn(state, meter, window) - leasedOf(state, meter)
  );
}
