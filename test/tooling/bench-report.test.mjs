// The bench's own sums: a wrong ratio or goal would be a wrong claim in docs/performance.md.
import { expect, it } from 'vitest';
import { formatReport, ratioOf, summarize } from '../../bench/report.mjs';
import { workloadsOf } from '../../bench/workloads.mjs';

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

it('shows a latency beside its goal, and the backend’s share of the CPU', () => {
  const servers = [
    { name: 'bursar', version: '1' },
    { name: 'direct', version: '2' },
  ];
  const machine = { cpus: 2, cpu: 'x', memoryBytes: 1e9, date: '2026-01-01' };
  const options = { rounds: 2, seconds: 1, listKeys: 1 };
  const paths = [{ name: 's3', servers, measurements }];
  const results = { machine, options, limits: [], paths };
  const report = formatReport({ results, workloadsOf, notesDir: '/nowhere' });
  expect(report).toContain('| **0.9** | **3.00×** (3.00×–3.00×) | at most 1.5× + 1 ms = 1.45 ms |');
  expect(report).toContain('| direct | 2,250 | 1 | 0.3 | 1 | 1 | – |');
  expect(report).toContain('| bursar | 675 | 1 | 0.9 | 1 | 1 | 0.6 |');
});
