// DZero's year in one class and in four, against sums done by hand.
import { expect, it } from 'vitest';
import { formatUsd } from '#bursar/core/money.js';
import { paperExamples } from '#bursar/quota/cost/paper-examples.js';
import { unbundle } from '#bursar/quota/cost/unbundled.js';
import { readPriceBooks } from '#bursar/quota/prices/price-books.js';

const { workload } = paperExamples.get('dzero') as never as { workload: never };
const book = readPriceBooks().named('aws-us-east-1-2026') as never;
const GB = 2 ** 30;
const GBs = 375 * 1024;
/** 0.3 × 0.5 + 0.1 × 4 + 0.1 × 18.5 + 0.15 × 91 + 0.35 × 281 days of 410. */
const inUse = 114.4 / 410;

it('costs what its tariffs say, in one class', () => {
  const { bundled } = unbundle(workload, book, { rawPercent: 50 });
  // 51,200 GB at $0.023 and the others at $0.022, twelve times.
  const storage = 12 * (51_200 * 0.023 + (GBs - 51_200) * 0.022);
  expect(Number(formatUsd(bundled.storage))).toBeCloseTo(storage, 6);
  expect([bundled.retrieval, bundled.total]).toEqual([0n, bundled.storage]);
});

it('costs each copy of each class, and what is read of one of them', () => {
  const { classes, total, egress } = unbundle(workload, book, { rawPercent: 40 });
  const [archive, online, batch] = classes.map((one) => Number(formatUsd(one.storage)));
  expect(archive).toBeCloseTo(12 * 2 * 0.4 * GBs * 0.00099, 4);
  expect(online).toBeCloseTo(12 * 2 * inUse * GBs * 0.01, 4);
  expect(batch).toBeCloseTo(12 * 0.6 * (1 - inUse) * GBs * 0.01, 4);
  const readGb = (5.2 * 1024 * 1024 * 12) / 27;
  expect(classes.map((one) => Number(formatUsd(one.retrieval)).toFixed(2))).toEqual([
    ...['0.00', (readGb * 0.01).toFixed(2), '0.00'],
  ]);
  expect(total).toBe(classes.reduce((sum, one) => sum + one.storage + one.retrieval, 0n));
  expect(egress).toBeGreaterThan(0n);
  const [, { bytes }] = classes as never as [unknown, { bytes: number }];
  expect(bytes / GB).toBeCloseTo(inUse * GBs, 3);
});

it('has no derived data that are cold where all is raw, and no archive where nothing is', () => {
  const sharesOf = (rawPercent: number) =>
    unbundle(workload, book, { rawPercent }).classes.map(({ bytes }) => bytes);
  expect(sharesOf(100)[2]).toBe(0);
  expect(sharesOf(0)[0]).toBe(0);
});
