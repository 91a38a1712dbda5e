// The time that records and windows go by follows the system's clock, and no step of it; and how
// times are written.
import { describe, expect, it } from 'vitest';
import { isoTime, stepMsMax } from '#bursar/core/clock.js';
import { SteadyClock } from '#bursar/core/steady-clock.js';

const startMs = 1_790_000_000_000;
const hourMs = 3_600_000;

/** A machine whose clocks the test sets. */
function machine({ hasBootClock = true } = {}) {
  const clocks = { wall: startMs, monotonic: 5000, boot: 9000 };
  const clock = new SteadyClock({
    wallMs: () => clocks.wall,
    monotonicMs: () => clocks.monotonic,
    bootMs: () => (hasBootClock ? clocks.boot : null),
  });
  const pass = (ms: number, { wall = ms, monotonic = ms, boot = ms } = {}) => {
    clocks.wall += wall;
    clocks.monotonic += monotonic;
    clocks.boot += boot;
    return clock.nowMs() - startMs;
  };
  return { clock, clocks, pass };
}

describe('the steady clock', () => {
  it.each([hourMs * 24 * 365, stepMsMax + 1000, -stepMsMax - 1000, -hourMs])(
    'does not follow a step of %d ms, and goes on, until the clock is back',
    (step) => {
      const { clock, clocks, pass } = machine();
      expect(pass(60_000)).toBe(60_000);
      clocks.wall += step;
      expect(pass(1000)).toBe(61_000);
      expect(clock.stepMs).toBe(step);
      expect(pass(hourMs)).toBe(61_000 + hourMs);
      clocks.wall -= step;
      expect(pass(1000)).toBe(62_000 + hourMs);
      expect(clock.stepMs).toBe(0);
    },
  );

  it('follows a step that was confirmed, and no second one', () => {
    const { clock, clocks, pass } = machine();
    clocks.wall += hourMs;
    expect(pass(1000)).toBe(1000);
    expect(clock.confirm()).toBe(hourMs);
    expect(clock.stepMs).toBe(0);
    expect(pass(1000)).toBe(hourMs + 2000);
    clocks.wall += hourMs;
    expect(pass(1000)).toBe(hourMs + 3000);
    expect(clock.stepMs).toBe(hourMs);
  });

  it('follows corrections within the bound', () => {
    const { clock, pass } = machine();
    expect(pass(1000, { wall: 1000 + stepMsMax })).toBe(1000 + stepMsMax);
    expect(pass(1000, { wall: -2000 })).toBe(stepMsMax - 1000);
    expect(clock.stepMs).toBe(0);
  });

  it('follows what a machine was suspended for, where that is counted', () => {
    const { clock, pass } = machine();
    expect(pass(8 * hourMs, { monotonic: 0 })).toBe(8 * hourMs);
    expect(clock.stepMs).toBe(0);
    // A step on top of it is none the less a step.
    pass(hourMs, { monotonic: 0, wall: 100 * hourMs });
    expect(clock.stepMs).toBe(100 * hourMs);
  });

  it('asks where that is not counted, as in a virtual machine that was paused', () => {
    const { clock, pass } = machine({ hasBootClock: false });
    pass(8 * hourMs, { monotonic: 0 });
    expect(clock.stepMs).toBe(8 * hourMs);
    const paused = machine();
    paused.pass(8 * hourMs, { monotonic: 0, boot: 0 });
    expect(paused.clock.stepMs).toBe(8 * hourMs);
    paused.clock.confirm();
    expect(paused.pass(1000)).toBe(8 * hourMs + 1000);
  });
});

it('times are written as ECMAScript has them, whichever was written before', () => {
  const edges = [0, -1, -0.5, 59_999, 59_999.9, 60_000, -60_000, 8.64e15, -8.64e15];
  const turns = [253_402_300_799_999, 253_402_300_800_000, startMs, startMs + 1, startMs];
  const random = Array.from({ length: 1000 }, (_, i) => startMs + ((i * 7919) % 997) * 333.3);
  for (const ms of [...edges, ...turns, ...random]) {
    expect([ms, isoTime(ms)]).toEqual([ms, new Date(ms).toISOString()]);
  }
  for (const ms of [Number.NaN, Number.POSITIVE_INFINITY]) {
    expect(() => isoTime(ms)).toThrow(RangeError);
  }
});
