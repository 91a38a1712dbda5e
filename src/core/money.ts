// Money: whole picodollars (1e-12 USD) in bigints, shown as decimal USD. Invariant: no amount is
// ever a fraction. What comes out as one is rounded up, once, where a charge is made; after that
// amounts are only added, so sums are exact in any order (decision 21).

/** 1e-12 USD each. */
export type Picodollars = bigint;

export const picodollarsPerUsd = 10n ** 12n;

/** The most that one price can be, and what 64 bits hold: sums may be more. */
export const picodollarsMax = 2n ** 63n - 1n;

const form = /^(0|[1-9]\d{0,8})(?:\.(\d{1,12}))?$/;

/** Decimal USD with at most 12 decimals, less than a billion; undefined for any other text. */
export function parseUsd(text: string): Picodollars | undefined {
  const match = form.exec(text);
  if (!match) return undefined;
  const [, dollars = '', decimals = ''] = match;
  return BigInt(dollars + decimals.padEnd(12, '0'));
}

/**
 * Decimal USD: at least 2 decimals, at most `decimalsMax` (2 to 12), halves rounded away from zero.
 * With 12 it is exact, and what `parseUsd` reads, unless it is negative.
 */
export function formatUsd(amount: Picodollars, decimalsMax = 12): string {
  const unit = 10n ** BigInt(12 - decimalsMax);
  const size = amount < 0n ? -amount : amount;
  const digits = String((size + unit / 2n) / unit).padStart(decimalsMax + 1, '0');
  const sign = amount < 0n && /[1-9]/.test(digits) ? '-' : '';
  const decimals = digits.slice(-decimalsMax).replace(/0+$/, '').padEnd(2, '0');
  return `${sign}${digits.slice(0, -decimalsMax)}.${decimals}`;
}

/** The quotient of two amounts that are not negative, rounded up. */
export function divideUp(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}
