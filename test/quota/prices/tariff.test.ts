// Tariffs against a model that prices unit by unit.
import { describe, expect, it } from 'vitest';
import {
  bytesPerGb,
  chargeAdded,
  chargeAtMost,
  makeTariff,
  priceTotal,
  type Tariff,
} from '#bursar/quota/prices/tariff.js';
import { fuzz, fuzzTimeoutMs, randomBelow } from '../../fuzz/seeded-random.ts';

type Random = () => number;

function randomTariff(random: Random): Tariff {
  let endGb = 0n;
  const price = () => BigInt(randomBelow(random, 4) * randomBelow(random, 50));
  const tiers = Array.from({ length: randomBelow(random, 4) }, () => {
    endGb += BigInt(1 + randomBelow(random, 5));
    return { upToGb: endGb, picodollarsPerGb: price() };
  });
  return makeTariff([...tiers, { upToGb: undefined, picodollarsPerGb: price() }]);
}

/** Each unit by itself, in the tier where it lies; the whole rounded up. */
function modelPrice(tariff: Tariff, total: number, unitsPerGb: number): bigint {
  let sum = 0;
  for (let unit = 0; unit < total; unit++) {
    const gb = Math.floor(unit / unitsPerGb);
    const tier = tariff.tiers.find(({ upToGb }) => upToGb === undefined || gb < Number(upToGb));
    sum += Number(tier?.picodollarsPerGb);
  }
  return BigInt(Math.ceil(sum / unitsPerGb));
}

describe('a tariff', () => {
  it('prices as its units one by one would be', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(100, 300, (random) => {
      const tariff = randomTariff(random);
      const unitsPerGb = 1 + randomBelow(random, 16);
      const total = randomBelow(random, 24 * unitsPerGb);
      expect(priceTotal(tariff, BigInt(total), BigInt(unitsPerGb))).toBe(
        modelPrice(tariff, total, unitsPerGb),
      );
    });
  });

  it('charges a month the same however it is cut', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(200, 300, (random) => {
      const tariff = randomTariff(random);
      const unitsPerGb = BigInt(1 + randomBelow(random, 1000));
      let [before, sum] = [0n, 0n];
      for (let i = randomBelow(random, 20); i > 0; i--) {
        const added = BigInt(randomBelow(random, 3000));
        const charge = chargeAdded(tariff, { before, added }, unitsPerGb);
        expect(charge).toBeGreaterThanOrEqual(0n);
        expect(charge).toBeLessThanOrEqual(chargeAtMost(tariff, added, unitsPerGb));
        before += added;
        sum += charge;
      }
      expect(sum).toBe(priceTotal(tariff, before, unitsPerGb));
    });
  });

  it('never charges less for more', { timeout: fuzzTimeoutMs }, async () => {
    await fuzz(300, 300, (random) => {
      const tariff = randomTariff(random);
      const before = BigInt(randomBelow(random, 100));
      const added = BigInt(randomBelow(random, 100));
      const less = chargeAdded(tariff, { before, added }, 10n);
      expect(chargeAdded(tariff, { before, added: added + 1n }, 10n)).toBeGreaterThanOrEqual(less);
    });
  });

  it('charges a free amount nothing, and its end to the byte', () => {
    const tariff = makeTariff([
      { upToGb: 1n, picodollarsPerGb: 0n },
      { upToGb: undefined, picodollarsPerGb: bytesPerGb },
    ]);
    expect(chargeAdded(tariff, { before: 0n, added: bytesPerGb }, bytesPerGb)).toBe(0n);
    expect(chargeAdded(tariff, { before: bytesPerGb - 1n, added: 3n }, bytesPerGb)).toBe(2n);
  });

  it('refuses amounts below nothing', () => {
    const tariff = makeTariff([{ upToGb: undefined, picodollarsPerGb: 5n }]);
    expect(() => chargeAdded(tariff, { before: -1n, added: 1n }, 1n)).toThrow(RangeError);
    expect(() => chargeAdded(tariff, { before: 0n, added: -1n }, 1n)).toThrow(RangeError);
    expect(() => chargeAtMost(tariff, -1n, 1n)).toThrow(RangeError);
  });
});
