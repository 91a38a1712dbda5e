// What the studies computed, computed again: each figure with what had to be assumed, ours beside
// the paper's. Sources: Palankar et al., "Amazon S3 for Science Grids: a Viable Solution?", V.A;
// Nadgowda and Sion, "Cloud Performance Benchmark Series: EBS, S3, EC2 local storage", 3.3.
import { type Picodollars, picodollarsPerUsd } from '../../core/money.ts';
import type { PriceBooks } from '../prices/price-books.ts';
import type { Workload } from './workload.ts';
import {
  costOfYear,
  picocentsPerBitYear,
  priceWorkload,
  type WorkloadCost,
} from './workload-cost.ts';

export interface PaperExample {
  readonly title: string;
  readonly source: string;
  readonly book: string;
  readonly workload: Workload;
  readonly figures: readonly PaperFigure[];
}

interface PaperFigure {
  readonly what: string;
  /** USD a year, as printed. */
  readonly paperUsd: bigint;
  readonly meters: readonly (keyof WorkloadCost)[];
  readonly assumptions: readonly string[];
}

export interface ComparedFigure {
  readonly what: string;
  /** All three a year. */
  readonly ours: Picodollars;
  readonly paper: Picodollars;
  /** Ours less the paper's. */
  readonly difference: Picodollars;
  readonly picocentsPerBitYear: { ours: number | undefined; paper: number | undefined };
  readonly assumptions: readonly string[];
}

const GB = 2 ** 30;
const TB = 2 ** 40;

const dzero: PaperExample = {
  title: 'DZero, all of it on S3',
  source: 'Palankar et al., Amazon S3 for Science Grids: a Viable Solution?, section V.A',
  book: 's3-2007',
  workload: {
    name: 'DZero, January 2003 to March 2005',
    months: 27,
    parts: [
      {
        storageClass: 'STANDARD',
        storedBytes: 375 * TB,
        storedObjects: 0,
        putRequests: 0,
        getRequests: 0,
        ingressBytes: 0,
        readBytes: Math.round(5.2 * 1024 * TB),
        egressBytes: Math.round(5.2 * 1024 * TB),
      },
    ],
  },
  figures: [
    {
      what: 'storage',
      paperUsd: 691_200n,
      meters: ['storage'],
      assumptions: [
        'All 375 TB are kept all year, as if they had been there from the first day.',
        'A TB is 1,024 GB: 384,000 GB at $0.15 for 12 months.',
      ],
    },
    {
      what: 'transfer',
      paperUsd: 335_012n,
      meters: ['egress'],
      assumptions: [
        'All 5.2 PB processed are sent out of S3, once each time they are read, with no cache.',
        'They are spread evenly over 27 months; a year is 12 of them.',
        'A PB is 1,024 TB of 1,024 GB. Tiers begin again each month: $0.18 for 10 TB, $0.16 ' +
          'for 40.',
        'Nothing for bringing the 375 TB in, and nothing for requests.',
        'The difference is within the rounding of "5.2 PB": 5.185 PB would cost $335,019.',
      ],
    },
  ],
};

const ebs: PaperExample = {
  title: 'An EBS volume of 500 GB at 150 I/O requests a second',
  source:
    'Nadgowda and Sion, Cloud Performance Benchmark Series: EBS, S3, EC2 local storage, ' +
    'section 3.3',
  book: 'ebs-2010',
  workload: {
    name: 'EBS, 500 GB, 150 IO/s',
    months: 12,
    parts: [
      {
        storageClass: 'EBS',
        storedBytes: 500 * GB,
        storedObjects: 1,
        putRequests: 0,
        getRequests: 150 * 30 * 24 * 3600 * 12,
        ingressBytes: 0,
        readBytes: 0,
        egressBytes: 0,
      },
    ],
  },
  figures: [
    {
      what: 'storage and I/O',
      paperUsd: 1_068n,
      meters: ['storage', 'gets'],
      assumptions: [
        'A year is 12 months of 30 days: 388.8 million I/O requests a month.',
        'A GB is 2^30 bytes, also in picocents per bit and year.',
        'The paper has a month at whole dollars: $50 for storage and $39, not $38.88, for I/O.',
      ],
    },
  ],
};

/** By the name that they have on the command line. */
export const paperExamples: ReadonlyMap<string, PaperExample> = new Map([
  ['dzero', dzero],
  ['ebs', ebs],
]);

/** Computes an example's figures. Throws when its book is not among the books. */
export function comparePaper(example: PaperExample, books: PriceBooks): ComparedFigure[] {
  const book = books.named(example.book);
  if (!book) throw new Error(`there is no price book ${example.book}`);
  const { workload } = example;
  const cost = priceWorkload(book, workload);
  const storedBytes = workload.parts.reduce((sum, part) => sum + BigInt(part.storedBytes), 0n);
  return example.figures.map(({ what, paperUsd, meters, assumptions }) => {
    const sum = meters.reduce((total, meter) => total + cost[meter], 0n);
    const ours = costOfYear(sum, workload.months);
    const paper = paperUsd * picodollarsPerUsd;
    const perBitYear = (amount: Picodollars) => picocentsPerBitYear(amount, storedBytes);
    return {
      what,
      ours,
      paper,
      difference: ours - paper,
      picocentsPerBitYear: { ours: perBitYear(ours), paper: perBitYear(paper) },
      assumptions,
    };
  });
}
