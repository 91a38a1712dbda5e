// The limits of one account, ready to be checked: hard caps by meter and window, and rates.
// Invariant: a set is read strictly or not at all, and says the same again as JSON.

import { parseUsd } from '../../core/money.ts';
import {
  type Limits,
  type Meter,
  meters,
  readLimits,
  type Window,
  windowsOf,
} from '../../core/quota-terms.ts';
import { parsePlainJson } from '../plain-json.ts';

/** No more than `amount` of the meter in each window; picodollars where it is `spend`. */
export interface Cap {
  readonly meter: Meter;
  readonly window: Window;
  readonly amount: bigint;
}

export interface LimitSet {
  /** As it was set. */
  readonly limits: Limits;
  readonly caps: readonly Cap[];
}

/** The longest JSON of limits has 22 caps and two rates. */
export const limitsBytesMax = 2048;

/** Reads the JSON text of limits; undefined when it has another form. */
export function parseLimitSet(text: string): LimitSet | undefined {
  let value: unknown;
  try {
    value = parsePlainJson(text, limitsBytesMax);
  } catch {
    return undefined;
  }
  const limits = readLimits(value);
  return limits && limitSetOf(limits);
}

/** Makes a set of limits that `readLimits` has read. */
export function limitSetOf(limits: Limits): LimitSet {
  const caps: Cap[] = [];
  for (const meter of meters) {
    const amounts: { [W in Window]?: string | number } = limits[meter] ?? {};
    for (const window of windowsOf(meter)) {
      const amount = amounts[window];
      if (amount !== undefined) caps.push({ meter, window, amount: amountOf(amount) });
    }
  }
  return { limits, caps };
}

/**
 * The limits that allow only what both of two sets allow, such as those of two links with one
 * `jti`, which are one account: of each limit the tighter. Gives `known` itself where the other
 * adds nothing.
 */
export function tightest(known: Limits, other: Limits): Limits {
  const all: Record<string, Record<string, string | number>> = {};
  for (const [name, amounts] of Object.entries(known)) all[name] = { ...amounts };
  let isTighter = false;
  for (const [name, amounts] of Object.entries(other)) {
    all[name] ??= {};
    const into = all[name];
    for (const [part, amount] of Object.entries(amounts)) {
      const before = into[part];
      if (before !== undefined && amountOf(amount) >= amountOf(before)) continue;
      into[part] = amount;
      isTighter = true;
    }
  }
  return isTighter ? (all as Limits) : known;
}

function amountOf(amount: string | number): bigint {
  return typeof amount === 'number' ? BigInt(amount) : (parseUsd(amount) as bigint);
}

/** The meters that have a cap in any window. */
export function limitedMeters({ caps }: LimitSet): Meter[] {
  return meters.filter((meter) => caps.some((cap) => cap.meter === meter));
}
