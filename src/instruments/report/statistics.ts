// The statistics of the report: pure functions of numbers. Quantiles are NumPy's default (linear
// between the nearest two, Hyndman and Fan's type 7), correlations are Pearson's r with the
// interval of Fisher's z, shares have Wilson's interval; intervals are of 95%.

const z95 = 1.959963984540054;

/** The quantile of one or more values in ascending order; `share` is 0 to 1. */
export function quantileOf(sorted: ArrayLike<number>, share: number): number {
  const at = (sorted.length - 1) * share;
  const below = Math.floor(at);
  const low = sorted[below] as number;
  const high = sorted[Math.min(below + 1, sorted.length - 1)] as number;
  return low + (high - low) * (at - below);
}

export interface Interval {
  low: number;
  high: number;
}

/** What share of all things is like `count` of `total` that were seen; of none it may be any. */
export function shareInterval(count: number, total: number): Interval {
  if (total === 0) return { low: 0, high: 1 };
  const share = count / total;
  const square = z95 ** 2 / total;
  const middle = (share + square / 2) / (1 + square);
  const reach = (z95 / (1 + square)) * Math.sqrt((share * (1 - share) + square / 4) / total);
  // Rounding must not leave what was seen outside.
  return {
    low: count === 0 ? 0 : Math.min(middle - reach, share),
    high: count >= total ? 1 : Math.max(middle + reach, share),
  };
}

/** Pearson's r of pairs that come one by one (Welford's sums, which lose no digits). */
export class Correlation {
  count = 0;
  #meanX = 0;
  #meanY = 0;
  #squaresX = 0;
  #squaresY = 0;
  #products = 0;

  add(x: number, y: number): void {
    this.count++;
    const fromX = x - this.#meanX;
    const fromY = y - this.#meanY;
    this.#meanX += fromX / this.count;
    this.#meanY += fromY / this.count;
    this.#squaresX += fromX * (x - this.#meanX);
    this.#squaresY += fromY * (y - this.#meanY);
    this.#products += fromX * (y - this.#meanY);
  }

  /** null: there is none, of fewer than three pairs or where one side never changes. */
  get r(): number | null {
    const r = this.#products / Math.sqrt(this.#squaresX * this.#squaresY);
    if (this.count < 3 || !Number.isFinite(r)) return null;
    return Math.max(-1, Math.min(1, r));
  }

  /** null: of fewer than four pairs nothing can be said. */
  get interval(): Interval | null {
    const { r, count } = this;
    if (r === null || count < 4) return null;
    const reach = z95 / Math.sqrt(count - 3);
    return { low: Math.tanh(Math.atanh(r) - reach), high: Math.tanh(Math.atanh(r) + reach) };
  }
}

/** Standard error of the mean of at least two values. */
export function meanError(values: ArrayLike<number>): number {
  const count = values.length;
  let mean = 0;
  let squares = 0;
  for (let i = 0; i < count; i++) {
    const from = (values[i] as number) - mean;
    mean += from / (i + 1);
    squares += from * ((values[i] as number) - mean);
  }
  return Math.sqrt(squares / (count - 1) / count);
}

export interface Bin {
  from: number;
  to: number;
  count: number;
}

/**
 * Values above 0, ascending, counted in bins that are equally wide on a logarithmic scale: as many
 * as their spread and number ask for (Freedman and Diaconis), 1 to `binsMax`.
 */
export function countInBins(sorted: ArrayLike<number>, binsMax = 40): Bin[] {
  const first = Math.log10(sorted[0] as number);
  const spread = Math.log10(sorted[sorted.length - 1] as number) - first;
  const middle = Math.log10(quantileOf(sorted, 0.75)) - Math.log10(quantileOf(sorted, 0.25));
  const wanted = (spread * sorted.length ** (1 / 3)) / (2 * middle);
  const bins = Number.isFinite(wanted) ? Math.max(1, Math.min(binsMax, Math.ceil(wanted))) : 1;
  const width = spread > 0 ? spread / bins : 0.1;
  const counted = Array.from({ length: bins }, (_, index) => ({
    from: 10 ** (first + index * width),
    to: 10 ** (first + (index + 1) * width),
    count: 0,
  }));
  for (let i = 0; i < sorted.length; i++) {
    const index = Math.floor((Math.log10(sorted[i] as number) - first) / width);
    (counted[Math.min(index, bins - 1)] as Bin).count++;
  }
  return counted;
}
