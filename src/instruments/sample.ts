// One measured transfer, as probes and real traffic keep them and reports read them. Invariant: a
// sample names no key and nobody.
import type { Stage } from './stage-clock.ts';

/** What it was measured for; `traffic`: a client's request, the others are a probe's. */
export type Series = 'sizes' | 'latency' | 'surge' | 'parts' | 'traffic';

export interface Sample {
  /** Milliseconds since the Unix epoch, when it began. */
  timeMs: number;
  series: Series;
  /** `write` of parts is a whole multipart upload. */
  kind: 'read' | 'write';
  /** What was measured: a name, such as `gateway`, `store archive`, or the endpoint's host. */
  target: string;
  sizeBytes: number;
  /** From the first try to the end of the last, pauses between them included. Milliseconds. */
  durationMs: number;
  /** Until the first byte of the answer to the last try. Milliseconds. */
  firstByteMs: number;
  /** Tries after the first, 0 to 5. */
  retries: number;
  /** null: it succeeded, at the last of its tries. */
  error: string | null;
  /** First or second of two successive requests, for different objects; both name the pair. */
  pair?: { id: number; of: 1 | 2 };
  /** Requests that the probe had under way at a time (surge). */
  threads?: number;
  /** Parts sent at a time (parts). */
  parallelParts?: number;
  /** What it is estimated to cost by the price book, picodollars, as a decimal integer. */
  costPicodollars?: string;
  /** Milliseconds by stage (traffic). */
  stages?: Partial<Record<Stage, number>>;
  /** How many requests it was drawn from for each that was kept; absent: 1 (traffic). */
  weight?: number;
}

/** Sizes that probes measure and metrics have bands for, bytes (Palankar 2008, Garfinkel 2007). */
export const probeSizes = [1, 1024, 1024 ** 2, 16 * 1024 ** 2, 100 * 1024 ** 2] as const;

/**
 * Bounds of the random pauses between a probe's tries: the first, doubled each time, and the last.
 */
export const retryPauseMs = { min: 100, max: 5000 } as const;
