// A probe that is killed loses no sample that it has told of: again and again, at any moment.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { readSamples } from '#bursar/instruments/sample-log.js';
import { seededRandom } from '../fuzz/seeded-random.ts';

const kills = process.env.BURSAR_FULL === '1' ? 100 : 5;
const timeoutMs = 30_000 + kills * 5000;
const dir = mkdtempSync(join(tmpdir(), 'bursar-probe-kill-'));
const log = resolve('dist/instruments/sample-log.js');

afterAll(() => rmSync(dir, { recursive: true, force: true }));

/** Appends samples, two at a time, and tells of each when it is kept. Its times are its numbers. */
const appending = `
  import { writeSync } from 'node:fs';
  import { SampleLog } from ${JSON.stringify(log)};
  const [dir, begin] = process.argv.slice(1);
  const options = { name: 'probe', segmentBytesMax: 4096, segmentsMax: 10000 };
  const log = await SampleLog.open(dir, options);
  let next = Number(begin);
  const append = async () => {
    for (;;) {
      const timeMs = next++;
      await log.append({ timeMs, series: 'sizes', kind: 'read', target: 'gateway', sizeBytes: 1,
        durationMs: 1, firstByteMs: 1, retries: 0, error: null });
      writeSync(1, timeMs + '\\n');
    }
  };
  await Promise.all([append(), append()]);`;

describe(`samples of a process that is killed ${kills} times`, () => {
  it(
    'are all there that were told of',
    async () => {
      const random = seededRandom(20261121);
      const told = new Set<number>();
      for (let kill = 0; kill < kills; kill++) {
        const args = ['--input-type=module', '-e', appending, dir, String(kill * 1_000_000)];
        const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
        let output = '';
        child.stdout.setEncoding('utf8').on('data', (text: string) => {
          output += text;
        });
        await once(child.stdout, 'data');
        setTimeout(() => child.kill('SIGKILL'), random() * 100);
        await once(child, 'close');
        // The last line may lack its end.
        for (const line of output.split('\n').slice(0, -1)) told.add(Number(line));
      }
      const kept = new Set<number>();
      for await (const { timeMs } of readSamples(dir)) {
        expect(kept.has(timeMs)).toBe(false);
        kept.add(timeMs);
      }
      expect(told.size).toBeGreaterThan(kills);
      expect([...told].filter((timeMs) => !kept.has(timeMs))).toEqual([]);
    },
    timeoutMs,
  );
});
