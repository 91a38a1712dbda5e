// What the report says of samples whose limits are known, of few, of none and of hostile ones.
import { describe, expect, it } from 'vitest';
import { topics } from '#bursar/instruments/report/conclusions.js';
import { pageStyle } from '#bursar/instruments/report/document.js';
import { collectMeasures } from '#bursar/instruments/report/measures.js';
import { renderPage } from '#bursar/instruments/report/page.js';
import { linesOf } from '#bursar/instruments/report/plain-text.js';
import { jsonOf, makeReport, type Report } from '#bursar/instruments/report/report.js';
import type { Sample } from '#bursar/instruments/sample.js';
import { blocksOf, readPage, rowsOf as rowsIn, sectionOf } from '../../docs/markdown.ts';
import { hostileSamples, probeSamples, trafficSamples } from './report-samples.ts';

const madeMs = Date.UTC(2026, 10, 21);

async function reportOf(samples: Iterable<Sample>, target?: string): Promise<Report> {
  return makeReport(await collectMeasures(samples, { target }), madeMs);
}

/** Rows of a figure of the first chapter, as JSON has them. */
function rowsOf(report: Report, id: string): Record<string, unknown>[] {
  const { chapters } = jsonOf(report) as {
    chapters: { figures: { id: string; rows: Record<string, unknown>[] }[] }[];
  };
  return chapters[0]?.figures.find((figure) => figure.id === id)?.rows ?? [];
}

function saysOf(report: Report, rule: string): string[] {
  return report.chapters.flatMap(({ conclusions }) =>
    conclusions.filter((one) => one.rule === rule).map(({ says }) => says),
  );
}

const base: Sample = {
  ...{ timeMs: madeMs, series: 'sizes', kind: 'read', target: 't', sizeBytes: 1_048_576 },
  ...{ durationMs: 100, firstByteMs: 1, retries: 0, error: null },
};

