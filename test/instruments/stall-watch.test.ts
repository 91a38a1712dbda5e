// A stall is told of the request that had the thread, and of nobody where none had.
import { expect, it } from 'vitest';
import { Pace } from '#bursar/core/pace.js';
import { currentTurn, noteTurn } from '#bursar/core/thread-turns.js';
import { StallWatch } from '#bursar/instruments/stall-watch.js';

function told(watch: StallWatch): unknown[] {
  return [...watch.stalls()].map(([{ operation }, { sum }]) => [operation, sum]);
}

it('tells a stall of the request that spoke last before it', () => {
  const watch = new StallWatch();
  watch.check(0, 1000);
  noteTurn({ operation: 'GetObject' }, 1005);
  noteTurn({ operation: 'PutBucketPolicy' }, 1010);
  noteTurn({ operation: 'HeadObject' }, 1310);
  watch.check(295, 1315);
  noteTurn({ operation: 'HeadObject' }, 1320);
  watch.check(20, 1355);
  watch.check(80, 1455);
  expect(told(watch)).toEqual([
    ['none', 0.08],
    ['PutBucketPolicy', 0.295],
  ]);
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
