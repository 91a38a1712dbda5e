// The bench's own sums: a wrong ratio or goal would be a wrong claim in docs/performance.md.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';
import { benchDecisions, describeDecisions } from '../../bench/decisions.mjs';
import { describeInstruments } from '../../bench/instruments.mjs';
import { describePath, ratioOf, summarize } from '../../bench/peers-report.mjs';
import { formatPage } from '../../bench/report.mjs';
import { efforts, runSections } from '../../bench/sections.mjs';
import { describeRatios } from '../../bench/short-turns.mjs';
import { medianInterval, quantile } from '../../bench/statistics.mjs';

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

it('says of a goal that it is missed only where the whole interval is below it', () => {
  const compared = (ours) => [{ title: 'GET', turns: { ours, other: turns(100, 1) } }];
  const verdictOn = (ours) =>
    describeRatios(compared(ours), { ours: 'ours', other: 'other', goal: 0.98 }).join('\n');
  expect(verdictOn(turns(99, 1))).toContain('0.98, reached');
  expect(verdictOn(turns(97, 1))).toContain('0.98, MISSED');
  const unsure = turns(97, 1).map((one, i) => (i > 5 ? { ...one, perSecond: 1e6 } : one));
  expect(verdictOn(unsure)).toContain('0.98, not sure');
});

it('reckons the instruments’ calls as a share of the CPU that a request takes', () => {
  const all = turns(100, 0.1);
  const comparedTo = (none) => [{ title: 'GET', turns: { all, measured: all, none } }];
  const partsOf = (ns) => ['clock', 'metrics', 'line'].map((name) => ({ name, title: name, ns }));
  const told = (ns, none = all) =>
    describeInstruments({ rounds: 9, parts: partsOf(ns), compared: comparedTo(none) }).join(' ');
  expect(told(900)).toContain('take 1.80% of the CPU');
  expect(told(900)).toContain('the goal is reached');
  expect(told(1100)).toContain('the goal is MISSED');
  expect(told(900, turns(103, 0.1))).toContain('the goal is MISSED');
  const both = [...comparedTo(all), ...comparedTo(turns(103, 0.1))];
  const text = describeInstruments({ rounds: 9, parts: partsOf(900), compared: both }).join(' ');
  expect(text).toContain('the goal is MISSED');
});

it('writes the page with what was measured when a section fails, and says which did not', async () => {
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
  const run = { machine, isQuick: true, tookMinutes: 1, outcomes, notesDir: '/nowhere' };
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
