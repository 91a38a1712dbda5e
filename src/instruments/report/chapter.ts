// What the samples of one target add up to. Invariant: whatever samples say, and however many there
// are, a chapter's memory is bounded; what is over a bound is drawn by chance (values.ts), or, of
// days, threads and parts, left out.
import type { Sample } from '../sample.ts';
import { bandOf, sizeBands } from '../size-band.ts';
import { type Stage, stages } from '../stage-clock.ts';
import { MeasuredSizes, nameBand } from './sizes.ts';
import { Correlation, shareInterval } from './statistics.ts';
import { Chance, Values } from './values.ts';

export type Kind = Sample['kind'];
export const kinds: readonly Kind[] = ['read', 'write'];
/** Whether it was measured on purpose, or by clients' requests. */
export type Source = 'probe' | 'traffic';

export const retriesMax = 5;
const valuesMax = 50_000;
const valuesOfHourMax = 5_000;
const valuesOfDayMax = 500;
const daysMax = 400;
const groupsMax = 64;
const pointsMax = 300;
const openPairsMax = 1_000;

export interface Point {
  x: number;
  y: number;
}

/** Bandwidths of first and second requests, bytes per second. */
export class Pairs {
  readonly correlation = new Correlation();
  /** Some of them, to be drawn. */
  readonly points: Point[] = [];
  readonly #chance = new Chance();
  readonly #open = new Map<number, { of: 1 | 2; bandwidth: number }>();

  add({ id, of }: { id: number; of: 1 | 2 }, bandwidth: number): void {
    const other = this.#open.get(id);
    if (!other || other.of === of) {
      this.#open.set(id, { of, bandwidth });
      const oldest = this.#open.keys().next();
      if (this.#open.size > openPairsMax && !oldest.done) this.#open.delete(oldest.value);
      return;
    }
    this.#open.delete(id);
    const [x, y] = of === 2 ? [other.bandwidth, bandwidth] : [bandwidth, other.bandwidth];
    this.correlation.add(x, y);
    const { count } = this.correlation;
    const place = count <= pointsMax ? count - 1 : this.#chance.pick(count);
    if (place < pointsMax) this.points[place] = { x, y };
  }
}

/** Reads or writes of about one size that succeeded. */
export class Transfers {
  /** Bytes per second. */
  readonly bandwidth = new Values(valuesMax);
  readonly durationMs = new Values(valuesMax);
  /** Bandwidth by days since the epoch, and by hour, in UTC. */
  readonly byDay = new Map<number, Values>();
  readonly byHour = new Map<number, Values>();
  readonly pairs = new Pairs();
  readonly stagesMs = new Map<Stage, Values>();

  add(sample: Sample, bandwidth: number): void {
    const { timeMs, durationMs, pair, weight } = sample;
    this.bandwidth.add(bandwidth, weight);
    this.durationMs.add(durationMs, weight);
    const hours = Math.floor(timeMs / 3_600_000);
    const day = Math.floor(hours / 24);
    // The oldest goes: what it was like lately is asked for more.
    if (!this.byDay.has(day) && this.byDay.size >= daysMax) {
      this.byDay.delete(this.byDay.keys().next().value as number);
    }
    openGroup(this.byDay, day, daysMax, valuesOfDayMax)?.add(bandwidth, weight);
    openGroup(this.byHour, hours % 24, 24, valuesOfHourMax)?.add(bandwidth, weight);
    if (pair) this.pairs.add(pair, bandwidth);
    if (!sample.stages) return;
    for (const stage of stages) {
      const times = openGroup(this.stagesMs, stage, stages.length, valuesOfHourMax);
      times?.add(sample.stages[stage] ?? 0, weight);
    }
  }
}

/** Requests that so many threads made at a time, those that failed included. */
export interface Surge {
  count: number;
  failures: number;
  bytes: number;
  /** The time of all threads together, milliseconds. */
  busyMs: number;
}

/** Requests that had succeeded after 0, 1, … 5 retries, of all that samples were drawn from. */
export interface Tries {
  samples: number;
  total: number;
  /** Sum of the squares of the samples' weights. */
  squares: number;
  done: number[];
}

/** What share was done after so many retries, and what the number of samples leaves open (95%). */
export function shareDone({ total, squares, done }: Tries, retries: number) {
  const share = (done[retries] ?? 0) / total;
  // Samples that stand for many say no more than one each (Kish's effective size).
  const size = total ** 2 / squares;
  return { share, ...shareInterval(share * size, size) };
}

export interface Costs {
  /** Samples. */
  count: number;
  /** Operations that they were drawn from, and what those moved and cost together. */
  operations: number;
  bytes: number;
  picodollars: number;
}

export class Chapter {
  readonly target: string;
  readonly source: Source;
  count = 0;
  /** Of these, by what was measured, in the order in which they came; and those that failed. */
  readonly countOf = new Map<Sample['series'], number>();
  failed = 0;
  readonly #sizes = new MeasuredSizes();
  /** Requests that the samples were drawn from. */
  represented = 0;
  firstMs = Number.POSITIVE_INFINITY;
  lastMs = 0;
  /** By index of the band of sizes. */
  readonly transfers = byKind(() => sizeBands.map(() => new Transfers()));
  readonly surges = byKind(() => sizeBands.map(() => new Map<number, Surge>()));
  readonly costs = byKind(() => sizeBands.map(newCosts));
  /** The latency of transfers of 4,096 bytes, milliseconds. */
  readonly latencyMs = byKind(() => new Values(valuesMax));
  readonly tries = byKind((): Tries => {
    return { samples: 0, total: 0, squares: 0, done: Array(retriesMax + 1).fill(0) };
  });
  /** Bandwidth of uploads by how many parts were sent at a time. */
  readonly parts = new Map<number, Values>();
  readonly partSizes = new Values(1_000);

