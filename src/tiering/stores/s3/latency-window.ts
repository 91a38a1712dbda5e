// How long reads of a store took lately: their 95th percentile, by size. Invariant: a sample costs
// a store into an array; the percentile is computed once for many samples, in place.

const samplesMax = 512;
/** Below so many samples nothing is known. */
const samplesMin = 32;
const samplesPerUpdate = 32;
const quantile = 0.95;
/** Upper bounds, bytes: a read of a mebibyte is not slow because one of 4 KiB is quick. */
const sizeClasses = [16 * 1024, 128 * 1024, Number.POSITIVE_INFINITY];

interface Samples {
  ring: Float64Array;
  count: number;
  thresholdMs: number;
}

export class LatencyWindow {
  readonly #classes: Samples[] = sizeClasses.map(() => ({
    ring: new Float64Array(samplesMax),
    count: 0,
    thresholdMs: Number.POSITIVE_INFINITY,
  }));
  readonly #sorted = new Float64Array(samplesMax);

  add(sizeBytes: number, latencyMs: number): void {
    const samples = this.#classOf(sizeBytes);
    samples.ring[samples.count % samplesMax] = latencyMs;
    samples.count++;
    if (samples.count % samplesPerUpdate === 0 && samples.count >= samplesMin) {
      samples.thresholdMs = this.#percentile(samples);
    }
  }

  /** Milliseconds that 95% of the reads of about this size took at most; infinite while unknown. */
  thresholdMs(sizeBytes: number): number {
    return this.#classOf(sizeBytes).thresholdMs;
  }

  #classOf(sizeBytes: number): Samples {
    const index = sizeClasses.findIndex((bound) => sizeBytes <= bound);
    return this.#classes[index] as Samples;
  }

  #percentile({ ring, count }: Samples): number {
    const filled = Math.min(count, samplesMax);
    const sorted = this.#sorted.subarray(0, filled);
    sorted.set(ring.subarray(0, filled));
    sorted.sort();
    return sorted[Math.min(filled - 1, Math.ceil(filled * quantile))] as number;
  }
}
