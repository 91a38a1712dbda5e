// How long reads took lately: their 95th percentile, by size. Invariant: a sample costs a store
// into an array; the percentile is computed once for many samples, in place.

const samplesMax = 512;
/** With fewer samples than this nothing is known. */
const samplesMin = 32;
const samplesPerUpdate = 32;
const quantile = 0.95;
/** Upper bounds, bytes: a read of a mebibyte is not slow because one of 4 KiB is quick. */
export const recentSizes = [16 * 1024, 128 * 1024, 1024 * 1024] as const;

interface Samples {
  ring: Float64Array;
  count: number;
  slowMs: number;
}

export class RecentLatencies {
  readonly #classes: Samples[] = recentSizes.map(() => ({
    ring: new Float64Array(samplesMax),
    count: 0,
    slowMs: Number.POSITIVE_INFINITY,
  }));
  readonly #sorted = new Float64Array(samplesMax);

  /** Larger reads are not kept: they are slow because they are large. */
  add(sizeBytes: number, latencyMs: number): void {
    const samples = this.#classOf(sizeBytes);
    if (!samples) return;
    samples.ring[samples.count % samplesMax] = latencyMs;
    samples.count++;
    if (samples.count % samplesPerUpdate === 0 && samples.count >= samplesMin) {
      samples.slowMs = this.#percentile(samples);
    }
  }

  /** Milliseconds that 95% of the reads of about this size took; infinite while unknown. */
  slowMs(sizeBytes: number): number {
    return this.#classOf(sizeBytes)?.slowMs ?? Number.POSITIVE_INFINITY;
  }

  #classOf(sizeBytes: number): Samples | undefined {
    for (let index = 0; index < recentSizes.length; index++) {
      if (sizeBytes <= (recentSizes[index] as number)) return this.#classes[index];
    }
    return undefined;
  }

  #percentile({ ring, count }: Samples): number {
    const filled = Math.min(count, samplesMax);
    const sorted = this.#sorted.subarray(0, filled);
    sorted.set(ring.subarray(0, filled));
    sorted.sort();
    return sorted[Math.min(filled - 1, Math.ceil(filled * quantile))] as number;
  }
}
