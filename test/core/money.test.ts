// Money is read and shown to the picodollar, and never lost on the way.
import { describe, expect, it } from 'vitest';
import { divideUp, formatUsd, parseUsd, picodollarsMax } from '#bursar/core/money.js';
import { fuzz, randomBelow } from '../fuzz/seeded-random.ts';

describe('USD', () => {
  it.each([
    ['0', 0n],
    ['12.50', 12_500_000_000_000n],
    ['0.000000000001', 1n],
    ['0.023', 23_000_000_000n],
    ['9223372.036854775807', picodollarsMax],
    ['999999999.999999999999', 10n ** 21n - 1n],
  ])('%s is read exactly', (text, amount) => {
    expect(parseUsd(text)).toBe(amount);
  });

  it.each([
    ...[
      '',
      '.5',
      '5.',
      '-1',
      '+1',
      '01',
      '1e3',
      ' 1',
      '1 ',
      '1,000',
      '$1',
      '0x1',
      '1.0000000000001',
    ],
    ...['1000000000', '1\n', '１'],
  ])('%j is refused', (text) => {
    expect(parseUsd(text)).toBeUndefined();
  });

  it('is shown so that it is read again as it was', async () => {
    await fuzz(1, 500, (random) => {
      const amount = BigInt(randomBelow(random, 2 ** 40)) * BigInt(randomBelow(random, 2 ** 20));
      expect(parseUsd(formatUsd(amount))).toBe(amount);
    });
  });

  it.each([
    [0n, 2, '0.00'],
    [12_500_000_000_000n, 12, '12.50'],
    [1n, 12, '0.000000000001'],
    [-1_440_000_000_000n, 12, '-1.44'],
    [1_005_000_000_000n, 2, '1.01'],
    [1_004_999_999_999n, 2, '1.00'],
    [-1_005_000_000_000n, 2, '-1.01'],
    [999_999_999_999n, 6, '1.00'],
    [-1n, 6, '0.00'],
    [-picodollarsMax, 12, '-9223372.036854775807'],
  ])('%d picodollars to %d decimals are %s', (amount, decimals, text) => {
    expect(formatUsd(amount, decimals)).toBe(text);
  });
});

describe('a quotient', () => {
  it('is rounded up, against who pays', () => {
    expect([0n, 1n, 6n, 7n, 8n].map((one) => divideUp(one, 7n))).toEqual([0n, 1n, 1n, 1n, 2n]);
  });
});
