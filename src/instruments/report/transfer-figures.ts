// Figures of single transfers: how fast by size, by day and by hour, and in pairs.
// Specification: Garfinkel 2007, section 5, and Palankar 2008, section IV.
import { type Chapter, type Kind, kinds, type Transfers } from './chapter.ts';
import {
  type Axis,
  type Cell,
  type Column,
  type Figure,
  type Mark,
  type Series,
  words,
} from './figure.ts';
import {
  showBandwidth,
  showCount,
  showDay,
  showDuration,
  showNumber,
  showPrefixed,
} from './numbers.ts';
import { countInBins } from './statistics.ts';
import type { Values } from './values.ts';

const pointsOfCurve = 160;
const dayMs = 86_400_000;

const probeSizes = 'Measure it with `bursar probe --series sizes`.';
export const probeOnly = 'Only probes measure this; clients’ requests cannot.';

const bandwidthAxis: Axis = { title: 'bandwidth (B/s)', scale: 'log', show: showPrefixed };
const shareAxis: Axis = {
  title: 'share of requests',
  scale: 'linear',
  min: 0,
  max: 1,
  show: (share) => `${Math.round(share * 100)}%`,
};
const countColumn: Column = { key: 'samples', title: 'n', show: showCount };

/** Columns of a distribution; `rowOf` fills them. */
function distribution(unit: string, show: (value: number) => string): Column[] {
  return [
    countColumn,
    { key: `mean_${unit}`, title: 'mean', show },
    { key: `p5_${unit}`, title: '5th percentile', show },
    { key: `p50_${unit}`, title: 'median', show },
    { key: `p95_${unit}`, title: '95th percentile', show },
  ];
}

function rowOf(values: Values): number[] {
  const { count, mean } = values;
  return [count, mean, values.quantile(0.05), values.quantile(0.5), values.quantile(0.95)];
}

const inBandwidth = distribution('bytes_per_second', showBandwidth);

interface SizedTransfers {
  band: number;
  name: string;
  values: Transfers;
}

/** Sizes of which there is something, smallest first. */
function measuredSizes(chapter: Chapter, kind: Kind): SizedTransfers[] {
  return chapter.transfers[kind]
    .map((values, band) => ({ band, name: chapter.nameSize(kind, band), values }))
    .filter(({ values }) => values.bandwidth.count > 0);
}

function countOf(sizes: readonly SizedTransfers[]): number {
  return sizes.reduce((sum, { values }) => sum + values.bandwidth.count, 0);
}

/** Steps from 0 to 1 through what was kept, ascending. */
function curveOf(values: Values): Mark[] {
  const { sorted } = values;
  const marks: Mark[] = [{ x: sorted[0] as number, y: 0 }];
  const steps = Math.min(sorted.length, pointsOfCurve);
  for (let step = 1; step <= steps; step++) {
    const index = Math.round((step / steps) * sorted.length) - 1;
    marks.push({ x: sorted[index] as number, y: values.shareUpTo(index) });
  }
  return marks;
}

function plural(kind: Kind): string {
  return `${kind}s`;
}

export function bandwidthFigure(chapter: Chapter, kind: Kind): Figure {
  const sizes = measuredSizes(chapter, kind);
  const last = sizes.at(-1);
  const { bandwidth } = last?.values ?? {};
  const half = bandwidth && `half got ${showBandwidth(bandwidth.quantile(0.5))} or more`;
  // With fewer than twenty, one in twenty is nobody.
  const isMany = bandwidth && bandwidth.count >= 20;
  const slow = isMany && `, and one in twenty less than ${showBandwidth(bandwidth.quantile(0.05))}`;
  return {
    id: `bandwidth-${kind}`,
    title: `Bandwidth of ${plural(kind)}, by size`,
    says:
      `Each curve says what share of ${plural(kind)} of its size got at most so much. ` +
      `Of ${last?.name}, ${half}${slow || ''}.`,
    n: countOf(sizes),
    of: plural(kind),
    howTo: chapter.source === 'probe' ? probeSizes : 'No client moved bytes this way.',
    x: bandwidthAxis,
    y: shareAxis,
    series: sizes.map(({ name, band, values }) => {
      return { name, style: band, look: 'steps', marks: curveOf(values.bandwidth) };
    }),
    columns: [words('size', 'size'), ...inBandwidth],
    rows: sizes.map(({ name, values }) => [name, ...rowOf(values.bandwidth)]),
  };
}

/** Means with whiskers from the 5th to the 95th percentile, by day or hour. */
function overTime(sizes: readonly SizedTransfers[], of: 'byDay' | 'byHour'): Series[] {
  return sizes.map(({ name, band, values }) => ({
    name,
    style: band,
    dashes: 0,
    look: 'whiskers',
    panel: name,
    marks: inOrder(values[of]).map(([x, group]) => {
      const [, y = 0, low = 0, , high = 0] = rowOf(group);
      return { x, y, low, high };
    }),
  }));
}

