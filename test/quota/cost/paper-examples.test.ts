// The studies' figures, rebuilt: what multiplies out does so exactly, and the rest differs by what
// is said.
import { describe, expect, it } from 'vitest';
import { formatUsd } from '#bursar/core/money.js';
import { comparePaper, paperExamples } from '#bursar/quota/cost/paper-examples.js';
import { costOfYear, priceWorkload } from '#bursar/quota/cost/workload-cost.js';
import type { PriceBook } from '#bursar/quota/prices/price-book.js';
import { PriceBooks, readPriceBooks } from '#bursar/quota/prices/price-books.js';

const books = readPriceBooks();

function compared(name: string) {
  const example = paperExamples.get(name);
  if (!example) throw new Error(`no example ${name}`);
  return comparePaper(example, books).map((figure) => ({
    what: figure.what,
    ours: formatUsd(figure.ours, 2),
    paper: formatUsd(figure.paper, 2),
    difference: formatUsd(figure.difference, 2),
    bit: figure.picocentsPerBitYear,
    assumptions: figure.assumptions.length,
  }));
}

describe('DZero', () => {
  it('costs $691,200 a year for storage, as in the paper', () => {
    expect(compared('dzero')[0]).toMatchObject({
      what: 'storage',
      ours: '691200.00',
      paper: '691200.00',
      difference: '0.00',
    });
  });

  it('costs $916.43 a year more for transfer than in the paper', () => {
    // 201,948 GB a month: 10,240 at $0.18, 40,960 at $0.16 and 150,748 at $0.13 are $27,994.
    expect(compared('dzero')[1]).toMatchObject({
      what: 'transfer',
      ours: '335928.43',
      paper: '335012.00',
      difference: '916.43',
    });
  });

  it('differs by no more than the rounding of 5.2 PB', () => {
    const { workload } = paperExamples.get('dzero')!;
    const yearOf = (petabytes: number) => {
      const egressBytes = Math.round(petabytes * 2 ** 50);
      const parts = workload.parts.map((part) => ({ ...part, egressBytes }));
      const cost = priceWorkload(books.named('s3-2007') as PriceBook, { ...workload, parts });
      return Number(costOfYear(cost.egress, workload.months) / 10n ** 12n);
    };
    expect(yearOf(5.15)).toBeLessThan(335_012);
    expect(yearOf(5.25)).toBeGreaterThan(335_012);
    expect(yearOf(5.185)).toBe(335_019);
  });
});

describe('EBS', () => {
  it('costs $1,066.56 a year, $1.44 less than in the paper, which rounds each month', () => {
    // The paper's month is $50 and $39; 388.8 million requests at $0.10 a million are $38.88.
    expect(compared('ebs')).toEqual([
      {
        what: 'storage and I/O',
        ours: '1066.56',
        paper: '1068.00',
        difference: '-1.44',
        bit: { ours: 24832.785, paper: 24866.312 },
        assumptions: 3,
      },
    ]);
  });
});

describe('an example', () => {
  it('needs its price book', () => {
    for (const example of paperExamples.values()) {
      expect(() => comparePaper(example, new PriceBooks([]))).toThrow(example.book);
    }
  });

  it('states assumptions for each figure', () => {
    for (const name of paperExamples.keys()) {
      for (const { assumptions } of compared(name)) expect(assumptions).toBeGreaterThan(1);
    }
  });
});
