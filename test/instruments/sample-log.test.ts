// Samples on disk: what was told to be kept is kept, whatever else is in the files is passed over,
// and neither the files nor who reads them grow without bound.
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import type { Sample } from '#bursar/instruments/sample.js';
import { parseSample, renderSample } from '#bursar/instruments/sample-line.js';
import { readSamples, SampleLog } from '#bursar/instruments/sample-log.js';
import { fuzz, randomBelow, randomOf } from '../fuzz/seeded-random.ts';

const root = mkdtempSync(join(tmpdir(), 'bursar-samples-'));
let folders = 0;
const newFolder = (): string => join(root, String(folders++));

afterAll(() => rmSync(root, { recursive: true, force: true }));

function sampleAt(timeMs: number, more: Partial<Sample> = {}): Sample {
  return {
    timeMs,
    series: 'sizes',
    kind: 'read',
    target: 'gateway',
    sizeBytes: 1024,
    durationMs: 12.5,
    firstByteMs: 3.25,
    retries: 1,
    error: null,
    ...more,
  };
}

async function readAll(dir: string, filter?: Parameters<typeof readSamples>[1]) {
  const samples: Sample[] = [];
  for await (const sample of readSamples(dir, filter)) samples.push(sample);
  return samples;
}

const times = (samples: readonly Sample[]): number[] => samples.map(({ timeMs }) => timeMs);

async function written(count: number): Promise<string> {
  const dir = newFolder();
  const log = await SampleLog.open(dir, { name: 'probe' });
  for (let i = 0; i < count; i++) await log.append(sampleAt(i));
  await log.close();
  return dir;
}

describe('a log of samples', () => {
  it('gives back every member of what was appended', async () => {
    const full = sampleAt(1_800_000_000_000, {
      series: 'traffic',
      kind: 'write',
      error: 'HTTP 503 SlowDown',
      pair: { id: 2 ** 47, of: 2 },
      threads: 6,
      parallelParts: 8,
      costPicodollars: '5000000',
      stages: { parse: 0.25, commit: 7 },
      weight: 12.5,
    });
    const dir = newFolder();
    const log = await SampleLog.open(dir, { name: 'probe' });
    await log.append(full);
    await log.append(sampleAt(1));
    await log.close();
    expect(await readAll(dir)).toEqual([full, sampleAt(1)]);
  });

  it('keeps samples that are appended at the same time, each once and in order', async () => {
    const dir = newFolder();
    const log = await SampleLog.open(dir, { name: 'probe' });
    await Promise.all(Array.from({ length: 200 }, (_, i) => log.append(sampleAt(i))));
    await log.close();
    expect(times(await readAll(dir))).toEqual(Array.from({ length: 200 }, (_, i) => i));
  });

  it('passes over a torn last line, and goes on behind it', async () => {
    const dir = await written(3);
    const file = join(dir, 'probe-00000000.jsonl');
    truncateSync(file, statSync(file).size - 20);
    expect(times(await readAll(dir))).toEqual([0, 1]);
    const log = await SampleLog.open(dir, { name: 'probe' });
    await log.append(sampleAt(7));
    await log.close();
    expect(times(await readAll(dir))).toEqual([0, 1, 7]);
  });

  it('lets the oldest segment go when its bound is reached, and no other', async () => {
    const dir = newFolder();
    const options = { name: 'probe', segmentBytesMax: 1000, segmentsMax: 3 };
    const log = await SampleLog.open(dir, options);
    for (let i = 0; i < 60; i++) await log.append(sampleAt(i));
    await log.close();
    const segments = readdirSync(dir).filter((name) => name.endsWith('.jsonl'));
    expect(segments).toHaveLength(3);
    const kept = times(await readAll(dir));
    expect(kept).toEqual(Array.from({ length: kept.length }, (_, i) => 60 - kept.length + i));
    for (const name of segments) expect(statSync(join(dir, name)).size).toBeLessThanOrEqual(1000);
    // Opened again it goes on with the newest, however often.
    for (let i = 60; i < 65; i++) {
      const again = await SampleLog.open(dir, options);
      await again.append(sampleAt(i));
      await again.close();
    }
    expect(times(await readAll(dir)).slice(-6)).toEqual([59, 60, 61, 62, 63, 64]);
  });

  it('has one writer of a name at a time, and another for each name', async () => {
    const dir = newFolder();
    const log = await SampleLog.open(dir, { name: 'probe' });
    await expect(SampleLog.open(dir, { name: 'probe' })).rejects.toThrow('in use by another probe');
    const other = await SampleLog.open(dir, { name: 'traffic' });
    await other.appendSoon([sampleAt(2), sampleAt(3)]);
    await log.append(sampleAt(1));
    await Promise.all([log.close(), other.close()]);
    expect(times(await readAll(dir))).toEqual([1, 2, 3]);
    await (await SampleLog.open(dir, { name: 'probe' })).close();
  });

  it('tells of a sample that could not be written, and writes the next whole', async () => {
    const dir = newFolder();
    const log = await SampleLog.open(dir, { name: 'probe', segmentBytesMax: 200 });
    await log.append(sampleAt(1));
    // The next segment's name is taken by a folder.
    const taken = join(dir, 'probe-00000001.jsonl');
    mkdirSync(taken);
    await expect(log.append(sampleAt(2))).rejects.toThrow('EISDIR');
    rmSync(taken, { recursive: true });
    await log.append(sampleAt(3));
    await log.close();
    expect(times(await readAll(dir))).toEqual([1, 3]);
  });

  it('lets nothing go for segments that cannot be made, however often it is tried', async () => {
    const dir = newFolder();
    const options = { name: 'probe', segmentBytesMax: 200, segmentsMax: 2 };
    const log = await SampleLog.open(dir, options);
    await log.append(sampleAt(0));
    const taken = [1, 2, 3, 4].map((number) => join(dir, `probe-0000000${number}.jsonl`));
    for (const path of taken) mkdirSync(path);
    for (const _ of taken) await expect(log.append(sampleAt(9))).rejects.toThrow();
    for (const path of taken) rmSync(path, { recursive: true });
    await log.append(sampleAt(1));
    await log.close();
    expect(times(await readAll(dir))).toEqual([0, 1]);
  });

  it('reads what lies between two times, and of some series only', async () => {
    const dir = newFolder();
    const log = await SampleLog.open(dir, { name: 'probe' });
    for (let i = 0; i < 6; i++) {
      await log.append(sampleAt(i, { series: i % 2 === 0 ? 'sizes' : 'surge' }));
    }
    await log.close();
    expect(times(await readAll(dir, { fromMs: 1, toMs: 4 }))).toEqual([1, 2, 3]);
    expect(times(await readAll(dir, { series: ['surge'] }))).toEqual([1, 3, 5]);
  });

  it('has no samples where there is no folder', async () => {
    expect(await readAll(join(root, 'nowhere'))).toEqual([]);
  });
});

