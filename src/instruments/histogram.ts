// How often values lay between which bounds. Invariant: counts and sum only grow; recording a value
// allocates nothing and costs one pass along the bounds up to it, so bounds begin where most values
// lie. Specification: Prometheus's histograms, of which a value equal to a bound is below it.

export class Histogram {
  /**
   * Ascending; `secondBounds`, `bytesPerSecondBounds`, or one's own, one array for all that share
   * them.
   */
  readonly bounds: readonly number[];
  /**
   * Counts of the values up to each bound and above the one before it. The last count is of those
   * above all bounds.
   */
  readonly counts: Float64Array;
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = new Float64Array(bounds.length + 1);
  }

  record(value: number): void {
    const { bounds } = this;
    let index = 0;
    while (index < bounds.length && value > (bounds[index] as number)) index++;
    this.counts[index] = (this.counts[index] as number) + 1;
    this.sum += value;
  }
}

/** 0.5 ms to 100 s. */
export const secondBounds: readonly number[] = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100,
];

/** 1 kB/s to 10 GB/s. */
export const bytesPerSecondBounds: readonly number[] = [
  1e3, 3e3, 1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7, 3e7, 1e8, 3e8, 1e9, 3e9, 1e10,
];
