// What a study's year costs where durability, availability and speed are bought together, and what
// it costs where each byte has what it needs: the classes of Table 3 of Palankar et al., "Amazon S3
// for Science Grids: a Viable Solution?" (2008), section VI.A. Each leg of a class is a copy in a
// storage class that a provider sells. Invariant: all that is not computed from a price book is an
// assumption that is told.
import type { Picodollars } from '../../core/money.ts';
import type { PriceBook } from '../prices/price-book.ts';
import { emptyPart, type Workload } from './workload.ts';
import { costOfYear, priceWorkload } from './workload-cost.ts';

export interface UnbundledRow {
  /** As Table 3 calls the use. */
  readonly what: string;
  /** The storage class of each copy; the first is the one that is read. */
  readonly legs: readonly string[];
  /** Of one copy. */
  readonly bytes: number;
  /** All three a year. */
  readonly storage: Picodollars;
  readonly retrieval: Picodollars;
  readonly total: Picodollars;
}

export interface Unbundled {
  readonly book: string;
  readonly bundled: UnbundledRow;
  readonly classes: readonly UnbundledRow[];
  /** A year, of all classes together. */
  readonly total: Picodollars;
  /** A year, in both cases, where what is read is sent out of the provider. */
  readonly egress: Picodollars;
  readonly assumptions: readonly string[];
}

/** Of files: how many of a hundred are used for about so many days, from the first to the last. */
const lifetimes = [
  { percent: 30, days: 0.5 },
  { percent: 10, days: 4 },
  { percent: 10, days: 18.5 },
  { percent: 15, days: 91 },
  { percent: 35, days: 281 },
] as const;
/** How long a file of these 27 months is there on the average, who came evenly and all stay. */
const keptDays = 410;
const inUse =
  lifetimes.reduce((sum, { percent, days }) => sum + percent * days, 0) / (100 * keptDays);

const bundledClass = 'STANDARD';
const archiveLeg = 'DEEP_ARCHIVE';
const diskLeg = 'ONEZONE_IA';

/**
 * DZero's year, bundled and unbundled, by a book that has STANDARD, ONEZONE_IA and DEEP_ARCHIVE.
 * `rawPercent`: how much of the data is raw, 0 to 100. Throws when the book lacks one of them.
 */
export function unbundle(
  { months, parts }: Workload,
  book: PriceBook,
  { rawPercent }: { rawPercent: number },
): Unbundled {
  const bytes = parts.reduce((sum, { storedBytes }) => sum + storedBytes, 0);
  const readBytes = parts.reduce((sum, part) => sum + part.readBytes, 0);
  const egressBytes = parts.reduce((sum, part) => sum + part.egressBytes, 0);
  const row = (
    what: string,
    { legs, share, read = 0 }: { legs: readonly string[]; share: number; read?: number },
  ): UnbundledRow => {
    const of = Math.round(bytes * share);
    const copies = legs.map((leg, i) => ({
      ...emptyPart(leg),
      storedBytes: of,
      readBytes: i === 0 ? read : 0,
    }));
    const cost = priceWorkload(book, { name: what, months, parts: copies });
    const [storage, retrieval] = [cost.storage, cost.retrieval].map((one) =>
      costOfYear(one, months),
    ) as [Picodollars, Picodollars];
    return { what, legs, bytes: of, storage, retrieval, total: storage + retrieval };
  };
  const raw = rawPercent / 100;
  const classes = [
    row('long-term archival: raw data', { legs: [archiveLeg, archiveLeg], share: raw }),
    row('online production: data in use', {
      ...{ legs: [diskLeg, diskLeg], share: inUse, read: readBytes },
    }),
    row('batch production: derived data not in use', {
      ...{ legs: [diskLeg], share: (1 - raw) * (1 - inUse) },
    }),
  ];
  const sent = [{ ...emptyPart(bundledClass), egressBytes }];
  return {
    book: book.name,
    bundled: row('all of it in one class', { legs: [bundledClass], share: 1, read: readBytes }),
    classes,
    total: classes.reduce((sum, { total }) => sum + total, 0n),
    egress: costOfYear(priceWorkload(book, { name: 'sent', months, parts: sent }).egress, months),
    assumptions: assumptionsOf(rawPercent),
  };
}

function assumptionsOf(rawPercent: number): string[] {
  const percent = (inUse * 100).toFixed(1);
  return [
    `Raw data are ${rawPercent}% of all bytes (--raw); the study does not say how much they are.`,
    'Raw data are in two archives, in failure domains of their own, whether they are in use or ' +
      'not; what is derived of them can be made again, and is in none.',
    'Of the files 30% are used for less than a day, 40% for less than a week, 50% for less than ' +
      'a month and 35% for more than five months, as the study counted; bytes are taken to be ' +
      'as files are.',
    `Within these bounds the middle is taken, and 281 days beyond five months: so ${percent}% of ` +
      `what is there is in use. Files come evenly over 27 months and stay, ${keptDays} days on ` +
      'the average.',
    'All that is read is in use then, and is read from the first of its two copies.',
    'Derived data that are not in use have one copy, which may be away for a week a month.',
    'An archive leg costs what DEEP_ARCHIVE does, a disk what ONEZONE_IA does, with its charge ' +
      'for what is read. Nothing for requests, and nothing for what is moved between classes or ' +
      'made again.',
  ];
}
