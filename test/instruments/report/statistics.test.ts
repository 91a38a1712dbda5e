// The report's statistics, against values that were computed elsewhere: quantiles as NumPy's and
// Python's (statistics.quantiles, inclusive), correlations as Python's statistics.correlation.
import { describe, expect, it } from 'vitest';
import {
  Correlation,
  countInBins,
  meanError,
  quantileOf,
  shareInterval,
} from '#bursar/instruments/report/statistics.js';
import { Values } from '#bursar/instruments/report/values.js';
import { Dice } from './report-samples.ts';

describe('statistics', () => {
  it('quantiles are NumPy’s', () => {
    const sorted = [0.3, 1.5, 2.2, 4.4, 7.1, 8.8, 9.9];
    const shares = [0, 0.05, 0.25, 0.5, 0.95, 1];
    const known = [0.3, 0.66, 1.85, 4.4, 9.57, 9.9];
    for (const [index, share] of shares.entries()) {
      expect(quantileOf(sorted, share)).toBeCloseTo(known[index] as number, 12);
    }
    expect(quantileOf([3], 0.95)).toBe(3);
  });

  it('correlations are Pearson’s, with Fisher’s interval, also far from zero', () => {
    const ys = [2.1, 1.9, 3.7, 4.2, 4.8, 6.9, 6.1, 8.8, 8.7, 11];
    for (const offset of [0, 1e9]) {
      const correlation = new Correlation();
      for (const [index, y] of ys.entries()) correlation.add(offset + index, y);
      expect(correlation.r).toBeCloseTo(0.9750723111714475, 6);
      expect(correlation.interval?.low).toBeCloseTo(0.8947783028, 4);
      expect(correlation.interval?.high).toBeCloseTo(0.9942794584, 4);
    }
  });

  it('say nothing of correlations that there are not', () => {
    const flat = new Correlation();
    for (const x of [1, 2, 3, 4]) flat.add(x, 7);
    expect([flat.r, flat.interval]).toEqual([null, null]);
    const two = new Correlation();
    two.add(1, 2);
    two.add(2, 3);
    expect(two.r).toBeNull();
  });

  it('shares have Wilson’s interval, which none and all do not leave', () => {
    expect(shareInterval(8, 10).low).toBeCloseTo(0.49016247, 8);
    expect(shareInterval(8, 10).high).toBeCloseTo(0.94331785, 8);
    expect(shareInterval(0, 10)).toEqual({ low: 0, high: expect.closeTo(0.2775327998, 9) });
    expect(shareInterval(10, 10)).toEqual({ low: expect.closeTo(0.7224672001, 9), high: 1 });
    expect(shareInterval(0, 0)).toEqual({ low: 0, high: 1 });
  });

  it('the error of a mean is the deviation over the root of the number', () => {
    expect(meanError([0.3, 1.5, 2.2, 4.4, 7.1, 8.8, 9.9])).toBeCloseTo(1.4251864659, 9);
  });

  it('bins hold every value once, between the least and the greatest', () => {
    const dice = new Dice(7);
    const sorted = Array.from({ length: 5000 }, () => Math.exp(3 * dice.normal())).sort(
      (a, b) => a - b,
    );
    const bins = countInBins(sorted);
    expect(bins.length).toBeGreaterThan(5);
    expect(bins.reduce((sum, { count }) => sum + count, 0)).toBe(5000);
    expect(bins[0]?.from).toBeCloseTo(sorted[0] as number, 9);
    const inThird = sorted.filter(
      (value) => value >= (bins[2]?.from ?? 0) && value < (bins[2]?.to ?? 0),
    );
    expect(bins[2]?.count).toBe(inThird.length);
    expect(countInBins([4, 4, 4]).map(({ count }) => count)).toEqual([3]);
  });
});

describe('values', () => {
  it('are exact up to their bound', () => {
    const values = new Values(1000);
    for (let i = 1000; i > 0; i--) values.add(i);
    expect([values.count, values.mean, values.sorted.length]).toEqual([1000, 500.5, 1000]);
    expect(values.quantile(0.5)).toBe(500.5);
  });

  it('that stand for many count as so many', () => {
    const few = new Values(100);
    const many = new Values(1000);
    for (const [value, weight] of [
      ...[
        [9, 10],
        [1, 1],
        [4, 4],
        [2, 30],
        [7, 5],
      ],
    ] as [number, number][]) {
      few.add(value, weight);
      for (let i = 0; i < weight; i++) many.add(value);
    }
    expect(few.count).toBe(5);
    expect(few.mean).toBeCloseTo(many.mean, 12);
    for (const share of [0.01, 0.05, 0.3, 0.5, 0.65, 0.75, 0.95, 1]) {
      // The inverse of the distribution, without a value between two others.
      const known = many.sorted[Math.ceil(share * 50) - 1];
      expect(few.quantile(share)).toBe(known);
    }
    expect([0, 1, 4].map((index) => few.shareUpTo(index))).toEqual([0.02, 0.62, 1]);
  });

  it('beyond it keep a fair part, and exact sums, the same each time', () => {
    const fill = () => {
      const values = new Values(2000);
      for (let i = 0; i < 100_000; i++) values.add(i);
      return values;
    };
    const values = fill();
    expect([values.count, values.mean, values.sorted.length]).toEqual([100_000, 49_999.5, 2000]);
    // Five standard errors of a quantile of 2,000.
    expect(Math.abs(values.quantile(0.5) - 50_000)).toBeLessThan(5600);
    expect(Math.abs(values.quantile(0.95) - 95_000)).toBeLessThan(2500);
    expect(fill().sorted).toEqual(values.sorted);
  });
});
