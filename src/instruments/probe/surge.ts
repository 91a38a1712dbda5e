// "Surge": 1 to N threads, each for a given time, that read, and then write, one object after another.
// Invariant: a thread is a connection of its own with one request under way; no thread begins a
// request when its time is over, and all have ended before the next number of threads begins.
import { monotonicMs } from '../../core/clock.ts';
import { read, write } from './pairs.ts';
import { ProbeLine } from './probe-line.ts';
import type { ProbeObject } from './probe-objects.ts';
import type { ProbeRoom } from './probe-room.ts';
import type { ProbeTarget } from './probe-target.ts';
import type { Tries } from './transfer.ts';

export interface SurgeOptions {
  threadsMin: number;
  threadsMax: number;
  /** Of each number of threads, reading and writing alike. Milliseconds. */
  eachMs: number;
  sizeBytes: number;
}

interface Thread {
  line: ProbeLine;
  /** Two, which it reads by turns. */
  objects: ProbeObject[];
  tries: Tries[];
}

/** Rejects as `measure` does. `step` resolves when the next number of threads may begin. */
export async function measureSurge(
  room: ProbeRoom,
  target: ProbeTarget,
  options: SurgeOptions,
  step: () => Promise<void>,
): Promise<void> {
  for (let count = options.threadsMin; count <= options.threadsMax; count++) {
    await step();
    await measureThreads(room, target, options, count);
  }
}

async function measureThreads(
  room: ProbeRoom,
  target: ProbeTarget,
  { eachMs, sizeBytes }: SurgeOptions,
  count: number,
): Promise<void> {
  const threads = Array.from({ length: count }, (): Thread => {
    const objects = [room.objects.next(), room.objects.next()];
    return { line: new ProbeLine(target, room.line), objects, tries: [] };
  });
  const measured = { series: 'surge', sizeBytes, threads: count } as const;
  try {
    await together(threads, eachMs, async (thread, object) => {
      thread.tries.push(await write(room, thread.line, object, measured));
    });
    const readable = threads.filter(({ tries }) => {
      return tries.length > 1 && tries.every(({ error }) => error === null);
    });
    // With fewer threads than were asked for it would be another measurement.
    if (readable.length < count) return;
    await together(threads, eachMs, async ({ line }, object) => {
      await read(room, line, object, measured);
    });
  } finally {
    for (const thread of threads) await removeObjects(room, thread);
  }
}

/** Each thread does its work with its objects by turns, at least once with each, until time is over. */
async function together(
  threads: readonly Thread[],
  eachMs: number,
  work: (thread: Thread, object: ProbeObject) => Promise<void>,
): Promise<void> {
  const endMs = monotonicMs() + eachMs;
  let hasFailed = false;
  const run = async (thread: Thread): Promise<void> => {
    const { length } = thread.objects;
    for (let i = 0; (i < length || monotonicMs() < endMs) && !hasFailed; i++) {
      await work(thread, thread.objects[i % length] as ProbeObject);
    }
  };
  const runs = threads.map((thread) =>
    run(thread).catch((error: unknown) => {
      hasFailed = true;
      throw error;
    }),
  );
  // Nobody measures any more, nor writes samples, when this returns.
  for (const { status, ...rest } of await Promise.allSettled(runs)) {
    if (status === 'rejected') throw (rest as PromiseRejectedResult).reason;
  }
}

async function removeObjects(room: ProbeRoom, { line, objects, tries }: Thread): Promise<void> {
  // Of objects that were written again and again a bucket may have kept each version.
  for (const [i, { answer }] of tries.entries()) {
    const { key } = objects[i % objects.length] as ProbeObject;
    if (i < objects.length || answer?.headers['x-amz-version-id'] !== undefined) {
      await room.objects.remove(key, answer);
    }
  }
  line.close();
}
