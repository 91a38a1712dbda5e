// The figure of where the milliseconds of requests go, which the gateway alone knows.
import { type Stage, stages } from '../stage-clock.ts';
import { type Chapter, kinds } from './chapter.ts';
import { type Cell, type Figure, type Series, words } from './figure.ts';
import { showCount, showDuration, showShare } from './numbers.ts';

/** Stages that one would change the same thing for are one part of a bar. */
const parts: readonly { name: string; of: readonly Stage[] }[] = [
  { name: 'who, may, and how much', of: ['parse', 'authenticate', 'decide', 'reserve'] },
  { name: 'store', of: ['store'] },
  { name: 'client', of: ['firstByte', 'stream'] },
  { name: 'commit', of: ['commit'] },
];

const shortBands = ['< 32 B', '< 32 KiB', '< 4 MiB', '< 40 MiB', '≥ 40 MiB'];

export function stagesFigure(chapter: Chapter): Figure {
  const { source } = chapter;
  const bars = measuredBars(chapter);
  const most = bars.flatMap(({ shares }) => shares).reduce((a, b) => a + b, 0);
  const means = parts.map((_, part) =>
    bars.reduce((sum, { shares }) => sum + (shares[part] ?? 0), 0),
  );
  const first = means.indexOf(Math.max(...means));
  return {
    id: 'stages',
    title: 'Where the time goes',
    says:
      'Mean share of the stages in the time of requests. Over all kinds and sizes alike, the ' +
      `largest part is ${parts[first]?.name}: ${showShare((means[first] ?? 0) / most)}.`,
    n: bars.reduce((sum, { count }) => sum + count, 0),
    of: 'requests',
    howTo:
      source === 'traffic'
        ? 'The samples carry no stages.'
        : 'Only samples of clients’ requests carry the stages.',
    x: {
      title: 'share of the time of requests',
      scale: 'linear',
      min: 0,
      max: 1,
      show: (share) => `${Math.round(share * 100)}%`,
    },
    y: {
      title: '',
      scale: 'linear',
      min: -0.6,
      max: shortBands.length - 0.4,
      show: String,
      ticks: shortBands.map((text, at) => ({ at, text })),
    },
    series: kinds.flatMap((kind) => seriesOf(bars.filter((bar) => bar.kind === kind))),
    columns: [
      words('kind', 'kind'),
      words('size', 'size'),
      words('stage', 'stage'),
      { key: 'samples', title: 'n', show: showCount },
      { key: 'mean_ms', title: 'mean', show: showDuration },
      { key: 'p95_ms', title: '95th percentile', show: showDuration },
    ],
    rows: bars.flatMap(({ kind, band, stagesMs }) =>
      stages.flatMap((stage): Cell[][] => {
        const times = stagesMs.get(stage);
        const size = chapter.nameSize(kind, band);
        return times
          ? [[`${kind}s`, size, stage, times.count, times.mean, times.quantile(0.95)]]
          : [];
      }),
    ),
  };
}

function measuredBars({ transfers }: Chapter) {
  return kinds.flatMap((kind) =>
    transfers[kind].flatMap(({ stagesMs }, band) => {
      const means = parts.map(({ of }) =>
        of.reduce((sum, stage) => sum + (stagesMs.get(stage)?.mean ?? 0), 0),
      );
      const total = means.reduce((sum, mean) => sum + mean, 0);
      if (total === 0) return [];
      const count = stagesMs.get('parse')?.count ?? 0;
      return [{ kind, band, stagesMs, count, shares: means.map((mean) => mean / total) }];
    }),
  );
}

function seriesOf(bars: ReturnType<typeof measuredBars>): Series[] {
  return parts.map(({ name }, part) => ({
    name,
    style: part,
    look: 'bars',
    panel: `${bars[0]?.kind}s, by size`,
    marks: bars.map(({ band, shares }) => {
      const from = shares.slice(0, part).reduce((sum, share) => sum + share, 0);
      return { from, x: from + (shares[part] ?? 0), y: band };
    }),
  }));
}
