// `bursar report` as its users run it, on samples as probes and serve write them.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { renderSample } from '#bursar/instruments/sample-line.js';
import { probeSamples, trafficSamples } from '../instruments/report/report-samples.ts';
import { Workplace } from './command.ts';

describe('bursar report', () => {
  const place = new Workplace();
  const samples = join(place.data, 'samples');

  beforeAll(() => {
    mkdirSync(samples, { recursive: true });
    const probe = [...probeSamples({ days: 2 })].map(renderSample).join('');
    writeFileSync(join(samples, 'probe-00000000.jsonl'), `${probe}{"v":1,"timeMs":17`);
    const traffic = [...trafficSamples({ count: 500 })].map(renderSample).join('');
    writeFileSync(join(samples, 'traffic-00000000.jsonl'), traffic);
  });
  afterAll(() => place.remove());

  it('writes a page, a CSV file for each plot and JSON, which say the same', async () => {
    const args = ['report', '--out', 'report.html', '--csv', 'figures', '--json'];
    const { code, stdout, stderr } = await place.run(args);
    expect([code, stderr]).toEqual([0, '']);
    const told = JSON.parse(stdout);
    expect(told.chapters.map((one: { target: string }) => one.target)).toEqual([
      ...['gateway', 'gateway, store local'],
    ]);
    const page = readFileSync(join(place.folder, 'report.html'), 'utf8');
    expect(page).toContain('What limits this installation');
    const files = readdirSync(join(place.folder, 'figures'));
    expect(files).toHaveLength(30);
    for (const file of files) expect(file).toMatch(/^[12]-(probe|traffic)-[a-z-]+\.csv$/);
    const csv = readFileSync(join(place.folder, 'figures', '1-probe-parts.csv'), 'utf8');
    const [heading, ...lines] = csv.split('\r\n');
    expect(heading).toBe(
      'target,source,parallel_parts,samples,' +
        'mean_bytes_per_second,p5_bytes_per_second,p95_bytes_per_second',
    );
    const parts = told.chapters[0].figures.find((one: { id: string }) => one.id === 'parts');
    const rows = parts.rows.map((row: object) =>
      ['gateway', 'probe', ...Object.values(row)].join(),
    );
    expect(lines).toEqual([...rows, '']);
  });

  it('says in words what limits it, of what was asked for', async () => {
    const asked = ['--series', 'surge,parts', '--target', 'gateway'];
    const { code, stdout } = await place.run(['report', ...asked]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^gateway, by probes: 400 samples/);
    expect(stdout).toContain('Threads: One stream is what limits reads of 1 MiB');
    expect(stdout).not.toContain('clients');
    const early = await place.run(['report', '--to', '2026-11-01', '--json']);
    expect(JSON.parse(early.stdout)).toMatchObject({ samples: 0, chapters: [] });
    expect(early.stderr).toBe('bursar: no samples fit --to\n');
    const other = await place.run(['report', '--target', 'nobody', '--series', 'parts']);
    const none = 'bursar: no samples fit --target, --series\n';
    expect(other).toEqual({ code: 0, stdout: '', stderr: none });
  });

  it('says so where there are no samples, and which flags make no sense', async () => {
    const empty = await place.run(['report', '--data', 'nowhere', '--out', 'empty.html']);
    expect([empty.code, empty.stdout.split('\n')[0]]).toEqual([
      ...[0, expect.stringContaining('There are no samples')],
    ]);
    expect(readFileSync(join(place.folder, 'empty.html'), 'utf8')).toContain(
      'Nothing was measured',
    );
    for (const [args, message] of [
      [['--samples', 'nowhere'], /--samples: nowhere is no folder/],
      [['--from', 'yesterday'], /--from.*2026-11-23/],
      [['--series', 'sizes,speed'], /--series.*sizes, latency, surge, parts, traffic/],
    ] as const) {
      const { code, stderr } = await place.run(['report', ...args]);
      expect(code).toBe(2);
      expect(stderr).toMatch(message);
    }
    const blocked = await place.run(['report', '--out', 'no/such/folder.html']);
    expect([blocked.code, blocked.stderr.split('\n').length]).toEqual([1, 2]);
  });
});
