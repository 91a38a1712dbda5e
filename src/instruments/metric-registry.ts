// What can be measured, by name, and its text for Prometheus. Invariants: a value is asked for when
// somebody reads, never before; of what names tenants or accounts everybody reads nothing; what
// cannot be told is missing, and counted, and takes nothing else from the text with it.
// Specification: the Prometheus text format 0.0.4, which prom-client's registry writes.

import { setImmediate as turn } from 'node:timers/promises';
import { type Gauge, Registry } from 'prom-client';
import { monotonicMs } from '../core/clock.ts';
import { getOrMake } from '../core/maps.ts';
import { Histogram } from './histogram.ts';
import { Paced } from './paced.ts';

/** The reader: anybody, or somebody with the operator's leave, to whom tenants may be named. */
export type Audience = 'everybody' | 'operator';

/** The labels of one series. Give the same object each time, since its text is made once. */
export type Labels = Readonly<Record<string, string>>;

/** The values of one metric: one without labels, or each with its own. */
export type Values<T> = T | Iterable<readonly [Labels, T]>;

export interface Measure<T> {
  /** `bursar_`, what it is, and its base unit; a counter's ends with `_total`. */
  name: string;
  help: string;
  /** Names tenants, principals or accounts: only the operator reads it. */
  isPrivate?: true;
  /** Of what several threads measure, the largest counts; else they are added up. */
  isLargest?: true;
  /** Must not wait for a network. */
  collect(audience: Audience): Values<T> | Promise<Values<T>>;
}

type Kind = 'counter' | 'gauge' | 'histogram';

/** The values of a metric, as another thread has them. Plain data. */
export interface MeasuredMetric {
  name: string;
  values: [Labels, number | Pick<Histogram, 'bounds' | 'counts' | 'sum'>][];
}

/** Asks other threads for what they have measured, each for all of its metrics. */
export type MeasureOthers = () => Promise<MeasuredMetric[][]>;

/** A line of the text, as prom-client writes them. */
interface Line {
  metricName?: string;
  labels: Labels;
  sharedLabels?: Labels;
  value: number;
}

const nameForm = /^bursar_[a-z0-9_]+$/;
const noLabels: Labels = {};
/** After so many lines others have their turn, if these took long enough. */
const sliceLines = 500;
const sliceMs = 2;

/** A metric as prom-client's registry asks for it, which is told slice by slice. */
class SlicedMetric {
  readonly name: string;
  readonly help: string;
  readonly type: Kind;
  readonly #collect: () => Promise<Line[]>;
  /** The lines of the slice that is being written. */
  values: Line[] = [];

  constructor(
    { name, help, type }: { name: string; help: string; type: Kind },
    collect: () => Promise<Line[]>,
  ) {
    this.name = name;
    this.help = help;
    this.type = type;
    this.#collect = collect;
  }

  async get(): Promise<SlicedMetric> {
    return this;
  }

  /** Its text, without the ends of the last lines. For one reader at a time. */
  async *write(registry: Registry): AsyncIterable<string> {
    const lines = await this.#collect();
    this.values = [];
    const head = await registry.getSingleMetricAsString(this.name);
    yield head;
    for (let begin = 0; begin < lines.length; begin += sliceLines) {
      this.values = lines.slice(begin, begin + sliceLines);
      const text = await registry.getSingleMetricAsString(this.name);
      yield text.slice(head.length + 1);
    }
  }
}

export class MetricRegistry {
  readonly #registries: Record<Audience, Registry> = {
    everybody: new Registry(),
    operator: new Registry(),
  };
  readonly #texts: Record<Audience, Paced<Buffer>> = {
    everybody: new Paced(() => this.#write('everybody')),
    operator: new Paced(() => this.#write('operator')),
  };
  readonly #measures = new Map<string, Measure<number> | Measure<Histogram>>();
  #measureOthers: MeasureOthers | null = null;
  /** What others had measured when a text was last begun. */
  #others: MeasuredMetric[][] = [];
  #failures = 0;

  constructor() {
    this.counter({
      name: 'bursar_metric_failures_total',
      help: 'Metrics that were missing in a text because they could not be told.',
      collect: () => this.#failures,
    });
  }

  /** Both registries, for prom-client's own metrics, which name nobody. */
  get registers(): Registry[] {
    return Object.values(this.#registries);
  }

  counter(measure: Measure<number>): void {
    if (!measure.name.endsWith('_total')) throw new Error(`${measure.name} is no counter's name`);
    this.#add('counter', measure, linesOfNumbers);
  }

  gauge(measure: Measure<number>): void {
    this.#add('gauge', measure, linesOfNumbers);
  }

  histogram(measure: Measure<Histogram>): void {
    this.#add('histogram', measure, linesOfHistograms);
  }

  /** From now on what other threads measure under the same names is added to each text. */
  addOthers(measureOthers: MeasureOthers): void {
    this.#measureOthers = measureOthers;
  }

  /** What is measured here, for another thread's text: all that an operator reads. */
  async measure(): Promise<MeasuredMetric[]> {
    const metrics: MeasuredMetric[] = [];
    for (const [name, { collect }] of this.#measures) {
      const values = await collect('operator');
      metrics.push({ name, values: pairsOf<number | Histogram>(values) });
    }
    return metrics;
  }

  /** UTF-8; as it is when asked for. */
  read(audience: Audience): Promise<Buffer> {
    return this.#texts[audience].read();
  }

  #add<T extends number | Histogram>(
    type: Kind,
    measure: Measure<T>,
    linesOf: (name: string, values: Values<T>) => Line[],
  ): void {
    const { name, help, isPrivate, isLargest = false, collect } = measure;
    if (!nameForm.test(name)) throw new Error(`${name} is no metric's name`);
    this.#measures.set(name, measure as Measure<number>);
    for (const audience of ['everybody', 'operator'] as const) {
      if (isPrivate && audience === 'everybody') continue;
      const lines = async () => {
        const values = await collect(audience);
        const others = this.#others.flatMap((all) => all.filter((one) => one.name === name));
        return linesOf(
          name,
          others.length === 0 ? values : joined(values, { others, audience, isLargest }),
        );
      };
      const metric = new SlicedMetric({ name, help, type }, lines);
      // It has all that the registry asks of a metric.
      this.#registries[audience].registerMetric(metric as unknown as Gauge);
    }
  }

  async #write(audience: Audience): Promise<Buffer> {
    if (this.#measureOthers) this.#others = await this.#measureOthers();
    const registry = this.#registries[audience];
    const texts: string[] = [];
    let sinceMs = monotonicMs();
    for (const metric of registry.getMetricsAsArray()) {
      try {
        for await (const text of slicesOf(metric, registry)) {
          texts.push(text, '\n');
          if (monotonicMs() - sinceMs < sliceMs) continue;
          await turn();
          sinceMs = monotonicMs();
        }
      } catch {
        this.#failures++;
      }
    }
    return Buffer.from(texts.join(''));
  }
}

