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

/** What one object says, each thing read when it is first asked for. */
export class Facts {
  readonly #version: Described;
  #attributes: Attributes | null = null;
  #named: ReadonlyMap<FieldName, string> | null = null;

  constructor(version: Described) {
    this.#version = version;
  }

  get attributes(): Attributes {
    this.#attributes ??= JSON.parse(this.#version.attributes) as Attributes;
    return this.#attributes;
  }

  /** Tags and metadata, by the names of fields. They may be read as numbers or dates. */
  get named(): ReadonlyMap<FieldName, string> {
    this.#named ??= namedOf(this.attributes);
    return this.#named;
  }

  /**
   * undefined: it says nothing of it. Numbers are of bytes, and of milliseconds since the epoch.
   */
  valueOf(field: FieldName): string | number | undefined {
    const version = this.#version;
    switch (field) {
      case 'key':
        return version.key;
      case 'size':
        return version.sizeBytes;
      case 'modified':
        return this.attributes.renamedMs ?? version.createdMs;
      case 'class':
        return version.class;
      case 'owner':
        return version.owner;
      case 'etag':
        return version.etag;
      case 'type':
        return this.attributes.headers['content-type'];
      case 'sha256':
        return version.sha256 ? Buffer.from(version.sha256).toString('hex') : undefined;
      case 'checksum':
        return this.attributes.checksum?.value;
      default:
        return namedValue(this.attributes, field);
    }
  }
}

/** The same as `Facts.named` has, of one name. */
function namedValue({ tags = [], metadata }: Attributes, field: FieldName): string | undefined {
  const isTag = field.startsWith('tag.');
  const name = field.slice(isTag ? 'tag.'.length : 'meta.'.length);
  if (isTag) return tags.findLast(([one]) => one === name)?.[1];
  let value: string | undefined;
  for (const one in metadata) if (one.toLowerCase() === name) value = metadata[one];
  return value;
}

function namedOf({ tags = [], metadata }: Attributes): ReadonlyMap<FieldName, string> {
  const named = new Map<FieldName, string>();
  for (const [name, value] of tags) named.set(`tag.${name}`, value);
  for (const name in metadata) named.set(`meta.${name.toLowerCase()}`, metadata[name] as string);
  return named;
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
function compares(comparison: Comparison, facts: Facts): boolean {
  const own = facts.valueOf(comparison.field);
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
