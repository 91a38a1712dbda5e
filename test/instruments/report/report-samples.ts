// Samples as probes and traffic would have taken them, of an installation whose limits are known.
// The same seed gives the same samples.
import type { Sample } from '#bursar/instruments/sample.js';

const sizes = [1, 1024, 1024 ** 2, 16 * 1024 ** 2, 100 * 1024 ** 2];
const beginMs = Date.UTC(2026, 10, 1);
const dayMs = 86_400_000;

export class Dice {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  /** 0 to 1. */
  roll(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) >>> 0;
    return (this.#state + 0.5) / 2 ** 32;
  }

  /** Of mean 0 and deviation 1. */
  normal(): number {
    return Math.sqrt(-2 * Math.log(this.roll())) * Math.cos(2 * Math.PI * this.roll());
  }
}

/** Some 7 ms for a read, 13 for a write, and 60 and 40 MB/s, slower in the afternoon. */
function durationOf(dice: Dice, kind: Sample['kind'], sizeBytes: number, slower = 0): number {
  const [waitMs, perMs] = kind === 'read' ? [7, 60_000] : [13, 40_000];
  const tail = dice.roll() < 0.012 ? dice.roll() * waitMs * 12 : 0;
  const wait = waitMs * Math.exp(0.2 * dice.normal());
  return wait + tail + (sizeBytes / perMs) * Math.exp(0.2 * dice.normal() + slower);
}

function sampleOf(part: Partial<Sample> & { durationMs: number }): Sample {
  const { durationMs } = part;
  return {
    ...{ timeMs: beginMs, series: 'sizes', kind: 'read', target: 'gateway', sizeBytes: 1 },
    ...{ retries: 0, error: null, firstByteMs: durationMs / 2 },
    ...part,
  };
}

/** All series of a probe: pairs of large objects go together, those of small ones do not. */
export function* probeSamples({ days = 7, seed = 1 } = {}): Generator<Sample> {
  const dice = new Dice(seed);
  let id = 0;
  for (let timeMs = beginMs; timeMs < beginMs + days * dayMs; timeMs += 600_000) {
    const hour = new Date(timeMs).getUTCHours();
    const slower = hour >= 13 && hour <= 16 ? 0.6 : 0;
    const sizeBytes = sizes[id % sizes.length] as number;
    const kind = dice.roll() < 0.5 ? 'read' : 'write';
    const together = 0.5 * dice.normal();
    id++;
    for (const of of [1, 2] as const) {
      const retries = dice.roll() < 0.02 ? 1 : 0;
      const durationMs = durationOf(dice, kind, sizeBytes, slower + together) * (1 + retries);
      const costPicodollars = kind === 'read' ? '400000' : '5000000';
      const rest = { sizeBytes, retries, durationMs, pair: { id, of }, costPicodollars };
      yield sampleOf({ timeMs: timeMs + of, kind, ...rest });
    }
    const durationMs = durationOf(dice, kind, 4096);
    yield sampleOf({ timeMs: timeMs + 500, series: 'latency', kind, sizeBytes: 4096, durationMs });
  }
  yield* loadSamples(dice);
}

function* loadSamples(dice: Dice): Generator<Sample> {
  const sizeBytes = 1024 ** 2;
  for (const threads of [1, 2, 3, 4, 5, 6]) {
    for (let i = 0; i < 60; i++) {
      const kind = i % 2 === 0 ? 'read' : 'write';
      // Readers do not hinder each other; writers share what they have.
      const durationMs = durationOf(dice, kind, sizeBytes) * (kind === 'read' ? 1 : threads);
      yield sampleOf({ series: 'surge', kind, sizeBytes, threads, durationMs });
    }
  }
  for (const parallelParts of [1, 2, 4, 8]) {
    for (let i = 0; i < 10; i++) {
      const durationMs = 2600 / Math.min(parallelParts, 4) + 10 * parallelParts + dice.roll();
      const rest = { sizeBytes: 100 * sizeBytes, parallelParts, durationMs };
      yield sampleOf({ series: 'parts', kind: 'write', ...rest });
    }
  }
}

/** Of clients: small writes wait for the log, all else for the clients. */
export function* trafficSamples({ count = 3000, seed = 2 } = {}): Generator<Sample> {
  const dice = new Dice(seed);
  for (let i = 0; i < count; i++) {
    const kind = dice.roll() < 0.5 ? 'read' : 'write';
    const sizeBytes = Math.ceil(Math.exp(dice.roll() * 18.5));
    const durationMs = durationOf(dice, kind, sizeBytes);
    const commit = kind === 'write' ? 9 : 0.1;
    const stages = { parse: 0.05, authenticate: 0.1, store: 1.5, commit };
    const stream = Math.max(0.1, durationMs - 0.15 - 1.5 - commit);
    yield sampleOf({
      ...{
        timeMs: beginMs + i * 20_000,
        series: 'traffic',
        kind,
        sizeBytes,
        durationMs,
        weight: 2,
      },
      ...{ target: 'gateway, store local', stages: { ...stages, stream } },
      error: dice.roll() < 0.004 ? 'InternalError' : null,
    });
  }
}

/** What nobody should have written into a folder of samples. */
export function* hostileSamples(): Generator<Sample> {
  const name = '<script>alert(1)</script>"\'&\u202e]]><img src=x onerror=alert(1)>';
  for (const target of [name, '']) {
    for (const kind of ['read', 'write'] as const) {
      for (const series of ['sizes', 'latency', 'surge', 'parts', 'traffic'] as const) {
        for (const durationMs of [0, 0.001, 1, 1e12]) {
          for (const sizeBytes of [0, 1, 4096, Number.MAX_SAFE_INTEGER]) {
            const rest = { threads: 1e6, parallelParts: 1e6, pair: { id: 0, of: 1 as const } };
            const when = {
              timeMs: durationMs === 1 ? 8.64e15 : 0,
              error: sizeBytes === 1 ? name : null,
            };
            const costPicodollars = '9'.repeat(19);
            const one = {
              target,
              kind,
              series,
              durationMs,
              sizeBytes,
              costPicodollars,
              retries: 5,
            };
            yield sampleOf({ ...one, ...rest, ...when, stages: { commit: 1e12 }, weight: 1e12 });
          }
        }
      }
    }
  }
}
