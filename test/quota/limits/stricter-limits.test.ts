// Of two sets of limits that may both hold the lower amounts do.
import { expect, it } from 'vitest';
import { stricterLimits } from '#bursar/quota/limits/stricter-limits.js';

it('has each amount that either has, and of those that both have the lower', () => {
  const one = { spend: { month: '12.5', day: '3' }, requests: { day: 5 }, rate: { requests: 9 } };
  const other = { spend: { month: '9.75' }, storedBytes: { total: 7 }, rate: { bytes: 8 } };
  const both = {
    spend: { month: '9.75', day: '3' },
    storedBytes: { total: 7 },
    requests: { day: 5 },
    rate: { requests: 9, bytes: 8 },
  };
  expect(stricterLimits(one, other)).toEqual(both);
  expect(stricterLimits(other, one)).toEqual(both);
});

it('compares money as money, and not as text', () => {
  const month = (amount: string) => ({ spend: { month: amount } });
  expect(stricterLimits(month('9'), month('10'))).toEqual(month('9'));
  expect(stricterLimits(month('0.000000000002'), month('0.000000000001'))).toEqual(
    month('0.000000000001'),
  );
});
