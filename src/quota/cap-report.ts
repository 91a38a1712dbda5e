// The caps of an account as people read them: what of each is used, lost, set aside and left.
// Invariant: it is of one moment, and takes amounts as the ledger counts them, to the last unit.
import { isoTime } from '../core/clock.ts';
import { formatUsd } from '../core/money.ts';
import type { Meter, Window } from '../core/quota-terms.ts';
import {
  type AccountState,
  beginWindows,
  leasedOf,
  lostIn,
  usedIn,
} from './leases/account-state.ts';
import { windowEndMs } from './limits/windows.ts';

/** Amounts are decimal: USD of `spend`, else bytes, objects or requests. */
export interface CapReport {
  meter: Meter;
  window: Window;
  limit: string;
  /** The amount used in this window, or the amount stored now. */
  used: string;
  /** What was set aside when the gateway died, and may have been used; it counts as used. */
  lost: string;
  /** The amount reserved by operations under way, and set aside for those to come. */
  reserved: string;
  /** What can still be used or reserved: never less than 0. */
  left: string;
  /** Whether more is used than the limit allows: it was lowered, or storage was charged. */
  exceeded: boolean;
  /** When the window ends. Null means never. */
  resetAt: string | null;
}

/** The caps of an account as they are at `timeMs`, to which its windows are brought. */
export function reportCaps(state: AccountState, timeMs: number): CapReport[] {
  beginWindows(state, timeMs);
  return (state.limits?.caps ?? []).map(({ meter, window, amount }) => {
    const show = (value: bigint): string => amountText(meter, value);
    const used = usedIn(state, meter, window);
    const lost = lostIn(state, meter, window);
    const reserved = leasedOf(state, meter);
    const left = amount - used - lost - reserved;
    const endMs = window === 'total' ? Infinity : windowEndMs(window, state.marks[window].beginMs);
    return {
      ...{ meter, window, limit: show(amount), used: show(used), lost: show(lost) },
      reserved: show(reserved),
      left: show(left > 0n ? left : 0n),
      exceeded: used + lost > amount,
      resetAt: Number.isFinite(endMs) ? isoTime(endMs) : null,
    };
  });
}

/** The text of an amount of a meter: decimal USD, or a count. */
export function amountText(meter: Meter, amount: bigint): string {
  return meter === 'spend' ? formatUsd(amount) : amount.toString();
}