  constructor(target: string, source: Source) {
    this.target = target;
    this.source = source;
  }

  add(sample: Sample): void {
    this.count++;
    this.countOf.set(sample.series, (this.countOf.get(sample.series) ?? 0) + 1);
    if (sample.error !== null) this.failed++;
    this.represented += sample.weight ?? 1;
    this.firstMs = Math.min(this.firstMs, sample.timeMs);
    this.lastMs = Math.max(this.lastMs, sample.timeMs);
    this.#addTries(sample);
    this.#addCost(sample);
    if (sample.durationMs === 0) return;
    if (sample.series === 'surge') this.#addSurge(sample);
    // What failed moved nothing, and bandwidth is of what was moved.
    if (sample.error !== null || sample.sizeBytes === 0) return;
    const bandwidth = (sample.sizeBytes / sample.durationMs) * 1000;
    if (sample.series === 'sizes' || sample.series === 'traffic') {
      this.#sizes.add('transfers', sample.kind, sample.sizeBytes);
      this.transfers[sample.kind][bandOf(sample.sizeBytes)]?.add(sample, bandwidth);
    } else if (sample.series === 'latency') {
      this.latencyMs[sample.kind].add(sample.durationMs);
    } else if (sample.series === 'parts' && sample.parallelParts && sample.kind === 'write') {
      openGroup(this.parts, sample.parallelParts, groupsMax, valuesMax)?.add(bandwidth);
      this.partSizes.add(sample.sizeBytes);
    }
  }

  /** How large the transfers of a band were: `256 KiB`; of clients' the band. */
  nameSize(kind: Kind, band: number, use: 'transfers' | 'surge' | 'cost' = 'transfers'): string {
    return this.source === 'probe' ? this.#sizes.nameOf(use, kind, band) : nameBand(band);
  }

  /** The same of both kinds; empty: there were none. */
  tickOf(band: number): string {
    return this.source === 'probe' ? this.#sizes.tickOf('cost', band) : nameBand(band);
  }

  #addTries({ kind, retries, error, weight = 1 }: Sample): void {
    const tries = this.tries[kind];
    tries.samples++;
    tries.total += weight;
    tries.squares += weight ** 2;
    if (error !== null) return;
    for (let after = retries; after <= retriesMax; after++) {
      tries.done[after] = (tries.done[after] ?? 0) + weight;
    }
  }

  /** Uploads in parts are several operations, so they are not the cost of one. */
  #addCost({ kind, series, sizeBytes, costPicodollars, weight = 1 }: Sample): void {
    const costs = this.costs[kind][bandOf(sizeBytes)];
    if (costPicodollars === undefined || series === 'parts' || !costs) return;
    this.#sizes.add('cost', kind, sizeBytes);
    costs.count++;
    costs.operations += weight;
    costs.bytes += sizeBytes * weight;
    costs.picodollars += Number(costPicodollars) * weight;
  }

  #addSurge({ kind, threads = 0, sizeBytes, durationMs, error }: Sample): void {
    const surges = this.surges[kind][bandOf(sizeBytes)];
    if (!surges || threads < 1 || (!surges.has(threads) && surges.size >= groupsMax)) return;
    const surge = surges.get(threads) ?? { count: 0, failures: 0, bytes: 0, busyMs: 0 };
    surges.set(threads, surge);
    this.#sizes.add('surge', kind, sizeBytes);
    surge.count++;
    surge.busyMs += durationMs;
    if (error === null) surge.bytes += sizeBytes;
    else surge.failures++;
  }
}

function newCosts(): Costs {
  return { count: 0, operations: 0, bytes: 0, picodollars: 0 };
}

function byKind<T>(make: () => T): Record<Kind, T> {
  return { read: make(), write: make() };
}

function openGroup<Key>(
  groups: Map<Key, Values>,
  key: Key,
  groupsMax: number,
  valuesMax: number,
): Values | undefined {
  let group = groups.get(key);
  if (!group && groups.size < groupsMax) {
    group = new Values(valuesMax);
    groups.set(key, group);
  }
  return group;
}
