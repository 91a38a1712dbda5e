// Forecasts: when limits are reached at a rate, by hand.
import { describe, expect, it } from 'vitest';
import type { Limits } from '#bursar/core/quota-terms.js';
import { emptySums } from '#bursar/quota/amounts.js';
import { lookAhead, type Week, weekBeginMs } from '#bursar/quota/forecast.js';
import { beginWindows, newAccountState } from '#bursar/quota/leases/account-state.js';
import { limitSetOf } from '#bursar/quota/limits/limit-set.js';

const time = (text: string) => Date.parse(text);
const noWeek: Week = { firstMs: null, amounts: emptySums() };

/** An account that uses `steps`, each at its time, and is looked at `at`. */
function account(
  limits: Limits,
  steps: [string, Partial<ReturnType<typeof emptySums>>][],
  at: string,
) {
  const state = newAccountState();
  state.limits = limitSetOf(limits);
  for (const [text, used] of steps) {
    beginWindows(state, time(text));
    for (const [meter, amount] of Object.entries(used)) {
      state.used[meter as 'spend'] += amount;
    }
  }
  beginWindows(state, time(at));
  return state;
}

function outlook(
  limits: Limits,
  steps: [string, Partial<ReturnType<typeof emptySums>>][],
  { at, week = noWeek, isCounting = false }: { at: string; week?: Week; isCounting?: boolean },
) {
  const state = account(limits, steps, at);
  const [cap] = state.limits?.caps ?? [];
  if (!cap) throw new Error('there is no limit');
  const { percent, forecasts } = lookAhead(state, cap, { week, isCounting }, time(at));
  return {
    percent,
    forecasts: forecasts.map(({ basis, perDay, reachedMs }) => [
      basis,
      perDay,
      reachedMs === null ? null : new Date(reachedMs).toISOString(),
    ]),
  };
}

describe('a limit of a month', () => {
  const limits: Limits = { requests: { month: 3000 } };

  it('goes by the month so far, and by today', () => {
    // 1000 in 10 days and 12 hours, of which 500 today, in 12 hours.
    const found = outlook(
      limits,
      [
        ['2026-11-02T10:00:00Z', { requests: 500n }],
        ['2026-11-11T08:00:00Z', { requests: 500n }],
      ],
      { at: '2026-11-11T12:00:00Z' },
    );
    expect(found).toEqual({
      percent: 33,
      forecasts: [
        // 2000 more take 21 days: beyond the month's end.
        ['window', 95n, null],
        ['day', 1000n, '2026-11-13T12:00:00.000Z'],
      ],
    });
  });

  it('does not go by a day that has hardly begun', () => {
    const step = [['2026-11-11T00:00:30Z', { requests: 500n }]] as [string, object][];
    const { forecasts } = outlook(limits, step, { at: '2026-11-11T00:04:00Z' });
    expect(forecasts.map(([basis]) => basis)).toEqual(['window']);
  });

  it('that is used up is reached now, and so is one that was lowered below what is used', () => {
    for (const month of [400, 500, 0]) {
      const step = [['2026-11-11T08:00:00Z', { requests: 500n }]] as [string, object][];
      const { percent, forecasts } = outlook({ requests: { month } }, step, {
        at: '2026-11-11T12:00:00Z',
      });
      expect(percent).toBeGreaterThanOrEqual(100);
      expect(forecasts.map(([, , reached]) => reached)).toEqual(
        Array(2).fill('2026-11-11T12:00:00.000Z'),
      );
    }
  });

  it('of which nothing is used is never reached', () => {
    const { percent, forecasts } = outlook(limits, [], { at: '2026-11-11T12:00:00Z' });
    expect(percent).toBe(0);
    expect(forecasts).toEqual([
      ['window', 0n, null],
      ['day', 0n, null],
    ]);
  });

  it('of money is exact where floats are not', () => {
    const spend = 6_172_839_456_172n;
    const { forecasts } = outlook(
      { spend: { month: '12.345678912344' } },
      [['2026-11-01T06:00:00Z', { spend }]],
      { at: '2026-11-02T00:00:00Z' },
    );
    expect(forecasts[0]).toEqual(['window', spend, '2026-11-03T00:00:00.000Z']);
  });
});

