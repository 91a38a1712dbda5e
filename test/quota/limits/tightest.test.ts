// The limits of two links with one id.
import { describe, expect, it } from 'vitest';
import { type Limits, meters, readLimits, windowsOf } from '#bursar/core/quota-terms.js';
import { limitSetOf, parseLimitSet, tightest } from '#bursar/quota/limits/limit-set.js';

describe('the tightest of two', () => {
  it('has of all that either limits the less', () => {
    const one: Limits = {
      requests: { day: 5, hour: 9 },
      spend: { month: '10' },
      rate: { bytes: 7 },
    };
    const other: Limits = {
      ...{ requests: { day: 6, hour: 2, total: 1 }, spend: { month: '9.999999999999' } },
      ...{ egressBytes: { total: 0 }, rate: { bytes: 8, requests: 1 } },
    };
    const all = {
      requests: { day: 5, hour: 2, total: 1 },
      spend: { month: '9.999999999999' },
      rate: { bytes: 7, requests: 1 },
      egressBytes: { total: 0 },
    };
    expect(tightest(one, other)).toEqual(all);
    expect(tightest(other, one)).toEqual(all);
    expect(one).toEqual({
      requests: { day: 5, hour: 9 },
      spend: { month: '10' },
      rate: { bytes: 7 },
    });
  });

  it('is the first itself where the other adds nothing, as text that differs adds nothing', () => {
    const one: Limits = { spend: { month: '10' }, requests: { total: 5 } };
    for (const other of [one, { spend: { month: '10.00' } }, { requests: { total: 6 } }]) {
      expect(tightest(one, other)).toBe(one);
    }
  });

  it('is so of amounts that are more than 64 bits hold', () => {
    const one: Limits = { spend: { month: '999999999' } };
    const other: Limits = { spend: { month: '999999998' } };
    expect(tightest(one, other)).toEqual(other);
    expect(limitSetOf(one).caps[0]?.amount).toBe(999_999_999n * 10n ** 12n);
  });
});

it('the longest limits that can be said can be stored and read again', () => {
  const most = (meter: string) =>
    meter === 'spend' ? '999999999.123456789012' : Number.MAX_SAFE_INTEGER;
  const limits = {
    ...Object.fromEntries(
      meters.map((meter) => [
        meter,
        Object.fromEntries(windowsOf(meter).map((window) => [window, most(meter)])),
      ]),
    ),
    rate: { requests: Number.MAX_SAFE_INTEGER, bytes: Number.MAX_SAFE_INTEGER },
  };
  expect(readLimits(limits)).toBe(limits);
  expect(parseLimitSet(JSON.stringify(limits))?.limits).toEqual(limits);
});

it('compares money as money, and not as text', () => {
  const month = (amount: string) => ({ spend: { month: amount } });
  expect(tightest(month('9'), month('10'))).toEqual(month('9'));
  expect(tightest(month('0.000000000002'), month('0.000000000001'))).toEqual(
    month('0.000000000001'),
  );
});
