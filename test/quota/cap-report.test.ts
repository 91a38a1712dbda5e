// What is reported of caps: by window, to the last unit.
import { expect, it } from 'vitest';
import { amountText, reportCaps } from '#bursar/quota/cap-report.js';
import {
  beginWindows,
  grantLease,
  newAccountState,
  writeOffLease,
} from '#bursar/quota/leases/account-state.js';
import { limitSetOf } from '#bursar/quota/limits/limit-set.js';

const noon = Date.parse('2026-11-21T12:00:00Z');
const hour = 3_600_000;

function stateWith() {
  const state = newAccountState();
  state.limits = limitSetOf({
    spend: { month: '10.00', hour: '2' },
    requests: { day: 5 },
    storedBytes: { total: 100 },
  });
  beginWindows(state, noon);
  return state;
}

it('of each cap says what is used, lost, reserved and left, which together are the limit', () => {
  const state = stateWith();
  state.used.spend = 3_000_000_000_001n;
  state.used.requests = 2n;
  state.used.storedBytes = 60n;
  grantLease(state, 'dead', { requests: 1, storedBytes: 5 }, {});
  writeOffLease(state, 'dead');
  grantLease(state, 'living', { spend: 7, requests: 1, storedBytes: 30 }, {});
  const reports = reportCaps(state, noon + 1);
  const day = '2026-11-22T00:00:00.000Z';
  expect(reports).toEqual([
    {
      ...{ meter: 'spend', window: 'hour', limit: '2.00', used: '3.000000000001', lost: '0.00' },
      ...{ reserved: '0.000000000007', left: '0.00', exceeded: true },
      resetAt: '2026-11-21T13:00:00.000Z',
    },
    {
      ...{ meter: 'spend', window: 'month', limit: '10.00', used: '3.000000000001', lost: '0.00' },
      ...{ reserved: '0.000000000007', left: '6.999999999992', exceeded: false },
      resetAt: '2026-12-01T00:00:00.000Z',
    },
    {
      ...{ meter: 'storedBytes', window: 'total', limit: '100', used: '60', lost: '0' },
      ...{ reserved: '30', left: '10', exceeded: false, resetAt: null },
    },
    {
      ...{ meter: 'requests', window: 'day', limit: '5', used: '2', lost: '1' },
      ...{ reserved: '1', left: '1', exceeded: false, resetAt: day },
    },
  ]);
});

it('counts anew in windows that began since the account was written', () => {
  const state = stateWith();
  state.used.spend = 1_500_000_000_000n;
  state.used.requests = 5n;
  const used = (timeMs: number) => reportCaps(state, timeMs).map((report) => report.used);
  expect(used(noon + 1)).toEqual(['1.50', '1.50', '0', '5']);
  expect(used(noon + hour)).toEqual(['0.00', '1.50', '0', '5']);
  expect(used(noon + 24 * hour)).toEqual(['0.00', '1.50', '0', '0']);
  expect(used(Date.parse('2026-12-01T00:00:00Z'))).toEqual(['0.00', '0.00', '0', '0']);
});

it('is exact where numbers are not', () => {
  expect(amountText('egressBytes', 2n ** 63n - 1n)).toBe('9223372036854775807');
  expect(amountText('spend', 2n ** 63n - 1n)).toBe('9223372.036854775807');
});
