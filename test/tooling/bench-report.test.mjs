// The bench's own sums: a wrong ratio or goal would be a wrong claim in docs/performance.md.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { benchDecisions, describeDecisions } from '../../bench/decisions.mjs';
import { describeInstruments } from '../../bench/instruments.mjs';
import { shareOut } from '../../bench/instruments-profile.mjs';
import { describePath, ratioOf, summarize } from '../../bench/peers-report.mjs';
import { formatPage } from '../../bench/report.mjs';
import { efforts, runSections, sections } from '../../bench/sections.mjs';
import { describeRatios } from '../../bench/short-turns.mjs';
import { medianInterval, quantile } from '../../bench/statistics.mjs';
import { formatSummary } from '../../bench/summary.mjs';

const measured = (server, round, p50Ms, perSecond, backendCpuMs) => ({
  ...{ workload: 'get-4k-c1', server, round, p50Ms, perSecond, backendCpuMs },
  ...{ p99Ms: 1, bytesPerSecond: 1e6, errors: round, loadCpuShare: 0.1, serverCpuMs: 1 },
  peakBytes: round,
});
// The machine is twice as slow in the second round, for both.
const measurements = [
  measured('bursar', 1, 0.6, 900, 0.5),
  measured('direct', 1, 0.2, 3000),
  measured('bursar', 2, 1.2, 450, 0.7),
  measured('direct', 2, 0.4, 1500),
];
const beside = (server) => (one) => (one.server === 'direct' ? { ...one, server } : one);
const dir = mkdtempSync(join(tmpdir(), 'bursar-bench-report-'));
afterAll(() => rmSync(dir, { recursive: true }));

it('compares servers round by round, so that a slow minute falls on both', () => {
  const rate = ratioOf(measurements, { workload: 'get-4k-c1', peer: 'direct', of: 'perSecond' });
  expect(rate).toEqual({ median: 0.3, min: 0.3, max: 0.3 });
  const p50 = ratioOf(measurements, { workload: 'get-4k-c1', peer: 'direct', of: 'p50Ms' });
  expect(p50.median).toBeCloseTo(3);
});

it('has no ratio to a server that was not measured', () => {
  const ratio = ratioOf(measurements, { workload: 'get-4k-c1', peer: 'minio', of: 'perSecond' });
  expect(ratio).toBeUndefined();
});

it('adds up errors and keeps the highest peak of the rounds', () => {
  expect(summarize(measurements)[0]).toMatchObject({ server: 'bursar', errors: 3, peakBytes: 2 });
});

it('shows a latency beside its goal, the backend’s share of the CPU, and who was not there', () => {
  const servers = [
    { name: 'bursar', version: '1' },
    { name: 'direct', version: '2' },
  ];
  const effort = { rounds: 2, seconds: 1, listKeys: 1 };
  const path = { name: 's3', servers, measurements, effort, missing: ['minio'] };
  const report = describePath(path).join('\n');
  expect(report).toContain('| **0.9** | **3.00×** (3.00×–3.00×) | at most 1.5× + 1 ms = 1.45 ms |');
  expect(report).toContain('| direct | 2,250 | 1 | 0.3 | 1 | 1 | – |');
  expect(report).toContain('| bursar | 675 | 1 | 0.9 | 1 | 1 | 0.6 |');
  expect(report).toContain('NOT MEASURED: minio');
});

it('interpolates quantiles', () => {
  expect(quantile([4, 1, 3, 2], 0.5)).toBe(2.5);
  expect(quantile([1, 2, 3], 1)).toBe(3);
});

// Ranks of the interval of 95% as tables of the binomial distribution have them.
it.each([
  [5, 1, 5],
  [6, 1, 6],
  [9, 2, 8],
  [20, 6, 15],
  [40, 14, 27],
])(
  'has the confidence interval of a median of %i values from rank %i to %i',
  (count, low, high) => {
    const values = Array.from({ length: count }, (_, i) => count - i);
    expect(medianInterval(values)).toMatchObject({ low, high });
  },
);

const turns = (perSecond, cpuMs) =>
  Array.from({ length: 9 }, (_, i) => ({ perSecond: perSecond * (i + 1), cpuMs }));

it('says of a goal that it is missed, or surely reached, only where all of the interval is', () => {
  const compared = (ours) => [{ title: 'GET', turns: { ours, other: turns(100, 1) } }];
  const verdictOn = (ours) =>
    describeRatios(compared(ours), { ours: 'ours', other: 'other', goal: 0.98 }).join('\n');
  expect(verdictOn(turns(99, 1))).toContain('0.98, surely reached');
  expect(verdictOn(turns(97, 1))).toContain('0.98, MISSED');
  const unsure = turns(97, 1).map((one, i) => (i > 5 ? { ...one, perSecond: 1e6 } : one));
  expect(verdictOn(unsure)).toContain('0.98, not sure');
});

it('shows the goals first, and which of them were missed', () => {
  const path = { name: 's3', measurements: measurements.map(beside('versitygw-proxy')) };
  const limits = [{ title: 'GET', turns: { limited: turns(96, 1), free: turns(100, 1) } }];
  const outcomes = [
    { section: sections.find(({ name }) => name === 's3'), measured: path },
    { section: sections.find(({ name }) => name === 'limits'), measured: { compared: limits } },
    { section: sections.find(({ name }) => name === 'tokens'), failure: 'no disk' },
  ];
  const summary = formatSummary(outcomes).join('\n');
  expect(summary).toContain('1 reached, 1 missed.');
  expect(summary).toContain('| 0.9× | **0.30×** (0.30×–0.30×) | **MISSED** |');
  expect(summary).toContain('| GET, limited | free | 0.95× | **0.960** (0.960–0.960) | reached |');
});

