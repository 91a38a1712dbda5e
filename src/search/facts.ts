// What is said of an object, as queries compare it. Pure.
import type { Attributes, Version } from '../catalog/versions.ts';
import { compareText } from '../core/text-order.ts';
import {
  type Comparison,
  type FieldName,
  type Literal,
  numberOf,
  type Order,
  type Query,
  timeOf,
} from './query.ts';

/** What of a version is read. */
export type Described = Pick<
  Version,
  'key' | 'sizeBytes' | 'etag' | 'sha256' | 'class' | 'owner' | 'createdMs' | 'attributes'
>;

/** What one object says. */
export interface Facts {
  /** Numbers: of bytes, and of milliseconds since the epoch. */
  fields: ReadonlyMap<FieldName, string | number>;
  /** By the names of fields. They may be read as numbers or dates. */
  named: ReadonlyMap<FieldName, string>;
}

export function factsOf(version: Described): Facts {
  const {
    headers,
    metadata,
    checksum,
    tags = [],
    renamedMs,
  } = JSON.parse(version.attributes) as Attributes;
  const fields = new Map<FieldName, string | number>([
    ['key', version.key],
    ['size', version.sizeBytes],
    ['modified', renamedMs ?? version.createdMs],
    ['class', version.class],
    ['owner', version.owner],
    ['etag', version.etag],
  ]);
  const type = headers['content-type'];
  if (type !== undefined) fields.set('type', type);
  if (version.sha256) fields.set('sha256', Buffer.from(version.sha256).toString('hex'));
  if (checksum) fields.set('checksum', checksum.value);
  const named = new Map<FieldName, string>();
  for (const [name, value] of tags) named.set(`tag.${name}`, value);
  for (const name in metadata) named.set(`meta.${name.toLowerCase()}`, metadata[name] as string);
  return { fields, named };
}

/** Does an object fit a query? */
export function fits(query: Query, facts: Facts): boolean {
  switch (query.is) {
    case 'and':
      return query.parts.every((part) => fits(part, facts));
    case 'or':
      return query.parts.some((part) => fits(part, facts));
    case 'not':
      return !fits(query.part, facts);
    default:
      return compares(query, facts);
  }
}

/** What is not said fits no comparison, not even `!=`. */
function compares(comparison: Comparison, { fields, named }: Facts): boolean {
  const { field } = comparison;
  const own = fields.get(field) ?? named.get(field);
  if (own === undefined) return false;
  if (comparison.is === 'exists') return true;
  if (comparison.is === 'like') return isLike(String(own), comparison.pattern);
  const { is, than } = comparison;
  const value = typeof own === 'number' ? own : valueAs(than.kind, own);
  // What is no number is none that differs.
  if (value === null) return false;
  return holds(is, orderOf(value, than.value));
}

/** A text as what it is compared with; null: it cannot be read so. */
export function valueAs(kind: Literal['kind'], text: string): string | number | null {
  if (kind === 'text') return text;
  return kind === 'number' ? numberOf(text) : timeOf(text);
}

function orderOf(value: string | number, than: string | number): number {
  if (typeof value === 'number') return value - Number(than);
  return compareText(value, String(than));
}

function holds(is: Order, order: number): boolean {
  switch (is) {
    case '=':
      return order === 0;
    case '!=':
      return order !== 0;
    case '<':
      return order < 0;
    case '<=':
      return order <= 0;
    case '>':
      return order > 0;
    case '>=':
      return order >= 0;
  }
}

/**
 * `*` stands for any characters, `?` for one. Takes at most the product of both lengths, whatever
 * the pattern.
 */
export function isLike(value: string, wildcards: string): boolean {
  const [text, pattern] = [Array.from(value), Array.from(wildcards)];
  let [at, next] = [0, 0];
  let [star, mark] = [-1, 0];
  while (at < text.length) {
    const wanted = pattern[next];
    if (wanted === '*') {
      [star, mark] = [next, at];
      next += 1;
    } else if (wanted !== undefined && (wanted === '?' || wanted === text[at])) {
      at += 1;
      next += 1;
    } else if (star >= 0) {
      // The star takes one more.
      mark += 1;
      [at, next] = [mark, star + 1];
    } else return false;
  }
  while (pattern[next] === '*') next += 1;
  return next === pattern.length;
}

/** What all texts begin with that are like a pattern. */
export function beginningOf(pattern: string): string {
  return pattern.slice(0, pattern.search(/[*?]|$/));
}

/** Does a query ask for tags? */
export function asksForTags(query: Query): boolean {
  if (query.is === 'and' || query.is === 'or') return query.parts.some(asksForTags);
  return query.is === 'not' ? asksForTags(query.part) : query.field.startsWith('tag.');
}
