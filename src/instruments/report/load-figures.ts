// Figures of what a target bears and what it costs: threads, parallel parts, retries, money,
// stages. Specification: Garfinkel 2007, section 5 ("surge", retries); Yoon 2014, figure 10
// (parallel parts).
import { sizeBands } from '../size-band.ts';
import { type Chapter, type Kind, kinds, retriesMax, type Surge, shareDone } from './chapter.ts';
import { type Axis, type Cell, type Figure, type Series, words } from './figure.ts';
import { showBandwidth, showCount, showPrefixed, showShare, showUsd } from './numbers.ts';
import { showSize } from './sizes.ts';
import { probeOnly } from './transfer-figures.ts';

const countColumn = { key: 'samples', title: 'n', show: showCount };
const bandwidthAxis: Axis = {
  title: 'bandwidth (B/s)',
  scale: 'linear',
  min: 0,
  show: showPrefixed,
};

export interface SurgeStep {
  threads: number;
  surge: Surge;
  /** Bytes per second of one thread, of which each always has a request under way. */
  each: number;
  all: number;
}

export interface SurgeLine {
  kind: Kind;
  band: number;
  steps: SurgeStep[];
}

/** By threads, ascending; of each kind the size that was measured most. */
export function surgeLines({ surges }: Chapter): SurgeLine[] {
  return kinds.flatMap((kind) => {
    const lines = surges[kind].map((byThreads, band) => {
      const steps = [...byThreads]
        .filter(([, { busyMs }]) => busyMs > 0)
        .sort(([a], [b]) => a - b)
        .map(([threads, surge]) => {
          const each = (surge.bytes / surge.busyMs) * 1000;
          return { threads, surge, each, all: each * threads };
        });
      return { kind, band, steps };
    });
    const most = lines.sort((a, b) => countSteps(b) - countSteps(a))[0];
    return most && most.steps.length > 0 ? [most] : [];
  });
}

function countThreads({ threads }: SurgeStep): string {
  return threads === 1 ? 'one' : String(threads);
}

export function countSteps({ steps }: SurgeLine): number {
  return steps.reduce((sum, { surge }) => sum + surge.count, 0);
}

export function threadsFigure(chapter: Chapter): Figure {
  const lines = surgeLines(chapter);
  const gains = lines.flatMap(({ kind, steps }) => {
    const [first, last] = [steps[0], steps.at(-1)];
    if (!first || !last || first === last || first.all === 0) return [];
    const times = (last.all / first.all).toFixed(1);
    return [`${last.threads} threads ${kind} ${times} times as much as ${countThreads(first)}`];
  });
  const threads = [...new Set(lines.flatMap(({ steps }) => steps.map((step) => step.threads)))];
  return {
    id: 'threads',
    title: 'Bandwidth by threads',
    says:
      'Solid: of all threads together; dashed: of each. ' +
      (gains.length > 0 ? `${gains.join('; ')}.` : 'One number of threads alone says no more.'),
    n: lines.reduce((sum, line) => sum + countSteps(line), 0),
    of: 'requests',
    howTo:
      chapter.source === 'probe' ? 'Measure it with `bursar probe --series surge`.' : probeOnly,
    x: wholeAxis('threads', threads),
    y: bandwidthAxis,
    series: lines.flatMap(({ kind, band, steps }): Series[] => {
      const style = kinds.indexOf(kind);
      const name = `${kind}s of ${chapter.nameSize(kind, band, 'surge')}`;
      const marksOf = (of: 'all' | 'each') =>
        steps.map((step) => ({ x: step.threads, y: step[of] }));
      return [
        { name: `${name}, all`, style, dashes: 0, look: 'whiskers', marks: marksOf('all') },
        { name: `${name}, each`, style, dashes: 1, look: 'whiskers', marks: marksOf('each') },
      ];
    }),
    columns: [
      words('kind', 'kind'),
      words('size', 'size'),
      { key: 'threads', title: 'threads', show: showCount },
      countColumn,
      { key: 'failures', title: 'failed', show: showCount },
      { key: 'all_bytes_per_second', title: 'all threads', show: showBandwidth },
      { key: 'each_bytes_per_second', title: 'each thread', show: showBandwidth },
    ],
    rows: lines.flatMap(({ kind, band, steps }) =>
      steps.map(({ threads, surge, each, all }): Cell[] => {
        const size = chapter.nameSize(kind, band, 'surge');
        return [`${kind}s`, size, threads, surge.count, surge.failures, all, each];
      }),
    ),
  };
}

