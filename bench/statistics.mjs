// The bench's sums. On a machine that others use too, only what was measured side by side compares:
// numbers are medians, and ratios are medians of the ratios of neighbours in time.

export function median(values) {
  return quantile(values, 0.5);
}

/** `part` of the values are no larger; between two of them it is interpolated. */
export function quantile(values, part) {
  const sorted = [...values].sort((a, b) => a - b);
  const at = part * (sorted.length - 1);
  const low = sorted[Math.floor(at)];
  return low + (at - Math.floor(at)) * (sorted[Math.ceil(at)] - low);
}

/**
 * The median with its confidence interval of 95% by order statistics, which assumes nothing of how
 * the values are spread (Conover, Practical Nonparametric Statistics, 3.2). Of fewer than six
 * values the interval is their range, which is less sure.
 */
export function medianInterval(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const count = sorted.length;
  // How many of the lowest, and of the highest, can be left out: a binomial tail of 2.5% at most.
  let left = 0;
  let probability = 0.5 ** count;
  for (let tail = probability; tail <= 0.025; left++) {
    probability *= (count - left) / (left + 1);
    tail += probability;
  }
  const out = Math.max(left - 1, 0);
  return { median: median(sorted), low: sorted[out], high: sorted[count - 1 - out] };
}

/** Of one number in turns that were neighbours: `ours` divided by `others`. */
export function ratiosOf(ours, others, name) {
  return ours.map((turn, i) => turn[name] / others[i][name]);
}
