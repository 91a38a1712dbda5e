// Which store is asked first, by what its answers took.
import { expect, test } from 'vitest';
import { CopySpeeds } from '#bursar/tiering/copy-speeds.js';

function begin() {
  let nowMs = 1000;
  const speeds = new CopySpeeds(() => nowMs);
  const pass = (ms: number): void => {
    nowMs += ms;
  };
  const learn = (times: Record<number, number>): void => {
    for (const [store, ms] of Object.entries(times)) speeds.answered(Number(store), 'chunk', ms);
  };
  return { speeds, pass, learn };
}

test('a store of which nothing is known is asked by one reader', () => {
  const { speeds, learn } = begin();
  expect(speeds.order([2, 3], 'chunk')).toEqual([2, 3]);
  expect(speeds.order([2, 3], 'chunk')).toEqual([3, 2]);
  learn({ 2: 20, 3: 5 });
  expect(speeds.order([2, 3], 'chunk')).toEqual([3, 2]);
});

test('the faster one is first, and of two that are about as fast the first of the class', () => {
  const { speeds, learn } = begin();
  learn({ 2: 30, 3: 10 });
  expect(speeds.order([2, 3], 'chunk')).toEqual([3, 2]);
  learn({ 4: 10.5 });
  expect(speeds.order([4, 3], 'chunk')).toEqual([4, 3]);
  expect(speeds.order([3, 4], 'chunk')).toEqual([3, 4]);
});

test('sizes are told apart', () => {
  const { speeds, learn } = begin();
  learn({ 2: 30, 3: 10 });
  speeds.answered(2, 'small', 1);
  speeds.answered(3, 'small', 9);
  expect(speeds.order([2, 3], 'small')).toEqual([2, 3]);
  expect(speeds.order([2, 3], 'chunk')).toEqual([3, 2]);
});

test('one that became fast again is found out, by one read a minute', () => {
  const { speeds, pass, learn } = begin();
  learn({ 2: 500, 3: 10 });
  pass(50_000);
  learn({ 3: 10 });
  pass(20_000);
  expect(speeds.order([3, 2], 'chunk')).toEqual([2, 3]);
  expect(speeds.order([3, 2], 'chunk')).toEqual([3, 2]);
  learn({ 2: 1 });
  expect(speeds.order([3, 2], 'chunk')).toEqual([2, 3]);
});

test('one that has failed comes last for a while, whatever it took before', () => {
  const { speeds, pass, learn } = begin();
  learn({ 2: 1, 3: 50 });
  speeds.failed(2);
  expect(speeds.order([2, 3], 'chunk')).toEqual([3, 2]);
  pass(6000);
  expect(speeds.order([2, 3], 'chunk')).toEqual([2, 3]);
  speeds.failed(2);
  speeds.failed(3);
  expect(speeds.order([2, 3], 'chunk')).toEqual([2, 3]);
});

test('a second request comes after what answers take, and for few reads', () => {
  const { speeds, learn } = begin();
  expect(speeds.patienceMs(2, 'chunk')).toBe(1000);
  learn({ 2: 100 });
  expect(speeds.patienceMs(2, 'chunk')).toBe(300);
  for (let i = 0; i < 100; i++) learn({ 2: 100 });
  expect(speeds.patienceMs(2, 'chunk')).toBeLessThan(101);
  let second = 0;
  for (let i = 0; i < 1000; i++) {
    speeds.order([2, 3], 'chunk');
    if (speeds.takeSecond()) second++;
  }
  expect(second).toBeLessThanOrEqual(51);
  expect(second).toBeGreaterThan(40);
});