describe('hostile lines', () => {
  const hostile = [
    '{"v":2,"timeMs":1}',
    '{}',
    '[]',
    'null',
    '"text"',
    '1e999',
    JSON.stringify({ v: 1, ...sampleAt(1), durationMs: -1 }),
    JSON.stringify({ v: 1, ...sampleAt(1), durationMs: '12' }),
    JSON.stringify({ v: 1, ...sampleAt(1), durationMs: 5e-324 }),
    JSON.stringify({ v: 1, ...sampleAt(1), sizeBytes: 1.5 }),
    JSON.stringify({ v: 1, ...sampleAt(1), retries: 6 }),
    JSON.stringify({ v: 1, ...sampleAt(1), series: 'others' }),
    JSON.stringify({ v: 1, ...sampleAt(1), timeMs: 1e300 }),
    JSON.stringify({ v: 1, ...sampleAt(1), target: 'x'.repeat(500) }),
    JSON.stringify({ v: 1, ...sampleAt(1), pair: { id: 1, of: 3 } }),
    JSON.stringify({ v: 1, ...sampleAt(1), costPicodollars: '1e9' }),
    JSON.stringify({ v: 1, ...sampleAt(1), stages: { parse: -1 } }),
    JSON.stringify({ v: 1, ...sampleAt(1), weight: 0 }),
    'x'.repeat(5_000_000),
    '\u0000\u0000\u0000',
  ];

  it('are passed over, each, between good ones', async () => {
    const dir = await written(1);
    const file = join(dir, 'probe-00000000.jsonl');
    for (const line of hostile) {
      expect(parseSample(line)).toBeUndefined();
      appendFileSync(file, `${line}\n`);
    }
    appendFileSync(file, renderSample(sampleAt(2)));
    expect(times(await readAll(dir))).toEqual([0, 2]);
  });

  it('bring nothing along that no sample has', () => {
    const line = JSON.stringify({ v: 1, ...sampleAt(1), key: 'k', stages: { parse: 1, x: 2 } });
    expect(parseSample(line)).toEqual(sampleAt(1, { stages: { parse: 1 } }));
  });

  it('cannot be made of a damaged file: what is read has every number in its range', async () => {
    const dir = await written(20);
    const file = join(dir, 'probe-00000000.jsonl');
    const good = readFileSync(file);
    await fuzz(20261121, 60, async (random) => {
      const bytes = Buffer.from(good);
      for (let i = randomBelow(random, 30); i >= 0; i--) {
        bytes[randomBelow(random, bytes.length)] = randomOf(
          random,
          [0, 0x0a, 0x22, 0x2d, 0x7b, 0xff],
        );
      }
      writeFileSync(file, bytes.subarray(0, randomBelow(random, bytes.length)));
      for (const { durationMs, sizeBytes, retries, timeMs } of await readAll(dir)) {
        expect(durationMs >= 0 && durationMs < Number.POSITIVE_INFINITY).toBe(true);
        expect(Number.isSafeInteger(sizeBytes) && sizeBytes >= 0).toBe(true);
        expect(retries >= 0 && retries <= 5).toBe(true);
        expect(Number.isNaN(new Date(timeMs).getTime())).toBe(false);
      }
    });
  });
});
