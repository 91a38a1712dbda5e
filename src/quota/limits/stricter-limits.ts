// The limits that allow only what both of two sets of limits allow. Pure.
import { parseUsd } from '../../core/money.ts';
import { type Limits, meters, windows } from '../../core/quota-terms.ts';

type Amounts = Record<string, number | string>;

/** Every amount that one of them has; where both have one, the lower. */
export function stricterLimits(one: Limits, other: Limits): Limits {
  const both: Record<string, Amounts> = {};
  for (const name of [...meters, 'rate'] as const) {
    const [a, b] = [one[name] as Amounts | undefined, other[name] as Amounts | undefined];
    const amounts: Amounts = {};
    for (const window of [...windows, 'requests', 'bytes']) {
      const lower = lowerOf(a?.[window], b?.[window]);
      if (lower !== undefined) amounts[window] = lower;
    }
    if (Object.keys(amounts).length > 0) both[name] = amounts;
  }
  return both as Limits;
}

function lowerOf<T extends number | string>(a: T | undefined, b: T | undefined): T | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return amountOf(a) <= amountOf(b) ? a : b;
}

function amountOf(value: number | string): number | bigint {
  return typeof value === 'string' ? (parseUsd(value) as bigint) : value;
}