describe('figures', () => {
  it('bandwidth is size over time, and of what succeeded only', async () => {
    const durations = [100, 200, 400];
    const samples = durations.map((durationMs) => ({ ...base, durationMs }));
    const failed = { ...base, durationMs: 1, error: 'SlowDown', retries: 5 };
    const [row] = rowsOf(await reportOf([...samples, failed]), 'bandwidth-read');
    expect(row).toMatchObject({
      ...{ size: '1 MiB', samples: 3, p50_bytes_per_second: 5_242_880 },
      mean_bytes_per_second: (10_485_760 + 5_242_880 + 2_621_440) / 3,
    });
  });

  it('sizes are called what was measured', async () => {
    const sized = (sizeBytes: number): Sample => ({ ...base, sizeBytes });
    const names = async (...sizes: number[]) =>
      rowsOf(await reportOf(sizes.map(sized)), 'bandwidth-read').map(({ size }) => size);
    expect(await names(262_144)).toEqual(['256 KiB']);
    expect(await names(1, 1024, 4000, 1_048_576, 262_144, 104_857_600)).toEqual([
      ...['1 B', '1 KiB to 4,000 B', '256 KiB to 1 MiB', '100 MiB'],
    ]);
    expect(await names(31, 10_000, 5_000_000)).toEqual(['31 B', '9.77 KiB', '4.77 MiB']);
    const bytes = { ...base, series: 'surge', threads: 2, sizeBytes: 524_288 } as const;
    expect(rowsOf(await reportOf([bytes]), 'threads')[0]).toMatchObject({ size: '512 KiB' });
  });

  it('a histogram is drawn of fifty, not of ten', async () => {
    const many = (count: number): Sample[] =>
      Array.from({ length: count }, (_, i) => ({ ...base, sizeBytes: 1, durationMs: 1 + i }));
    const total = async (count: number) => {
      const rows = rowsOf(await reportOf(many(count)), 'one-byte-rate');
      return rows.reduce((sum, { samples }) => sum + (samples as number), 0);
    };
    expect([await total(49), await total(50)]).toEqual([0, 50]);
    const page = renderPage(await reportOf(many(10)));
    expect(page).toContain('<code>bursar probe --sizes 1B --count 100</code>');
  });

  it('the page says of what and when, and how many samples are of which series', async () => {
    const failed: Sample = { ...base, error: 'SlowDown' };
    const latency: Sample = { ...base, series: 'latency', sizeBytes: 4096 };
    const page = renderPage(await reportOf([base, failed, latency]));
    const title = 'Speed, availability and cost of t, 2026-11-21';
    expect(page).toContain(`<title>${title}</title>`);
    expect(page).toContain(`<h1>${title}</h1>`);
    expect(page).toContain(':\n2 of single transfers, 1 of latency; 1 of them failed.</p>');
  });

  it('days and hours are those of UTC', async () => {
    const times = ['2026-11-01T23:59:59Z', '2026-11-02T00:00:00Z'].map((time) => Date.parse(time));
    const report = await reportOf(times.map((timeMs) => ({ ...base, timeMs })));
    expect(rowsOf(report, 'daily-read').map(({ day }) => day)).toEqual([
      '2026-11-01',
      '2026-11-02',
    ]);
    expect(rowsOf(report, 'hourly-read').map(({ hour }) => hour)).toEqual([0, 23]);
  });

  it('availability after retries counts who had succeeded by then', async () => {
    const outcomes = [0, 0, 0, 0, 0, 0, 1, 1, 2];
    const samples = outcomes.map((retries): Sample => ({ ...base, retries }));
    const report = await reportOf([...samples, { ...base, retries: 5, error: 'timeout' }]);
    const done = rowsOf(report, 'availability').map((row) => row.done);
    expect(done).toEqual([6, 8, 9, 9, 9, 9]);
  });

  it('a sample of many requests counts as many, and says no more than one', async () => {
    const ofMany = { ...base, series: 'traffic', weight: 99 } as const;
    const one: Sample = { ...base, series: 'traffic', error: 'InternalError' };
    const [row] = rowsOf(await reportOf([ofMany, one]), 'availability');
    expect(row).toMatchObject({ done: 99, tried: 100, availability_share: 0.99 });
    expect(row?.availability_low_share).toBeLessThan(0.5);
  });

  it('pairs are matched by their number, in either order, and halves are none', async () => {
    const pairOf = (id: number, of: 1 | 2, durationMs: number): Sample => {
      return { ...base, pair: { id, of }, durationMs };
    };
    const report = await reportOf([
      ...[pairOf(1, 1, 100), pairOf(1, 2, 110), pairOf(2, 2, 210), pairOf(2, 1, 200)],
      ...[pairOf(3, 1, 300), pairOf(4, 1, 50), pairOf(4, 2, 55), pairOf(5, 2, 999)],
    ]);
    const figure = report.chapters[0]?.figures.find(({ id }) => id === 'pairs-read');
    expect(figure?.n).toBe(3);
    const dots = figure?.series.find(({ look }) => look === 'dots')?.marks ?? [];
    expect(dots.map(({ x, y }) => Math.round((100 * x) / y))).toEqual([110, 105, 110]);
  });

  it('all threads together get as many times what each gets', async () => {
    const surge = { series: 'surge', durationMs: 1000, sizeBytes: 1_048_576 } as const;
    const samples = [1, 4].flatMap((threads): Sample[] => [
      { ...base, ...surge, threads },
      // Its time was spent, and nothing was moved.
      { ...base, ...surge, threads, error: 'SlowDown' },
    ]);
    const rows = rowsOf(await reportOf(samples), 'threads');
    const found = rows.map((row) => [row.threads, row.each_bytes_per_second, row.failures]);
    expect(found).toEqual([
      [1, 524_288, 1],
      [4, 524_288, 1],
    ]);
    expect(rows[1]).toMatchObject({ all_bytes_per_second: 2_097_152 });
  });

  it('cost is exact, by operation, by a million of them and by gigabyte', async () => {
    const samples = ['400000', '400001'].map((costPicodollars): Sample => {
      return { ...base, sizeBytes: 1_000_000, costPicodollars };
    });
    expect(rowsOf(await reportOf(samples), 'cost')[0]).toMatchObject({
      ...{ samples: 2, mean_picodollars: 400_000.5, mean_usd_per_million: 0.4000005 },
      usd_per_gigabyte: 0.0004000005,
    });
    // One that stands for three counts three times.
    const drawn = samples.map((one, index) => ({ ...one, weight: index === 0 ? 3 : 1 }));
    expect(rowsOf(await reportOf(drawn), 'cost')[0]).toMatchObject({
      ...{ samples: 2, mean_picodollars: 400_000.25 },
    });
  });

  it('days are the last 400', async () => {
    const days = Array.from({ length: 402 }, (_, day) => ({
      ...base,
      timeMs: madeMs + day * 86_400_000,
    }));
    const rows = rowsOf(await reportOf(days), 'daily-read');
    expect([rows.length, rows[0]?.day, rows.at(-1)?.day]).toEqual([
      ...[400, '2026-11-23', '2027-12-27'],
    ]);
  });

  it('each chapter has all of them, and says how to measure what is missing', async () => {
    const report = await reportOf([base]);
    const missing = report.chapters[0]?.figures.filter(({ n }) => n === 0) ?? [];
    expect(report.chapters[0]?.figures).toHaveLength(15);
    expect(missing.map(({ id }) => id)).toEqual([
      ...['bandwidth-write', 'daily-write', 'hourly-write', 'one-byte-rate', 'latency'],
      ...['pairs-read', 'pairs-write', 'threads', 'parts', 'cost', 'stages'],
    ]);
    for (const { says } of missing) expect(says).toMatch(/bursar probe|Only samples of clients/);
  });
});

