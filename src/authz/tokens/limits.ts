// Limits of a token: what a link may spend, in an account of its own, `token:<jti>`, which is
// charged beside those of all links above it. So a link's limits need not be less than its
// parent's: the parent's hold as well. Invariant: a limit that is not known is refused.
import { isObject, otherMember } from './strict-json.ts';

export const meters = [
  'spend',
  'storedBytes',
  'storedObjects',
  'ingressBytes',
  'egressBytes',
  'requests',
] as const;
export type Meter = (typeof meters)[number];

export const windows = ['minute', 'hour', 'day', 'month', 'total'] as const;
export type Window = (typeof windows)[number];

/** The `limits` claim of one link. At least one member is there, and none is empty. */
export type Limits = {
  /** Most of it in a window (UTC calendar): `spend` in decimal USD, in a string; else a count. */
  readonly [M in Meter]?: { readonly [W in Window]?: M extends 'spend' ? string : number };
} & {
  /** Most per second. */
  readonly rate?: { readonly requests?: number; readonly bytes?: number };
};

/** Decimal USD, to the picodollar. */
export const moneyForm = /^(?:0|[1-9]\d{0,8})(?:\.\d{1,12})?$/;

/** Reads the claim; undefined when it has another form. */
export function readLimits(value: unknown): Limits | undefined {
  if (!isObject(value) || otherMember(value, [...meters, 'rate'])) return undefined;
  const entries = Object.entries(value);
  const fits = entries.every(([name, amounts]) => {
    if (name === 'rate') return isAmounts(amounts, ['requests', 'bytes'], isCount);
    return isAmounts(amounts, windows, name === 'spend' ? isMoney : isCount);
  });
  return entries.length > 0 && fits ? (value as Limits) : undefined;
}

function isAmounts(
  value: unknown,
  names: readonly string[],
  fits: (amount: unknown) => boolean,
): boolean {
  if (!isObject(value) || otherMember(value, names)) return false;
  const amounts = Object.values(value);
  return amounts.length > 0 && amounts.every(fits);
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && (value as number) >= 0;
}

function isMoney(value: unknown): boolean {
  return typeof value === 'string' && moneyForm.test(value);
}
