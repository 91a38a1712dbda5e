// A log of samples on a disk that refuses a write: whichever it is, what was told to be kept is
// kept, and what comes later is taken. BURSAR_FULL=1 refuses each write, sync and new file in turn.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { readSamples } from '#bursar/instruments/sample-log.js';
import { compiler } from '../fault/compiler.ts';
import { bareEnvironment } from '../tooling/bare-environment.ts';
import { describeWithTool } from '../tooling/tools.ts';

vi.setConfig({ testTimeout: 120_000 });

const root = mkdtempSync(join(tmpdir(), 'bursar-sample-faults-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const count = 9;
const isFull = process.env.BURSAR_FULL === '1';
const script = resolve(import.meta.dirname, 'sample-run.mjs');

describeWithTool(compiler, 'a log of samples on a disk that refuses a write', (cc) => {
  const library = join(root, 'fault-at.so');
  const faultFile = join(root, 'fault-at');

  beforeAll(() => {
    const source = resolve(import.meta.dirname, '../fault/fault-at.c');
    execFileSync(cc, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl']);
  });

  /** The times of the samples that were told to be durable; undefined: it could not begin. */
  function append(folder: string): number[] | undefined {
    const env = { ...bareEnvironment(), LD_PRELOAD: library, FAULT_AT: faultFile };
    try {
      const args = [script, folder, String(count)];
      const told = execFileSync(process.execPath, args, { env, stdio: 'pipe' });
      return JSON.parse(told.toString()) as number[];
    } catch {
      return undefined;
    }
  }

  async function timesIn(folder: string): Promise<number[]> {
    const times: number[] = [];
    for await (const { timeMs } of readSamples(folder)) times.push(timeMs);
    return times;
  }

  it.each(['write', 'sync', 'make'])('of kind %s', async (call) => {
    let met = 0;
    for (let number = 1; ; number += isFull ? 1 : 3) {
      const folder = join(root, `samples-${call}-${number}`);
      writeFileSync(faultFile, `${call} /samples- ${number} EIO`);
      const told = append(folder);
      if (existsSync(faultFile)) break;
      met++;
      if (told) {
        // At most those of one write, and those behind it are there again.
        expect(told.length).toBeGreaterThanOrEqual(count - 1);
        expect(await timesIn(folder)).toEqual(expect.arrayContaining(told));
      }
      expect(append(folder)).toHaveLength(count);
    }
    rmSync(faultFile);
    expect(met).toBeGreaterThan(1);
  });
});
