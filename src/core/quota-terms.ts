// The words of limits, which tokens say and the quota room understands: what is counted, and over
// which time. Invariant: a limit that is not known is refused, so nobody relies on one that is not
// kept. `stored*` are levels, which go down again, not flows: they have no window but `total`.
import { isCount } from './json.ts';

export const meters = [
  'spend',
  'storedBytes',
  'storedObjects',
  'ingressBytes',
  'egressBytes',
  'requests',
] as const;
export type Meter = (typeof meters)[number];

export type Level = 'storedBytes' | 'storedObjects';

/** The windows follow the UTC calendar. */
export const windows = ['minute', 'hour', 'day', 'month', 'total'] as const;
export type Window = (typeof windows)[number];

/** ` per day`, behind what is limited; nothing of all time. */
export function perWindow(window: Window): string {
  return window === 'total' ? '' : ` per ${window}`;
}

/** Limits as people, tokens and the native API write them. At least one; no member is empty. */
export type Limits = {
  /** Most of it in a window: `spend` in decimal USD, in a string; else a count. */
  readonly [M in Meter]?: { readonly [W in Window]?: M extends 'spend' ? string : number };
} & {
  /** Most per second, at least 1. */
  readonly rate?: { readonly requests?: number; readonly bytes?: number };
};

/** Decimal USD, to the picodollar; as `parseUsd` in `money.ts` reads it. */
export const moneyForm = /^(?:0|[1-9]\d{0,8})(?:\.\d{1,12})?$/;

const levelWindows: readonly Window[] = ['total'];

export function isLevel(meter: Meter): meter is Level {
  return meter === 'storedBytes' || meter === 'storedObjects';
}

/** The windows in which a meter can be limited. */
export function windowsOf(meter: Meter): readonly Window[] {
  return isLevel(meter) ? levelWindows : windows;
}

/** Reads limits out of parsed JSON; undefined when they have another form. */
export function readLimits(value: unknown): Limits | undefined {
  const entries = membersOf(value, [...meters, 'rate']);
  const fits = entries?.every(([name, amounts]) => {
    if (name === 'rate') return isAmounts(amounts, ['requests', 'bytes'], isRate);
    const isAmount = name === 'spend' ? isMoney : isCount;
    return isAmounts(amounts, windowsOf(name as Meter), isAmount);
  });
  return fits ? (value as Limits) : undefined;
}

/** The members of an object that has some, all of them among `names`. */
function membersOf(value: unknown, names: readonly string[]): [string, unknown][] | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  const entries = Object.entries(value);
  const fits = entries.length > 0 && entries.every(([name]) => names.includes(name));
  return fits ? entries : undefined;
}

function isAmounts(
  value: unknown,
  names: readonly string[],
  fits: (amount: unknown) => boolean,
): boolean {
  return membersOf(value, names)?.every(([, amount]) => fits(amount)) ?? false;
}

/**
 * A rate of zero is refused, since nobody could be told how long to wait. To allow a principal
 * nothing at all is for another kind of limit.
 */
function isRate(value: unknown): boolean {
  return isCount(value) && (value as number) > 0;
}

function isMoney(value: unknown): boolean {
  return typeof value === 'string' && moneyForm.test(value);
}