describe('conclusions', () => {
  it('find what limits an installation whose limits are known', async () => {
    const report = await reportOf(probeSamples({ days: 14 }));
    expect(saysOf(report, 'size').join()).toMatch(
      /A read takes [67]\.\d+ ms however small .* large ones move at (5\d|6\d)\.?\d* MB\/s/,
    );
    const [reads = '', writes = ''] = saysOf(report, 'threads');
    expect(reads).toMatch(/^One stream is what limits reads of 1 MiB: 6 threads .* [56]\.\d times/);
    expect(writes).toMatch(/^What all streams share .* writes of 1 MiB: .* (0\.9|1\.[01]) times/);
    expect(saysOf(report, 'parts').join()).toContain('fastest with 4 parts at a time: 3.');
    const pairs = saysOf(report, 'pairs');
    expect(pairs.find((says) => says.includes('reads of 1 B'))).toContain(
      'a slow first one says little of the second',
    );
    expect(pairs.find((says) => says.includes('100 MiB'))).toContain('would help little');
    expect(saysOf(report, 'hour').join()).toMatch(/slowest from 1[3-6] to 1[4-7] h UTC/);
    expect(saysOf(report, 'availability').join()).toContain('more than one retry gained nothing');
  });

  it('find the stage that requests of clients wait in', async () => {
    const says = saysOf(await reportOf(trafficSamples()), 'stage');
    expect(says.find((one) => one.startsWith('Writes of under 32 B'))).toMatch(
      /bound by the commit to the log.*: 9 ms of 1\d(\.\d)? ms are spent in the stage commit/,
    );
    expect(says.find((one) => one.startsWith('Reads of 40 MiB'))).toContain('by the client’s side');
  });

  it('do not take what clients move of 32 KiB for large', async () => {
    const sized = (sizeBytes: number): Sample[] =>
      Array(30).fill({ ...base, series: 'traffic', sizeBytes });
    expect(saysOf(await reportOf([...sized(1), ...sized(40_000)]), 'size')).toEqual([]);
    const [says] = saysOf(await reportOf([...sized(1), ...sized(5_000_000)]), 'size');
    expect(says).toContain('large ones move at 50 MB/s (median, 4 to 40 MiB)');
  });

  it('are not drawn from few samples', async () => {
    const few = [...probeSamples({ days: 1 })].filter(({ series }) => series === 'sizes');
    const report = await reportOf(few.slice(0, 20));
    const { conclusions = [] } = report.chapters[0] ?? {};
    const sure = conclusions.filter(({ weight }) => weight !== 'caution');
    // What these few cost is known.
    expect(sure.map(({ rule }) => rule)).toEqual(['cost']);
    expect(saysOf(report, 'too-few')[0]).toMatch(/^Too few samples .* 20 in all/);
  });

  it('make nothing of hours that differ by chance', async () => {
    const noise = [...probeSamples({ days: 14 })].filter(({ timeMs }) => {
      const hour = new Date(timeMs).getUTCHours();
      return hour < 13 || hour > 16;
    });
    expect(saysOf(await reportOf(noise), 'hour')).toEqual([]);
  });

  it('say how many samples each rests on', async () => {
    const { chapters } = await reportOf(probeSamples({ days: 2 }));
    const all = chapters.flatMap(({ conclusions }) => conclusions);
    expect(all.length).toBeGreaterThan(5);
    for (const { n } of all) expect(n).toBeGreaterThan(0);
    const lines = linesOf(await reportOf(probeSamples({ days: 2 })));
    expect(lines[0]).toMatch(/^gateway, by probes: [\d,]+ samples, 2026-11-01 00:00 to 2026-11-0/);
    for (const line of lines.slice(1)) expect(line).toMatch(/\(n = [\d,]+\)$/);
  });
});

