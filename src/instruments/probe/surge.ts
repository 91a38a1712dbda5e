// "Surge": 1 to N threads, each for a given time, that write, and then read, one object after
// another. Invariant: a thread is a connection of its own with one request under way; no thread
// begins a request when its time is over, and all have ended before the next number of threads
// begins.
import { monotonicMs } from '../../core/clock.ts';
import type { Sample } from '../sample.ts';
import { read, write } from './pairs.ts';
import { ProbeLine } from './probe-line.ts';
import type { ProbeObject } from './probe-objects.ts';
import type { ProbeTarget } from './probe-target.ts';
import type { SeriesContext } from './series-context.ts';
import type { Tries } from './transfer.ts';

export interface SurgeOptions {
  threadsMin: number;
  threadsMax: number;
  /** How long each number of threads reads, and writes. Milliseconds. */
  eachMs: number;
  sizeBytes: number;
}

/** Rejects as `measure` does. `step` resolves when the next number of threads may begin. */
export async function measureSurge(
  context: SeriesContext,
  target: ProbeTarget,
  options: SurgeOptions,
  step: () => Promise<void>,
): Promise<void> {
  for (let count = options.threadsMin; count <= options.threadsMax; count++) {
    await step();
    await measureThreads(context, target, options, count);
  }
}

async function measureThreads(
  context: SeriesContext,
  target: ProbeTarget,
  { eachMs, sizeBytes }: SurgeOptions,
  count: number,
): Promise<void> {
  const measured = { series: 'surge', sizeBytes, threads: count } as const;
  const threads = Array.from({ length: count }, () => new Thread(context, target));
  await Promise.all(threads.map(({ line }) => line.warm(context.signal)));
  try {
    let hasFailed = false;
    await together(threads, eachMs, async ({ context: own, line }, place) => {
      place.tries = await write(own, line, place.object, measured);
      hasFailed ||= place.tries.error !== null;
    });
    // With fewer threads than were asked for it would be another measurement.
    if (hasFailed) return;
    await together(threads, eachMs, async ({ context: own, line }, { object }) => {
      await read(own, line, object, measured);
    });
  } finally {
    await removeObjects(context, threads);
    for (const { line } of threads) line.close();
  }
}

interface Place {
  object: ProbeObject;
  /** The tries of the last write. */
  tries: Tries | null;
}

class Thread {
  readonly line: ProbeLine;
  /** Two, so that no two requests after each other are for one object. */
  readonly places: readonly Place[];
  readonly context: SeriesContext;
  #kept: Promise<void> = Promise.resolve();

  constructor(context: SeriesContext, target: ProbeTarget) {
    this.line = new ProbeLine(target, context.line);
    this.places = [0, 1].map(() => ({ object: context.objects.next(), tries: null }));
    this.context = { ...context, keep: (sample) => this.#keep(context, sample) };
  }

  /** All of its samples are kept. */
  kept(): Promise<void> {
    return this.#kept;
  }

  /**
   * One sample may still be on its way to the disk while the next request is sent: if the thread
   * waited for it, the others would have the server to themselves meanwhile.
   */
  #keep(context: SeriesContext, sample: Sample): Promise<void> {
    const before = this.#kept;
    this.#kept = context.keep(sample);
    // Whoever waits for it next meets the error.
    this.#kept.catch(() => {});
    return before;
  }
}

/**
 * Each thread does its work with its objects by turns, at least once with each, until time is over.
 */
async function together(
  threads: readonly Thread[],
  eachMs: number,
  work: (thread: Thread, place: Place) => Promise<void>,
): Promise<void> {
  const endMs = monotonicMs() + eachMs;
  let hasEnded = false;
  const run = async (thread: Thread): Promise<void> => {
    const { length } = thread.places;
    try {
      for (let i = 0; (i < length || monotonicMs() < endMs) && !hasEnded; i++) {
        await work(thread, thread.places[i % length] as Place);
      }
    } catch (error) {
      hasEnded = true;
      throw error;
    } finally {
      await thread.kept();
    }
  };
  // Nobody measures any more, nor writes samples, when this returns.
  for (const outcome of await Promise.allSettled(threads.map(run))) {
    if (outcome.status === 'rejected') throw outcome.reason;
  }
}

async function removeObjects(
  { objects }: SeriesContext,
  threads: readonly Thread[],
): Promise<void> {
  let hasVersions = false;
  for (const { object, tries } of threads.flatMap(({ places }) => places)) {
    await objects.remove(object.key, tries?.answer ?? null);
    hasVersions ||= tries?.answer?.headers['x-amz-version-id'] !== undefined;
  }
  // A bucket with versions has kept all that was written. What cannot be removed now is tried again
  // at the end, and reported there.
  if (hasVersions) await objects.removeAll().catch(() => {});
}