function inOrder(groups: ReadonlyMap<number, Values>): [number, Values][] {
  return [...groups].sort(([a], [b]) => a - b);
}

function rowsOverTime(
  sizes: readonly SizedTransfers[],
  of: 'byDay' | 'byHour',
  name: (group: number) => Cell,
): Cell[][] {
  return sizes.flatMap((size) =>
    inOrder(size.values[of]).map(([at, group]) => [name(at), size.name, ...rowOf(group)]),
  );
}

export function dailyFigure(chapter: Chapter, kind: Kind): Figure {
  const sizes = measuredSizes(chapter, kind);
  const days = new Set(sizes.flatMap(({ values }) => [...values.byDay.keys()]));
  return {
    id: `daily-${kind}`,
    title: `Bandwidth of ${plural(kind)}, day by day`,
    says:
      `Mean of each day (UTC), with whiskers from the 5th to the 95th percentile; ` +
      `${days.size === 1 ? '1 day' : `${days.size} days`} with ${plural(kind)}.`,
    n: countOf(sizes),
    of: plural(kind),
    howTo: chapter.source === 'probe' ? probeSizes : 'No client moved bytes this way.',
    x: {
      title: 'day (UTC)',
      scale: 'linear',
      show: (day) => showDay(day * dayMs).slice(5),
      ticks: dayTicks(days),
    },
    y: { ...bandwidthAxis, scale: 'linear', min: 0 },
    series: overTime(sizes, 'byDay'),
    columns: [words('day', 'day (UTC)'), words('size', 'size'), ...inBandwidth],
    rows: rowsOverTime(sizes, 'byDay', (day) => showDay(day * dayMs)),
  };
}

/** Whole days, at most six of them. */
function dayTicks(days: ReadonlySet<number>): { at: number; text: string }[] {
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (const day of days) {
    first = Math.min(first, day);
    last = Math.max(last, day);
  }
  if (days.size === 0) return [];
  const step = Math.max(1, Math.ceil((last - first) / 5));
  const count = Math.floor((last - first) / step) + 1;
  return Array.from({ length: count }, (_, index) => {
    const at = first + index * step;
    // More than about half a year needs the year.
    return { at, text: showDay(at * dayMs).slice(last - first > 200 ? 2 : 5) };
  });
}

export function hourlyFigure(chapter: Chapter, kind: Kind): Figure {
  const sizes = measuredSizes(chapter, kind);
  return {
    id: `hourly-${kind}`,
    title: `Bandwidth of ${plural(kind)}, by hour of the day`,
    says:
      'Mean of each hour (UTC) over all days, with whiskers from the 5th to the 95th ' +
      'percentile.',
    n: countOf(sizes),
    of: plural(kind),
    howTo: chapter.source === 'probe' ? probeSizes : 'No client moved bytes this way.',
    x: {
      title: 'hour of the day (UTC)',
      scale: 'linear',
      min: -0.5,
      max: 23.5,
      show: String,
      ticks: [0, 3, 6, 9, 12, 15, 18, 21].map((at) => ({ at, text: String(at) })),
    },
    y: { ...bandwidthAxis, scale: 'linear', min: 0 },
    series: overTime(sizes, 'byHour'),
    columns: [
      { key: 'hour', title: 'hour (UTC)', show: String },
      words('size', 'size'),
      ...inBandwidth,
    ],
    rows: rowsOverTime(sizes, 'byHour', (hour) => hour),
  };
}

/** With fewer, a histogram shows chance. */
const enoughForHistogram = 50;

