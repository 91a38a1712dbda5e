// JSON that people write and money hangs on: price books and workloads. What is not understood is
// refused with the place and with what would have fitted, as a misspelt member may be a price.
// Invariant: a text has one reading. Members given twice, and numbers and escapes in another than
// the plain form, are refused. Specification: RFC 8259.

import { isObject } from '../core/json.ts';
import { type Picodollars, parseUsd, picodollarsMax } from '../core/money.ts';

export type Members = Readonly<Record<string, unknown>>;

const stringOrSpace = /("(?:[^"\\]|\\.)*")|[ \t\r\n]+/g;

/** The value of a JSON text of at most `bytesMax` bytes. Throws Error. */
export function parsePlainJson(text: string, bytesMax: number): unknown {
  if (Buffer.byteLength(text) > bytesMax) throw new Error(`must have at most ${bytesMax} bytes`);
  const value: unknown = JSON.parse(text);
  // A member that is given twice is once in the value, so it shows when the value is written again.
  if (text.replace(stringOrSpace, '$1') !== JSON.stringify(value)) {
    throw new Error('must give each member once, and numbers and text in their plain form');
  }
  return value;
}

/** The members of an object that has all `required` ones and no other but `optional` ones. */
export function readMembers(
  value: unknown,
  at: string,
  required: readonly string[],
  optional: readonly string[] = [],
): Members {
  const members = readObject(value, at);
  const missing = required.find((name) => !Object.hasOwn(members, name));
  if (missing !== undefined) throw new Error(`${at}: must have the member ${missing}`);
  const other = Object.keys(members).find((one) => ![...required, ...optional].includes(one));
  if (other !== undefined) throw new Error(`${at}: must not have the member ${quote(other)}`);
  return members;
}

/** The entries of an object whose names are free: 1 to `countMax`, each of the form. */
export function readEntries(
  value: unknown,
  at: string,
  form: RegExp,
  countMax: number,
): [string, unknown][] {
  const entries = Object.entries(readObject(value, at));
  if (entries.length < 1 || entries.length > countMax) {
    throw new Error(`${at}: must have 1 to ${countMax} members`);
  }
  for (const [name] of entries) readText(name, `${at}: the name ${quote(name)}`, form);
  return entries;
}

/** A list of 1 to `countMax` items. */
export function readList(value: unknown, at: string, countMax: number): readonly unknown[] {
  if (Array.isArray(value) && value.length >= 1 && value.length <= countMax) return value;
  throw new Error(`${at}: must be a list of 1 to ${countMax}`);
}

/** A whole number from `min` to `max`. */
export function readCount(value: unknown, at: string, min: number, max: number): number {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) {
    return value as number;
  }
  throw new Error(`${at}: must be a whole number from ${min} to ${max}`);
}

/** A text of the form. */
export function readText(value: unknown, at: string, form: RegExp): string {
  if (typeof value === 'string' && form.test(value)) return value;
  throw new Error(`${at}: must be a text that fits ${form.source}`);
}

/** Decimal USD in a text, with at most `decimalsMax` decimals. */
export function readUsd(value: unknown, at: string, decimalsMax = 12): Picodollars {
  const amount = typeof value === 'string' ? parseUsd(value) : undefined;
  const decimals = typeof value === 'string' ? (value.split('.')[1]?.length ?? 0) : 0;
  const isPrice = amount !== undefined && amount <= picodollarsMax;
  if (isPrice && decimals <= decimalsMax) return amount;
  throw new Error(`${at}: must be USD as a text such as "0.023", to ${decimalsMax} decimals`);
}

function readObject(value: unknown, at: string): Members {
  if (isObject(value)) return value;
  throw new Error(`${at}: must be an object`);
}

/** A name from the document, shortened to one line. */
function quote(name: string): string {
  return JSON.stringify(name.slice(0, 40));
}
