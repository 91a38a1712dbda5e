// How long versions wait that could not be moved.
import { expect, it } from 'vitest';
import { MoveFailures } from '#bursar/ledger/move-failures.js';

const minuteMs = 60_000;

it('has a version wait twice as long after each failure, for a day at most', () => {
  const failures = new MoveFailures();
  expect(failures.waitsUntil(1, 0)).toBeNull();
  const waits = Array.from({ length: 13 }, () => failures.note(1, 0) / minuteMs);
  expect(waits).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440]);
  expect(failures.waitsUntil(1, minuteMs)).toBe(1440 * minuteMs);
  expect(failures.waitsUntil(1, 1440 * minuteMs)).toBeNull();
  failures.forget(1);
  expect(failures.note(1, 0)).toBe(minuteMs);
});

it('remembers a bounded number, and forgets what does not come again', () => {
  const failures = new MoveFailures();
  for (let seq = 0; seq < 10_001; seq++) failures.note(seq, 0);
  expect(failures.waitsUntil(9999, 0)).toBe(minuteMs);
  expect(failures.waitsUntil(10_000, 0)).toBeNull();
  const laterMs = 2 * 1440 * minuteMs;
  expect(failures.note(10_000, laterMs)).toBe(laterMs + minuteMs);
});