/** Transactions per second that one client gets with 1-byte objects, one after the other. */
export function rateFigure(chapter: Chapter): Figure {
  const found = kinds.flatMap((kind, style) => {
    const durations = chapter.transfers[kind][0]?.durationMs;
    if (!durations || durations.count < enoughForHistogram) return [];
    const rates = Float64Array.from(durations.sorted, (ms) => 1000 / ms).reverse();
    const median = 1000 / durations.quantile(0.5);
    return [{ kind, style, durations, bins: countInBins(rates), median }];
  });
  const isOneByte = found.every(({ kind }) => chapter.nameSize(kind, 0) === '1 B');
  const medians = found.map(({ kind, median }) => `${showNumber(median)} ${plural(kind)}`);
  return {
    id: 'one-byte-rate',
    title: `Transactions per second of ${isOneByte ? '1 byte' : 'less than 32 bytes'}`,
    says:
      `What is left of speed when there is nothing to move: 1 over the duration of each request. ` +
      `At the median, one client gets ${medians.join(' and ')} a second, one after the other.`,
    n: found.reduce((sum, { durations }) => sum + durations.count, 0),
    of: 'requests',
    howTo:
      `Its histogram takes ${enoughForHistogram} reads or writes of less than 32 bytes` +
      (chapter.source === 'probe' ? ': `bursar probe --sizes 1B --count 100`.' : ' by clients.'),
    x: { title: 'transactions per second (1/s)', scale: 'log', show: showPrefixed },
    y: { title: 'requests', scale: 'linear', min: 0, show: showPrefixed },
    series: found.map(({ kind, style, bins }) => {
      const marks = bins.map(({ from, count }) => ({ x: from, y: count }));
      const first = { x: bins[0]?.from ?? 0, y: 0 };
      const end = { x: bins.at(-1)?.to ?? 0, y: 0 };
      return { name: plural(kind), style, look: 'steps', marks: [first, ...marks, end] };
    }),
    columns: [
      words('kind', 'kind'),
      { key: 'from_per_second', title: 'from (1/s)', show: showNumber },
      { key: 'to_per_second', title: 'to (1/s)', show: showNumber },
      countColumn,
    ],
    rows: found.flatMap(({ kind, bins }) =>
      bins.map(({ from, to, count }) => [plural(kind), from, to, count]),
    ),
  };
}

export function pairsFigure(chapter: Chapter, kind: Kind): Figure {
  const sizes = measuredSizes(chapter, kind).filter(
    ({ values }) => values.pairs.correlation.count > 0,
  );
  const known = sizes.filter(({ values }) => values.pairs.correlation.r !== null);
  const rs = known.map(({ name, values: { pairs } }) => {
    const { r, count } = pairs.correlation;
    return `r = ${showR(r)} for ${name} (n = ${showCount(count)})`;
  });
  return {
    id: `pairs-${kind}`,
    title: `First and second ${kind} of pairs`,
    says:
      'Bandwidth of two successive requests for different objects; on the line both are equal. ' +
      (rs.length > 0 ? `Correlation: ${rs.join(', ')}.` : 'Too few for a correlation.'),
    n: sizes.reduce((sum, { values }) => sum + values.pairs.correlation.count, 0),
    of: 'pairs',
    howTo: chapter.source === 'probe' ? probeSizes : probeOnly,
    x: { ...bandwidthAxis, title: `first ${kind} (B/s)` },
    y: { ...bandwidthAxis, title: `second ${kind} (B/s)` },
    panelColumns: 2,
    series: sizes.flatMap(({ name, band, values: { pairs } }): Series[] => {
      const panel = `${name}, r = ${showR(pairs.correlation.r)}`;
      const all = pairs.points.flatMap(({ x, y }) => [x, y]);
      const ends = [Math.min(...all), Math.max(...all)].map((at) => ({ x: at, y: at }));
      return [
        { name: 'equally fast', style: 5, look: 'guide', marks: ends, panel },
        { name, style: band, look: 'dots', marks: pairs.points, panel },
      ];
    }),
    columns: [
      words('size', 'size'),
      { key: 'pairs', title: 'pairs', show: showCount },
      { key: 'r', title: 'r', show: showR },
      { key: 'r_low', title: '95% from', show: showR },
      { key: 'r_high', title: 'to', show: showR },
    ],
    rows: sizes.map(({ name, values: { pairs } }) => {
      const { count, r, interval } = pairs.correlation;
      return [name, count, r, interval?.low ?? null, interval?.high ?? null];
    }),
  };
}

function showR(r: number | null): string {
  return r === null ? '–' : r.toFixed(2);
}

export function latencyFigure({ latencyMs, source }: Chapter): Figure {
  const found = kinds.filter((kind) => latencyMs[kind].count > 0);
  const parts = found.map((kind) => {
    const times = latencyMs[kind];
    const half = `half of the ${plural(kind)} took ${showDuration(times.quantile(0.5))} or less`;
    return times.count < 100 ? half : `${half}, 99% ${showDuration(times.quantile(0.99))}`;
  });
  return {
    id: 'latency',
    title: 'Latency of 4,096 bytes',
    says: `From the request to the last byte of the answer: ${parts.join('; ')}.`,
    n: found.reduce((sum, kind) => sum + latencyMs[kind].count, 0),
    of: 'requests',
    howTo: source === 'probe' ? 'Measure it with `bursar probe --series latency`.' : probeOnly,
    x: { title: 'latency (ms)', scale: 'log', show: showPrefixed },
    y: shareAxis,
    series: found.map((kind) => ({
      name: plural(kind),
      style: kinds.indexOf(kind),
      look: 'steps',
      marks: curveOf(latencyMs[kind]),
    })),
    columns: [words('kind', 'kind'), ...distribution('ms', showDuration)],
    rows: found.map((kind) => [plural(kind), ...rowOf(latencyMs[kind])]),
  };
}
