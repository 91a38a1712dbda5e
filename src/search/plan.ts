// How the index is asked for a query: which runs of its postings lead to all that may fit. Whoever
// reads the objects then evaluates the whole query, so a run may lead to more, and never to less.
// Pure.
import { textSuccessor } from '../core/text-order.ts';
import { beginningOf } from './facts.ts';
import type { Comparison, FieldName, Query } from './query.ts';

/** Which values a field is indexed by: as texts, numbers or times. */
export type ValueKind = 'text' | 'number' | 'time';

/** Postings of one field whose values lie between two, both of them included. */
export interface Run {
  field: FieldName;
  kind: ValueKind;
  /** null: no bound. */
  low: string | number | null;
  high: string | number | null;
}

/** All that may fit are in one of the runs of `any`, and in all runs of `all`. */
export interface Plan {
  any: readonly Run[];
  all: readonly Run[];
}

/** Keys of objects. `below` is not one of them. */
export interface KeySpan {
  from: string;
  below: string | null;
}

/** Characters of a value in the index: longer ones are found by their beginning. */
const indexedLengthMax = 128;

export function indexed<V extends string | number>(value: V): V {
  if (typeof value === 'number' || value.length <= indexedLengthMax) return value;
  return Array.from(value).slice(0, indexedLengthMax).join('') as V;
}

/** What is known of the index. */
export interface IndexTerms {
  /** Whether its postings have all objects that say something in this field. */
  isIndexed: (field: FieldName) => boolean;
  /** Counts the postings of a run, up to a bound beyond `sortedMax`. */
  count: (run: Run) => number;
}

/** Fewer postings than that, of all runs together, are worth to be sorted for each page. */
export const sortedMax = 50_000;

/**
 * The plan that leads to the least. null: the index does not lead to it, or to so much that all
 * objects are as well looked at.
 */
export function planOf(query: Query, terms: IndexTerms): Plan | null {
  return cheapest(query, terms)?.plan ?? null;
}

interface Costed {
  plan: Plan;
  cost: number;
}

function cheapest(query: Query, terms: IndexTerms): Costed | null {
  switch (query.is) {
    case 'not':
      return null;
    case 'or': {
      const parts = query.parts.map((part) => cheapest(part, terms));
      if (parts.some((part) => part === null)) return null;
      return union(parts as Costed[], terms);
    }
    case 'and':
      return cheapestOf(query.parts, terms);
    default:
      return ofComparison(query, terms);
  }
}

/** null: what it would sort for each page is too much. */
function union(parts: readonly Costed[], { count }: IndexTerms): Costed | null {
  const runs = parts.flatMap(({ plan }) =>
    plan.any.map((run) => [JSON.stringify(run), run] as const),
  );
  const any = [...new Map(runs).values()];
  const sorted = any.filter((run) => !isOneValue(run));
  if (sumOf(sorted.map(count)) > sortedMax) return null;
  return { plan: { any, all: [] }, cost: sumOf(any.map(count)) };
}

function sumOf(counts: readonly number[]): number {
  return counts.reduce((sum, count) => sum + count, 0);
}

function cheapestOf(parts: readonly Query[], terms: IndexTerms): Costed | null {
  let best: Costed | null = null;
  for (const part of parts) {
    const found = cheapest(part, terms);
    if (found && (!best || found.cost < best.cost)) best = found;
  }
  if (!best) return null;
  const driven = best.plan.any;
  const all = parts.flatMap((part) => {
    const run = 'field' in part ? runOf(part) : null;
    if (!run || !terms.isIndexed(run.field)) return [];
    return isOneValue(run) && !driven.some((one) => isSame(one, run)) ? [run] : [];
  });
  return { plan: { any: driven, all }, cost: best.cost };
}

function ofComparison(comparison: Comparison, terms: IndexTerms): Costed | null {
  const run = runOf(comparison);
  if (!run || !terms.isIndexed(run.field)) return null;
  const cost = terms.count(run);
  // Those of one value are in the order of keys.
  if (!isOneValue(run) && cost > sortedMax) return null;
  return { plan: { any: [run], all: [] }, cost };
}

export function isOneValue({ low, high }: Run): boolean {
  return low !== null && low === high;
}

function isSame(one: Run, other: Run): boolean {
  return one.field === other.field && one.kind === other.kind && one.low === other.low;
}

/** null: no postings lead to it. */
function runOf(comparison: Comparison): Run | null {
  const { field } = comparison;
  // Keys are in the catalog's own order.
  if (field === 'key') return null;
  if (comparison.is === 'exists') return { field, kind: kindOf(field), low: null, high: null };
  if (comparison.is === 'like') {
    const beginning = indexed(beginningOf(comparison.pattern));
    if (beginning === '') return null;
    return { field, kind: 'text', low: beginning, high: textSuccessor(beginning) };
  }
  const { is, than } = comparison;
  const { kind } = than;
  const value = indexed(than.value);
  switch (is) {
    case '=':
      return { field, kind, low: value, high: value };
    case '<':
    case '<=':
      return { field, kind, low: null, high: value };
    case '>':
    case '>=':
      return { field, kind, low: value, high: null };
    default:
      return null;
  }
}

function kindOf(field: FieldName): ValueKind {
  if (field === 'size') return 'number';
  return field === 'modified' ? 'time' : 'text';
}

/** All runs that a plan may have. */
export function runsOf(query: Query): Run[] {
  if (query.is === 'and' || query.is === 'or') return query.parts.flatMap(runsOf);
  // Nothing leads to what does not fit.
  if (query.is === 'not') return [];
  const run = runOf(query);
  return run ? [run] : [];
}

/** The keys that a query leaves. */
export function spanOf(query: Query): KeySpan {
  const all: KeySpan = { from: '', below: null };
  if (query.is === 'and') return query.parts.map(spanOf).reduce(narrow, all);
  if (query.is === 'like' && query.field === 'key') {
    const from = beginningOf(query.pattern);
    return { from, below: from === '' ? null : textSuccessor(from) };
  }
  if (!('than' in query) || query.field !== 'key') return all;
  const { is, than } = query;
  const value = String(than.value);
  // The next text of all is the one with the least character behind it.
  if (is === '=') return { from: value, below: `${value}\0` };
  if (is === '>' || is === '>=') return { from: value, below: null };
  if (is === '<=') return { from: '', below: `${value}\0` };
  return is === '<' ? { from: '', below: value } : all;
}

/** The keys of both. */
export function narrow(one: KeySpan, other: KeySpan): KeySpan {
  const from = isBefore(one.from, other.from) ? other.from : one.from;
  if (one.below === null || other.below === null) return { from, below: one.below ?? other.below };
  return { from, below: isBefore(one.below, other.below) ? one.below : other.below };
}

function isBefore(one: string, other: string): boolean {
  return Buffer.compare(Buffer.from(one), Buffer.from(other)) < 0;
}