describe('a limit without a window', () => {
  const week = (first: string, amounts: object): Week => ({
    firstMs: time(first),
    amounts: { ...emptySums(), ...amounts },
  });

  it('of what is stored goes by how it grew in the last seven days', () => {
    // 600 bytes in six days and a half are 92 a day; 400 more take 4 and a third.
    const found = outlook(
      { storedBytes: { total: 2000 } },
      [['2026-10-01T00:00:00Z', { storedBytes: 1600n }]],
      {
        at: '2026-11-11T12:00:00Z',
        week: week('2026-11-05T00:00:00Z', { storedBytes: 600n }),
      },
    );
    expect(found).toEqual({
      percent: 80,
      forecasts: [['week', 92n, '2026-11-15T20:00:00.000Z']],
    });
  });

  it('of what is stored is not reached by what shrinks', () => {
    const { forecasts } = outlook(
      { storedBytes: { total: 2000 } },
      [['2026-10-01T00:00:00Z', { storedBytes: 1600n }]],
      { at: '2026-11-11T12:00:00Z', week: week('2026-11-05T00:00:00Z', { storedBytes: -5n }) },
    );
    expect(forecasts).toEqual([['week', 0n, null]]);
  });

  it('of a flow goes by the week and by today, which a new account began in', () => {
    const found = outlook(
      { egressBytes: { total: 1000 } },
      [['2026-11-11T06:00:00Z', { egressBytes: 500n }]],
      {
        at: '2026-11-11T12:00:00Z',
        week: week('2026-11-11T00:00:00Z', { egressBytes: 500n }),
      },
    );
    expect(found).toEqual({
      percent: 50,
      forecasts: [
        ['week', 1000n, '2026-11-12T00:00:00.000Z'],
        ['day', 1000n, '2026-11-12T00:00:00.000Z'],
      ],
    });
  });

  it('that would be reached in more than a hundred years is not', () => {
    const reached = (total: number) =>
      outlook({ egressBytes: { total } }, [['2026-11-11T06:00:00Z', { egressBytes: 1n }]], {
        at: '2026-11-11T12:00:00Z',
        week: week('2026-11-11T00:00:00Z', { egressBytes: 1n }),
      }).forecasts.map(([, , at]) => at);
    expect(reached(Number.MAX_SAFE_INTEGER)).toEqual([null, null]);
    // Two a day: a year has 730.
    expect(reached(100 * 731)).toEqual([null, null]);
    expect(reached(100 * 730)).toEqual(Array(2).fill(expect.stringMatching(/^2126-10-/)));
  });

  it('is not foretold of what is stored while that is being counted', () => {
    const steps = [['2026-11-11T06:00:00Z', { storedBytes: 500n }]] as [string, object][];
    const at = { at: '2026-11-11T12:00:00Z', isCounting: true };
    const grown = { ...at, week: week('2026-11-11T00:00:00Z', { storedBytes: 500n }) };
    expect(outlook({ storedBytes: { total: 1000 } }, steps, grown)).toEqual({
      ...{ percent: 50, forecasts: [] },
    });
    expect(outlook({ requests: { total: 1000 } }, steps, grown).forecasts).not.toEqual([]);
  });
});

describe('limits of shorter windows', () => {
  it('go by the window alone, a day also by the hour', () => {
    const bases = (limits: Limits) =>
      outlook(limits, [['2026-11-11T11:00:30Z', { requests: 5n }]], {
        at: '2026-11-11T11:30:30Z',
      }).forecasts.map(([basis]) => basis);
    expect(bases({ requests: { minute: 10 } })).toEqual(['window']);
    expect(bases({ requests: { hour: 10 } })).toEqual(['window']);
    expect(bases({ requests: { day: 10 } })).toEqual(['window', 'hour']);
  });

  it('begin anew with nothing used', () => {
    const step = [['2026-11-11T11:00:30Z', { requests: 5n }]] as [string, object][];
    const found = outlook({ requests: { hour: 10 } }, step, { at: '2026-11-11T12:30:00Z' });
    expect(found).toEqual({ percent: 0, forecasts: [['window', 0n, null]] });
  });
});

describe('a week', () => {
  it('has today and the six days before', () => {
    expect(weekBeginMs(time('2026-03-03T23:59:59.999Z'))).toBe(time('2026-02-25T00:00:00Z'));
  });
});