it('says what the instruments cost by a profile, unless throughput is against it', () => {
  const all = turns(100, 0.1);
  const told = (share, none = all) => {
    const names = ['stages', 'metrics', 'line'];
    const parts = names.map((name) => ({ name, title: name, share }));
    const profiled = { get: Array(9).fill(parts) };
    const compared = [{ name: 'get', title: 'GET', turns: { all, measured: all, none } }];
    return describeInstruments({
      rounds: 9,
      instances: 1,
      profileSeconds: 1,
      profiled,
      compared,
    }).join(' ');
  };
  expect(told(0.009)).toContain(
    'they take **1.80%** (1.80%–1.80%) of a GET: **the goal is reached',
  );
  expect(told(0.011)).toContain('they take **2.20%** (2.20%–2.20%) of a GET: **the goal is MISSED');
  expect(told(0.009, turns(103, 0.1))).toContain('the goal is MISSED');
});

it('gives each busy moment of a profile to the outermost part on its stack', () => {
  const node = (id, functionName, path, children = []) => ({
    ...{ id, children, callFrame: { functionName, url: path && `file:///a/dist/${path}.js` } },
  });
  const nodes = [
    node(1, '(root)', '', [2, 3, 4]),
    node(2, '(idle)', ''),
    node(3, 'serve', 'gateway/pipeline', [5, 6, 12]),
    node(4, 'enter', 'core/enter'),
    node(5, 'enter', 'instruments/stage-clock', [7]),
    node(6, 'end', 'gateway/exchange', [8, 9]),
    node(7, 'now', ''),
    node(8, 'observe', 'instruments/instruments', [10, 11]),
    node(9, 'writeHead', ''),
    node(10, 'observe', 'instruments/request-log', [13]),
    node(11, 'keys', ''),
    node(12, 'describe', 'instruments/stage-clock'),
    node(13, 'msIn', 'instruments/stage-clock'),
  ];
  const samples = nodes.map(({ id }) => id);
  const timeDeltas = samples.map(() => 10);
  const profile = { nodes, samples, timeDeltas, startTime: 1000 };
  const shares = (window) =>
    Object.fromEntries(shareOut(profile, window).map(({ name, share }) => [name, share * 12]));
  const whole = shares({ fromMicros: 0, toMicros: 2000 });
  expect(whole.stages).toBeCloseTo(2);
  expect(whole.metrics).toBeCloseTo(2);
  expect(whole.exchange).toBeCloseTo(1);
  expect(whole.timing).toBeCloseTo(1);
  expect(whole.line).toBeCloseTo(2);
  expect(whole.samples).toBe(0);
  expect(shares({ fromMicros: 1050, toMicros: 1060 }).stages).toBeCloseTo(12);
});

it('gives the collecting of garbage to the part that it interrupts', () => {
  const node = (id, functionName, url = '') => ({ id, callFrame: { functionName, url } });
  const nodes = [
    { ...node(1, '(root)'), children: [2, 3, 4, 5] },
    node(2, '(idle)'),
    node(3, 'enter', 'file:///a/dist/instruments/stage-clock.js'),
    node(4, '(garbage collector)'),
    node(5, 'serve', 'file:///a/dist/gateway/s3/pipeline.js'),
  ];
  const samples = [3, 4, 4, 5, 4, 2, 4, 5];
  const timeDeltas = samples.map(() => 10);
  const profile = { nodes, samples, timeDeltas, startTime: 0 };
  const [stages] = shareOut(profile, { fromMicros: 0, toMicros: 1000 });
  expect(stages.share).toBeCloseTo(3 / 7);
});

it('writes the page with what was measured, and says which section failed', async () => {
  const section = (name, measure) => ({
    ...{ name, title: `About ${name}`, seconds: { whole: 1, quick: 1 }, measure },
    describe: ({ value }) => [`measured: ${value}`, ''],
  });
  const said = [];
  const chosen = [
    section('one', async () => ({ value: 1 })),
    section('two', async () => {
      throw new Error('no disk');
    }),
    section('three', async () => ({ value: 3, servers: [{ name: 'bursar', version: '1' }] })),
  ];
  const options = { dir, isQuick: true, say: (line) => said.push(line) };
  const outcomes = await runSections(chosen, options);
  const machine = { cpus: 2, cpu: 'x', memoryBytes: 1e9, date: '2026-01-01' };
  const run = {
    machines: [machine],
    isQuick: true,
    tookMinutes: 1,
    outcomes,
    notesDir: '/nowhere',
  };
  const page = formatPage(run);
  expect(page).toContain('## About one\n\nmeasured: 1');
  expect(page).toContain('## About two\n\nNOT MEASURED: no disk');
  expect(page).toContain('## About three\n\nmeasured: 3');
  expect(page).toContain('- bursar 1');
  expect(page).toContain('A quick run');
  expect(said[0]).toMatch(/^one, 1 of 3, until \d\d:\d\d; all until \d\d:\d\d$/);
});

it('measures decisions among as many grants as were asked for', () => {
  const effort = { ...efforts.quick, grants: 1000 };
  const lines = describeDecisions(benchDecisions({ effort, say: () => {} })).join('\n');
  expect(lines).toContain('| 1,000 | **');
  expect(lines).not.toContain('NaN');
});