/** An axis of whole numbers that has a tick at each of a few of them. */
function wholeAxis(title: string, numbers: readonly number[]): Axis {
  const sorted = [...numbers].sort((a, b) => a - b);
  const every = Math.ceil(sorted.length / 8);
  const ticks = sorted
    .filter((_, index) => index % every === 0)
    .map((at) => ({ at, text: String(at) }));
  return { title, scale: 'linear', show: String, ticks };
}

export function partsFigure({ parts, partSizes, source }: Chapter): Figure {
  const groups = [...parts].sort(([a], [b]) => a - b);
  const best = groups.toSorted(([, a], [, b]) => b.mean - a.mean)[0];
  return {
    id: 'parts',
    title: 'Upload bandwidth by parallel parts',
    says:
      'Mean of whole multipart uploads, with whiskers from the 5th to the 95th percentile. ' +
      `${best?.[0]} at a time were fastest: ${showBandwidth(best?.[1].mean ?? 0)} ` +
      `for ${showSize(partSizes.count > 0 ? partSizes.quantile(0.5) : 0)}.`,
    n: groups.reduce((sum, [, values]) => sum + values.count, 0),
    of: 'uploads',
    howTo: source === 'probe' ? 'Measure it with `bursar probe --series parts`.' : probeOnly,
    x: wholeAxis(
      'parts sent at a time',
      groups.map(([at]) => at),
    ),
    y: bandwidthAxis,
    series: [
      {
        name: 'uploads',
        style: 1,
        look: 'whiskers',
        marks: groups.map(([x, values]) => {
          const [low, high] = [values.quantile(0.05), values.quantile(0.95)];
          return { x, y: values.mean, low, high };
        }),
      },
    ],
    columns: [
      { key: 'parallel_parts', title: 'parts at a time', show: showCount },
      countColumn,
      { key: 'mean_bytes_per_second', title: 'mean', show: showBandwidth },
      { key: 'p5_bytes_per_second', title: '5th percentile', show: showBandwidth },
      { key: 'p95_bytes_per_second', title: '95th percentile', show: showBandwidth },
    ],
    rows: groups.map(([at, values]) => {
      return [at, values.count, values.mean, values.quantile(0.05), values.quantile(0.95)];
    }),
  };
}