describe('hostile samples', () => {
  it('neither break the page nor add markup to it', async () => {
    const page = renderPage(await reportOf(hostileSamples()));
    expect(page).not.toMatch(/<script|<img|onerror=(?!alert\(1\)&gt;)/);
    expect(page).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(page).not.toContain('\u202e');
    expect(page).not.toMatch(/NaN|Infinity|undefined/);
  });

  it('of ever more targets, days, threads and parts stay within bounds', async () => {
    function* endless(): Generator<Sample> {
      for (let i = 0; i < 50_000; i++) {
        const series = (['sizes', 'surge', 'parts'] as const)[i % 3] ?? 'sizes';
        const rest = { threads: i + 1, parallelParts: i + 1, pair: { id: i, of: 1 as const } };
        const timeMs = i * 86_400_000;
        yield { ...base, ...rest, series, kind: 'write', timeMs, target: `t${i % 100}` };
      }
    }
    const report = await reportOf(endless());
    expect(report.chapters).toHaveLength(16);
    expect([report.count, report.leftOut]).toEqual([8000, 42_000]);
    for (const { figures } of report.chapters) {
      for (const { rows } of figures) expect(rows.length).toBeLessThanOrEqual(400);
    }
  });
});

describe('the page on reports', () => {
  const { text } = readPage('docs/admin/report.md');
  const named = (heading: string) =>
    rowsIn(sectionOf(text, heading)).flatMap(([names]) => String(names).split(', '));

  it('has a row for each rule', () => {
    expect(named('What limits this installation')).toEqual(Object.keys(topics));
  });

  it('has a row for each figure', async () => {
    const report = await reportOf([base]);
    const ids = report.chapters[0]?.figures.map(({ id }) => id);
    expect(named('The plots')).toEqual(ids);
  });

  it('has JSON with the members that there are', async () => {
    const [example] = blocksOf(text).filter(({ language }) => language === 'json');
    const shown = JSON.parse(example?.code ?? '');
    const made = JSON.parse(JSON.stringify(jsonOf(await reportOf(probeSamples({ days: 1 })))));
    const [shownOne, madeOne] = [shown.chapters[0], made.chapters[0]];
    expect(Object.keys(made)).toEqual(Object.keys(shown));
    expect(Object.keys(madeOne)).toEqual(Object.keys(shownOne));
    expect(Object.keys(madeOne.conclusions[0]).sort()).toEqual(
      Object.keys(shownOne.conclusions[0]).sort(),
    );
    const parts = madeOne.figures.find(({ id }: { id: string }) => id === 'parts');
    expect(Object.keys(parts)).toEqual(Object.keys(shownOne.figures[0]));
    expect(Object.keys(parts.rows[0])).toEqual(Object.keys(shownOne.figures[0].rows[0]));
  });
});

describe('colours', () => {
  const [light = '', dark = ''] = pageStyle.split('@media (prefers-color-scheme:dark)');

  it.each([
    ['light', light],
    ['dark', dark],
  ])('of lines are three times as light or dark as the paper: %s', (_scheme, style) => {
    const colours = new Map(
      [...style.matchAll(/--([a-z0-9-]+):#([0-9a-f]+)/g)].map(([, name, hex]) => [name, hex]),
    );
    const paper = luminanceOf(colours.get('paper') ?? '');
    const series = [...colours].filter(([name]) => name?.startsWith('series-'));
    expect(series).toHaveLength(6);
    for (const [, hex = ''] of series) {
      const [low = 0, high = 0] = [paper, luminanceOf(hex)].sort((a, b) => a - b);
      expect((high + 0.05) / (low + 0.05)).toBeGreaterThan(3);
    }
  });
});

/** WCAG 2.2, of `fff` or `ffffff`. */
function luminanceOf(hex: string): number {
  const digits = hex.length === 3 ? hex.replaceAll(/./g, '$&$&') : hex;
  const parts = [0, 2, 4].map((at) => Number.parseInt(digits.slice(at, at + 2), 16) / 255);
  const [r = 0, g = 0, b = 0] = parts.map((one) => {
    return one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

it('the same samples give the same page, byte for byte', async () => {
  const pages = await Promise.all([1, 2].map(() => reportOf(trafficSamples({ count: 300 }))));
  const [one, other] = pages.map(renderPage);
  expect(one).toBe(other);
});

it('without samples says what to do', async () => {
  const report = await reportOf([]);
  expect(renderPage(report)).toContain('Nothing was measured yet');
  expect(linesOf(report).join()).toContain('bursar probe');
});
