// A workload, described by its totals, to be priced: what is kept, asked for and sent over some
// months. Invariant: one that was read has only amounts that can be priced exactly.
// Specification: docs/formats/price-book.md, "Workloads".
import { parsePlainJson, readCount, readList, readMembers, readText } from '../plain-json.ts';
import { classForm } from '../prices/price-book.ts';

export const workloadBytesMax = 64 * 1024;
const partsMax = 100;
const monthsMax = 1200;
const lifeDaysMax = 36_600;

export interface Workload {
  readonly name: string;
  /** All flows are totals over these months, spread evenly. */
  readonly months: number;
  readonly parts: readonly WorkloadPart[];
}

/** What is in one storage class. */
export interface WorkloadPart {
  readonly storageClass: string;
  /** Kept all the time, of this many objects of one size. */
  readonly storedBytes: number;
  readonly storedObjects: number;
  readonly putRequests: number;
  readonly getRequests: number;
  readonly ingressBytes: number;
  /** Read from the class: what costs retrieval. */
  readonly readBytes: number;
  /** Sent out: what costs egress. */
  readonly egressBytes: number;
  /** How long an object is kept until another takes its place; undefined: beyond any minimum. */
  readonly lifeDays?: number;
}

const amounts = [
  'storedBytes',
  'storedObjects',
  'putRequests',
  'getRequests',
  'ingressBytes',
  'readBytes',
  'egressBytes',
] as const;

/** A part of which there is nothing yet. */
export function emptyPart(storageClass: string): WorkloadPart {
  const nothing = Object.fromEntries(amounts.map((name) => [name, 0]));
  return { storageClass, ...(nothing as Record<(typeof amounts)[number], number>) };
}

/**
 * Reads a workload's text. Throws Error, which says where it is wrong and what would have fitted.
 */
export function parseWorkload(text: string): Workload {
  const value = readMembers(parsePlainJson(text, workloadBytesMax), 'workload', [
    ...['format', 'name', 'months', 'parts'],
  ]);
  readText(value.format, 'format', /^bursar-workload\/1$/);
  return {
    name: readText(value.name, 'name', /^[^\p{Cc}]{1,100}$/u),
    months: readCount(value.months, 'months', 1, monthsMax),
    parts: readList(value.parts, 'parts', partsMax).map((part, i) => readPart(part, `parts[${i}]`)),
  };
}

function readPart(value: unknown, at: string): WorkloadPart {
  const part = readMembers(value, at, ['class', ...amounts], ['lifeDays']);
  const read = Object.fromEntries(
    amounts.map((name) => [name, readCount(part[name], `${at}.${name}`, 0, 2 ** 53 - 1)]),
  ) as Record<(typeof amounts)[number], number>;
  return {
    storageClass: readText(part.class, `${at}.class`, classForm),
    ...read,
    ...(part.lifeDays !== undefined && {
      lifeDays: readCount(part.lifeDays, `${at}.lifeDays`, 1, lifeDaysMax),
    }),
  };
}
