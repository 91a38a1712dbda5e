// The times that users give commands.
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { day, time, timeMs, timeOrIndex, timeOrSnapshot } from '#bursar/cli/times.js';

beforeEach(() => {
  vi.useFakeTimers({ now: Date.parse('2026-11-23T16:30:00Z') });
});

afterEach(() => {
  vi.useRealTimers();
});

test.each([
  ['2026-11-23', '2026-11-23T00:00:00.000Z'],
  ['2026-11', '2026-11-01T00:00:00.000Z'],
  ['2024-02-29', '2024-02-29T00:00:00.000Z'],
  ['2026-11-23T16:30Z', '2026-11-23T16:30:00.000Z'],
  ['2026-11-23T16:30:00.25+01:00', '2026-11-23T15:30:00.250Z'],
  ['2h', '2026-11-23T14:30:00.000Z'],
  ['2h ago', '2026-11-23T14:30:00.000Z'],
  ['30s', '2026-11-23T16:29:30.000Z'],
  ['30m', '2026-11-23T16:00:00.000Z'],
  ['7d ago', '2026-11-16T16:30:00.000Z'],
])('%s is %s', (written, meant) => {
  expect(time(written)).toBe(meant);
  expect(timeMs(written)).toBe(Date.parse(meant));
});

test.each([
  ...['yesterday', '', '2026', '2026-13', '2026-02-30', '23.11.2026', '1700000000', '2 h', '2w'],
  ...['2026-02-30T00:00:00Z', '2026-11-23T25:00:00Z', '2026-11-23 16:30:00Z'],
])('%j is no time, and all forms are shown', (written) => {
  expect(() => time(written)).toThrow(
    /^Must be a day \(2026-11-23\), a month .* zone \(2026-11-23T16:30:00Z\) or .*2h/,
  );
});

test('a time without its zone is no time', () => {
  for (const read of [time, timeOrSnapshot]) {
    expect(() => read('2026-11-23T16:30:00')).toThrow('such as Z for UTC: 2026-11-23T16:30:00Z');
  }
});

test('days are those of UTC', () => {
  expect(['2026-11-21', '2026-11', '7d'].map(day)).toEqual([
    ...['2026-11-21', '2026-11-01', '2026-11-16'],
  ]);
  expect(() => day('2026-11-21T00:00:00Z')).toThrow('Must be a day');
});

test('a snapshot may be called after a day, and not after how long ago', () => {
  for (const name of ['before-cleanup', '20261123t163000z', '2026-11-23', '2026-11']) {
    expect(timeOrSnapshot(name)).toBe(name);
  }
  expect(timeOrSnapshot('2h')).toBe('2026-11-23T14:30:00.000Z');
  expect(timeOrSnapshot('2026-11-23T16:30:00+01:00')).toBe('2026-11-23T15:30:00.000Z');
  expect(() => timeOrSnapshot('Before Cleanup')).toThrow("Must be a snapshot's name");
});

test('a number is the index of a record where there is one', () => {
  expect([timeOrIndex('2026'), timeOrIndex('2026-11')]).toEqual([
    ...['2026', '2026-11-01T00:00:00.000Z'],
  ]);
  expect(() => timeOrIndex('first')).toThrow('Must be a day');
});
