// A stall is told of the request that had the thread, and of nobody where none had.
import { expect, it } from 'vitest';
import { Pace } from '#bursar/core/pace.js';
import { currentTurn, noteTurn } from '#bursar/core/thread-turns.js';
import { StallWatch } from '#bursar/instruments/stall-watch.js';

const computed = { processorMs: 300, queuedMs: 0 };

function told(stalls: ReturnType<StallWatch['late']>): unknown[] {
  return [...stalls].map(([{ operation }, { sum }]) => [operation, sum]);
}

it('tells a stall of the request that spoke last before it', () => {
  const watch = new StallWatch();
  watch.check(0, 1000, computed);
  noteTurn({ operation: 'GetObject' }, 1005);
  noteTurn({ operation: 'PutBucketPolicy' }, 1010);
  noteTurn({ operation: 'HeadObject' }, 1310);
  watch.check(295, 1315, computed);
  noteTurn({ operation: 'HeadObject' }, 1320);
  watch.check(20, 1355, computed);
  watch.check(80, 1455, computed);
  expect(told(watch.late())).toEqual([
    ['none', 0.08],
    ['PutBucketPolicy', 0.295],
  ]);
});

it('tells what is left of a stall without the time in which others had the processors', () => {
  const watch = new StallWatch();
  watch.check(200, 2000, { processorMs: 250, queuedMs: 180 });
  watch.check(60, 2080, { processorMs: 500, queuedMs: 75 });
  watch.check(40, 2140, { processorMs: 40, queuedMs: 0 });
  const [[, late] = [], ...others] = watch.late();
  expect(others).toEqual([]);
  expect(late?.counts.reduce((sum, count) => sum + count)).toBe(2);
  expect(told(watch.own())).toEqual([['none', 0.02]]);
  expect([...watch.processorSeconds()]).toEqual([[{ operation: 'none' }, 0.75]]);
});

it('tells it of a long work that went on, and not of who spoke while that waited', async () => {
  const long = { operation: 'CompleteMultipartUpload' };
  noteTurn(long, performance.now());
  const pace = new Pace();
  const resting = pace.wait();
  noteTurn({ operation: 'GetObject' }, performance.now());
  await resting;
  expect(currentTurn()).toBe(long);
});