function slicesOf(
  metric: { name: string },
  registry: Registry,
): AsyncIterable<string> | Iterable<Promise<string>> {
  if (metric instanceof SlicedMetric) return metric.write(registry);
  return [registry.getSingleMetricAsString(metric.name)];
}

function pairsOf<T extends number | Histogram>(values: Values<T>): [Labels, T][] {
  if (typeof values === 'number' || values instanceof Histogram) return [[noLabels, values as T]];
  return Array.from(values as Iterable<readonly [Labels, T]>, ([labels, value]) => [labels, value]);
}

/** Each series with what others have measured of it; tenants' names are the operator's to read. */
function joined<T extends number | Histogram>(
  values: Values<T>,
  how: { others: readonly MeasuredMetric[]; audience: Audience; isLargest: boolean },
): [Labels, T][] {
  const { others, audience, isLargest } = how;
  const join = isLargest ? larger : added;
  const sums = new Map<string, [Labels, T]>();
  const add = (labels: Labels, value: T | MeasuredMetric['values'][number][1]): void => {
    const { tenant: _, ...shown } = labels;
    const own = audience === 'operator' ? labels : shown;
    const key = JSON.stringify(own);
    const sum = sums.get(key);
    sums.set(key, [sum?.[0] ?? own, join(sum?.[1], value) as T]);
  };
  for (const [labels, value] of pairsOf(values)) add(labels, value);
  for (const { values: more } of others) for (const [labels, value] of more) add(labels, value);
  return [...sums.values()];
}

/** Of numbers. */
function larger(one: number | Histogram | undefined, other: unknown): number {
  return Math.max((one ?? 0) as number, other as number);
}

function added(
  sum: number | Histogram | undefined,
  value: number | Pick<Histogram, 'bounds' | 'counts' | 'sum'>,
): number | Histogram {
  if (typeof value === 'number') return ((sum as number | undefined) ?? 0) + value;
  const all = new Histogram(value.bounds);
  for (const one of [sum as Histogram | undefined, value]) {
    one?.counts.forEach((count, i) => {
      all.counts[i] = (all.counts[i] as number) + count;
    });
    all.sum += one?.sum ?? 0;
  }
  return all;
}

function linesOfNumbers(_name: string, values: Values<number>): Line[] {
  if (typeof values === 'number') return [{ labels: noLabels, value: values }];
  return Array.from(values, ([sharedLabels, value]) => ({ labels: noLabels, sharedLabels, value }));
}

function linesOfHistograms(name: string, values: Values<Histogram>): Line[] {
  const lines: Line[] = [];
  if (values instanceof Histogram) addHistogram(lines, name, noLabels, values);
  else for (const [labels, histogram] of values) addHistogram(lines, name, labels, histogram);
  return lines;
}

function addHistogram(
  lines: Line[],
  name: string,
  sharedLabels: Labels,
  { bounds, counts, sum }: Histogram,
): void {
  const metricName = `${name}_bucket`;
  let count = 0;
  for (const [index, labels] of leOf(bounds).entries()) {
    count += counts[index] as number;
    lines.push({ metricName, labels, sharedLabels, value: count });
  }
  lines.push({ metricName: `${name}_sum`, labels: noLabels, sharedLabels, value: sum });
  lines.push({ metricName: `${name}_count`, labels: noLabels, sharedLabels, value: count });
}

const leByBounds = new WeakMap<readonly number[], readonly Labels[]>();

/** The labels that tell the lines of a histogram apart. */
function leOf(bounds: readonly number[]): readonly Labels[] {
  return getOrMake(leByBounds, bounds, () => [...bounds.map(String), '+Inf'].map((le) => ({ le })));
}
