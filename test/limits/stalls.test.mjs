// No operation keeps the main thread from others for long at the largest input that it takes, as
// the gateway itself tells: the inputs are those of `npm run bench -- --path stalls`, which
// measures them. How busy the machine is does not matter: time in which others had its processors
// is not counted.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { stopAll } from '../../bench/processes.mjs';
import { benchStalls } from '../../bench/stalls.mjs';

/** Milliseconds, of a slow machine: what is to be found are stalls of a quarter second. */
const stallMsMax = 500;
const effort = { parts: 10_000, uploads: 2, entries: 1000, seconds: 0.1 };
const folder = mkdtempSync(join(tmpdir(), 'bursar-stalls-'));

describe.runIf(process.env.BURSAR_FULL === '1')('the main thread', () => {
  afterAll(async () => {
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  }, 60_000);

  it('is kept from others for no longer than half a second by any operation', async () => {
    const told = [];
    const say = (line) => void told.push(line);
    const { measured } = await benchStalls({ dir: folder, effort: { stalls: effort }, say });
    const long = measured.flatMap(({ title, stalls }) =>
      stalls
        // What no request did is nobody's operation.
        .filter(({ operation }) => operation !== 'none')
        // Where the system does not tell, all of a stall is taken for the gateway's own.
        .map(({ operation, upToMs, own }) => ({ operation, ownMs: own?.upToMs ?? upToMs }))
        .filter(({ ownMs }) => ownMs > stallMsMax)
        .map(({ operation, ownMs }) => `${title}: ${operation}, up to ${ownMs} ms of its own`),
    );
    expect(long, told.join('\n')).toEqual([]);
    expect(measured.length).toBeGreaterThan(30);
    expect(measured.some(({ waits }) => waits.get.length > 0)).toBe(true);
  }, 600_000);
});