export function availabilityFigure({ tries, source }: Chapter): Figure {
  const found = kinds.filter((kind) => tries[kind].total > 0);
  // A client's retries are requests of their own, which nobody can tell from others.
  const stepsMax = source === 'traffic' ? 0 : retriesMax;
  const steps = Array.from({ length: stepsMax + 1 }, (_, retries) => retries);
  const stepsOf = (kind: Kind) =>
    steps.map((retries) => {
      const { total, done } = tries[kind];
      const count = Math.round(done[retries] ?? 0);
      return { retries, count, total: Math.round(total), ...shareDone(tries[kind], retries) };
    });
  const parts = found.map((kind) => {
    const [first, last] = [stepsOf(kind)[0]?.share ?? 0, stepsOf(kind).at(-1)?.share ?? 0];
    const atFirst = `${showShare(first)} of the ${kind}s at the first try`;
    return stepsMax === 0 ? atFirst : `${atFirst}, ${showShare(last)} after ${stepsMax} retries`;
  });
  return {
    id: 'availability',
    title: 'Availability after retries',
    says: `Done: ${parts.join('; ')}. Whiskers: what the number of samples leaves open (95%).`,
    n: found.reduce((sum, kind) => sum + tries[kind].samples, 0),
    of: 'requests',
    howTo: source === 'probe' ? 'Measure it with `bursar probe`.' : 'There were no requests.',
    x: { ...wholeAxis('retries', steps), min: -0.3, max: stepsMax + 0.3 },
    y: { title: 'requests done', scale: 'linear', max: 1, show: showShare },
    series: found.map((kind) => ({
      name: `${kind}s`,
      style: kinds.indexOf(kind),
      look: 'whiskers',
      marks: stepsOf(kind).map(({ retries: x, share: y, low, high }) => ({ x, y, low, high })),
    })),
    columns: [
      words('kind', 'kind'),
      { key: 'retries', title: 'retries', show: showCount },
      { key: 'done', title: 'done', show: showCount },
      { key: 'tried', title: 'of', show: showCount },
      { key: 'availability_share', title: 'availability', show: showShare },
      { key: 'availability_low_share', title: '95% from', show: showShare },
      { key: 'availability_high_share', title: 'to', show: showShare },
    ],
    rows: found.flatMap((kind) =>
      stepsOf(kind).map((step): Cell[] => {
        const { retries, count, total, share, low, high } = step;
        return [`${kind}s`, retries, count, total, share, low, high];
      }),
    ),
  };
}

export function costFigure(chapter: Chapter): Figure {
  const { costs, source } = chapter;
  const found = kinds.flatMap((kind) =>
    costs[kind].flatMap(({ count, operations, bytes, picodollars }, band) => {
      if (count === 0) return [];
      const [each, gigabytes] = [picodollars / operations, bytes / 1e9];
      const perGigabyte = gigabytes > 0 ? picodollars / gigabytes : null;
      return [{ kind, band, count, each, perGigabyte }];
    }),
  );
  const dear = found.toSorted((a, b) => b.each - a.each)[0];
  return {
    id: 'cost',
    title: 'Cost of operations',
    says:
      `By the price book, without storage. Dearest: ${dear?.kind}s of ` +
      `${dear ? chapter.nameSize(dear.kind, dear.band, 'cost') : ''}, ` +
      `${showUsd((dear?.each ?? 0) * 1e6)} per million.`,
    n: found.reduce((sum, { count }) => sum + count, 0),
    of: 'operations with a price',
    howTo:
      source === 'probe'
        ? 'Name a price book to the probe: `bursar probe --prices BOOK`.'
        : 'Of what clients do, `bursar cost` says what it costs.',
    x: {
      title: 'size',
      scale: 'linear',
      show: String,
      min: -0.4,
      max: sizeBands.length - 0.6,
      ticks: sizeBands.map((_, at) => ({ at, text: chapter.tickOf(at) })),
    },
    y: { title: 'US dollars per million operations', scale: 'log', show: showPrefixed },
    series: kinds.map((kind, style) => ({
      name: `${kind}s`,
      style,
      look: 'dots',
      marks: found
        .filter((one) => one.kind === kind)
        // What is free has no place on a logarithmic scale; the table has it.
        .filter(({ each }) => each > 0)
        .map(({ band, each }) => ({ x: band, y: each / 1e6 })),
    })),
    columns: [
      words('kind', 'kind'),
      words('size', 'size'),
      countColumn,
      { key: 'mean_picodollars', title: 'each', show: showUsd },
      { key: 'mean_usd_per_million', title: 'a million', show: (usd) => showUsd(usd * 1e12) },
      { key: 'usd_per_gigabyte', title: 'a GB moved', show: (usd) => showUsd(usd * 1e12) },
    ],
    rows: found.map(({ kind, band, count, each, perGigabyte }) => {
      const perGigabyteUsd = perGigabyte === null ? null : perGigabyte / 1e12;
      return [
        `${kind}s`,
        chapter.nameSize(kind, band, 'cost'),
        count,
        each,
        each / 1e6,
        perGigabyteUsd,
      ];
    }),
  };
}
