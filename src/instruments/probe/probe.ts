// A probe: rounds of the series that were chosen, of one target after another, at times like those
// of a Poisson process, until enough was measured. Invariant: it ends when it is asked to, when its
// money is spent and when its time is over, and leaves no object behind where it can be helped.
import { setMaxListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterwards } from '../../core/closing.ts';
import type { Sample, Series } from '../sample.ts';
import { Content } from './content.ts';
import { measurePairs } from './pairs.ts';
import { measureParts, type PartsOptions } from './parts.ts';
import { type LineOptions, ProbeLine, reasonOf } from './probe-line.ts';
import { ProbeObjects } from './probe-objects.ts';
import type { ProbeTarget } from './probe-target.ts';
import type { SeriesContext } from './series-context.ts';
import { type EndReason, ProbeEnd, type Spending } from './spending.ts';
import { measureSurge, type SurgeOptions } from './surge.ts';

export type ProbeSeries = Exclude<Series, 'traffic'>;

export interface ProbeOptions {
  targets: readonly ProbeTarget[];
  series: readonly ProbeSeries[];
  sizesBytes: readonly number[];
  surge: SurgeOptions;
  parts: PartsOptions;
  /** Rounds; null: until `forMs` are over. */
  count: number | null;
  forMs: number | null;
  /** The mean of the pauses before measurements, which are distributed exponentially. */
  meanIntervalMs: number;
  line: LineOptions;
  /** Bounds of the random pauses between tries. */
  retryPauseMs: { min: number; max: number };
  /** What keys begin with. */
  prefix: string;
  /** 16 hexadecimal digits of whoever runs one probe at a time. */
  owner: string;
  isKept: boolean;
}

export interface ProbeParts {
  spending: Spending;
  keep(sample: Sample): Promise<void>;
  /** Resolves when the next may begin: others may come first. */
  mayBegin?(): Promise<void>;
  /** For people: what was not as it should be. */
  onNotice(text: string): void;
  /** Asks the probe to end. */
  stop: AbortSignal;
  /** Asks it to end without removing anything. */
  abandon: AbortSignal;
}

/** `done`: all that was asked for. */
/** How a probe ended. */
export type ProbeOutcome = { reason: 'done' | EndReason; message: string | null };

/** 4,096 bytes, as the studies measured latency with. */
export const latencyBytes = 4096;

/** Rejects only where a sample could not be kept. */
export async function runProbe(options: ProbeOptions, parts: ProbeParts): Promise<ProbeOutcome> {
  const probe = new Probe(options, parts);
  await using _probe = afterwards(() => probe.end());
  return await probe.run();
}

interface Place {
  target: ProbeTarget;
  line: ProbeLine;
  context: SeriesContext;
}

class Probe {
  readonly #options: ProbeOptions;
  readonly #parts: ProbeParts;
  readonly #places: Place[];
  readonly #signal: AbortSignal;
  /** Why a sample could not be kept: then there is no use in measuring. */
  #lost: { error: unknown } | null = null;

  constructor(options: ProbeOptions, parts: ProbeParts) {
    this.#options = options;
    this.#parts = parts;
    const { targets, forMs, prefix, owner, isKept } = options;
    const { spending, stop, abandon } = parts;
    const time = forMs === null ? [] : [AbortSignal.timeout(forMs)];
    this.#signal = AbortSignal.any([stop, abandon, ...time]);
    setMaxListeners(0, this.#signal, abandon);
    const keep = (sample: Sample): Promise<void> => this.#keep(sample);
    const content = new Content();
    this.#places = targets.map((target) => {
      const line = new ProbeLine(target, options.line);
      const objects = new ProbeObjects({ line, prefix, owner, signal: abandon, isKept });
      const { line: lineOptions, retryPauseMs } = options;
      const shared = { spending, keep, signal: this.#signal, content };
      const context = { ...shared, objects, line: lineOptions, retryPauseMs };
      return { target, line, context };
    });
  }

  async run(): Promise<ProbeOutcome> {
    const { count } = this.#options;
    try {
      for (const place of this.#places) await this.#removeLeft(place);
      for (let round = 0; count === null || round < count; round++) {
        for (const place of this.#places) await this.#runRound(place);
      }
      return { reason: 'done', message: null };
    } catch (error) {
      if (error instanceof ProbeEnd) return { reason: error.reason, message: error.message };
      if (this.#lost) throw this.#lost.error;
      const { stop, abandon } = this.#parts;
      if (stop.aborted || abandon.aborted) return { reason: 'stopped', message: 'it was stopped' };
      if (this.#signal.aborted) return { reason: 'done', message: null };
      throw error;
    }
  }

  async end(): Promise<void> {
    if (!this.#parts.abandon.aborted) {
      for (const place of this.#places) await this.#removeLeft(place);
    }
    for (const { line } of this.#places) line.close();
  }

  async #keep(sample: Sample): Promise<void> {
    try {
      await this.#parts.keep(sample);
    } catch (error) {
      this.#lost = { error };
      throw error;
    }
  }

  async #removeLeft({ target, context }: Place): Promise<void> {
    try {
      await context.objects.removeAll();
    } catch (error) {
      this.#parts.onNotice(`${target.name}: cannot remove what is left: ${reasonOf(error)}`);
    }
  }

  async #runRound({ target, line, context }: Place): Promise<void> {
    const { series, sizesBytes, surge, parts } = this.#options;
    const step = (): Promise<void> => this.#wait();
    for (const one of series) {
      switch (one) {
        case 'sizes':
          for (const sizeBytes of sizesBytes) {
            await step();
            await line.warm(this.#signal);
            await measurePairs(context, line, { series: one, sizeBytes });
          }
          break;
        case 'latency':
          await step();
          await line.warm(this.#signal);
          await measurePairs(context, line, { series: one, sizeBytes: latencyBytes });
          break;
        case 'surge':
          await measureSurge(context, target, surge, step);
          break;
        case 'parts':
          await measureParts(context, target, parts, step);
          break;
      }
    }
  }

  /** The times between what is measured are those of events that know nothing of each other. */
  async #wait(): Promise<void> {
    const { meanIntervalMs } = this.#options;
    const signal = this.#signal;
    if (meanIntervalMs > 0) {
      const pauseMs = -Math.log(1 - Math.random()) * meanIntervalMs;
      await sleep(Math.min(pauseMs, 2 ** 31 - 1), undefined, { signal });
    }
    await this.#parts.mayBegin?.();
    signal.throwIfAborted();
  }
}
