// What a probe measured, in a few figures for who waits for it; `bursar report` has all of it.
// Invariant: bounded memory, however long the probe takes.
import { getOrMake } from '../../core/maps.ts';
import type { Sample } from '../sample.ts';

/** Of more samples than this, as many are drawn evenly. */
const keptMax = 10_000;

export interface SummaryRow
  extends Pick<Sample, 'target' | 'series' | 'kind' | 'sizeBytes' | 'threads' | 'parallelParts'> {
  count: number;
  failed: number;
  /** Tries after the first, of all. */
  retries: number;
  /** Of those that succeeded; null: none did. Milliseconds. */
  medianMs: number | null;
  p95Ms: number | null;
}

interface Group extends Omit<SummaryRow, 'medianMs' | 'p95Ms'> {
  durationsMs: number[];
}

export class ProbeSummary {
  readonly #groups = new Map<string, Group>();
  count = 0;
  failed = 0;

  add(sample: Sample): void {
    const group = this.#groupOf(sample);
    group.count++;
    this.count++;
    group.retries += sample.retries;
    if (sample.error !== null) {
      group.failed++;
      this.failed++;
      return;
    }
    const { durationsMs } = group;
    const place = Math.floor(Math.random() * (group.count - group.failed));
    if (durationsMs.length < keptMax) durationsMs.push(sample.durationMs);
    else if (place < keptMax) durationsMs[place] = sample.durationMs;
  }

  rows(): SummaryRow[] {
    return Array.from(this.#groups.values(), ({ durationsMs, ...row }) => {
      const sorted = Float64Array.from(durationsMs).sort();
      const at = (share: number): number | null => {
        return sorted[Math.ceil(share * sorted.length) - 1] ?? null;
      };
      return { ...row, medianMs: at(0.5), p95Ms: at(0.95) };
    });
  }

  #groupOf({ target, series, kind, sizeBytes, threads, parallelParts }: Sample): Group {
    const name = [target, series, kind, sizeBytes, threads, parallelParts].join('\n');
    return getOrMake(this.#groups, name, () => ({
      ...{ target, series, kind, sizeBytes },
      ...(threads !== undefined && { threads }),
      ...(parallelParts !== undefined && { parallelParts }),
      ...{ count: 0, failed: 0, retries: 0, durationsMs: [] },
    }));
  }
}
