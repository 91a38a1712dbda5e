// Canonical JSON: RFC 8785 (JCS). JSON.stringify writes strings and numbers as it demands; what is
// left is the order of members, by UTF-16 code units. What is read has, besides, whole numbers and
// Unicode text alone, so that readers in any language give a value the same text. Pure.
import { decodeUtf8 } from './utf8.ts';

/**
 * Writes any value that JSON can hold. Throws a RangeError where it is nested so deeply that it
 * cannot be honest.
 */
export function canonicalize(value: unknown, depthMax = 64): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (depthMax === 0) throw new RangeError('the value is nested too deeply');
  if (Array.isArray(value)) {
    return `[${value.map((one) => canonicalize(one, depthMax - 1)).join(',')}]`;
  }
  let members = '';
  for (const name of Object.keys(value).sort()) {
    const one: unknown = value[name as keyof typeof value];
    if (one === undefined) continue;
    if (members !== '') members += ',';
    members += `${JSON.stringify(name)}:${canonicalize(one, depthMax - 1)}`;
  }
  return `{${members}}`;
}

/**
 * What canonical JSON says; undefined: it is none, of which there is exactly one for each value, or
 * it has a number that is not whole or not below 2^53, half of a surrogate pair, or more than 64
 * levels.
 */
export function parseCanonical(bytes: Uint8Array): unknown {
  const text = decodeUtf8(bytes);
  if (text === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(text);
    return canonicalize(value) === text && isPortable(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Returns whether each number is a safe integer, and each text is Unicode. */
function isPortable(value: unknown): boolean {
  if (typeof value === 'number') return Number.isSafeInteger(value);
  return isUnicode(value, isPortable);
}

/**
 * Returns whether no text in the JSON value, member names included, has half of a surrogate pair.
 */
export function isUnicode(value: unknown, isSound: (one: unknown) => boolean = isUnicode): boolean {
  if (typeof value === 'string') return !/\p{Cs}/u.test(value);
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every((one) => isSound(one));
  return Object.entries(value).every(([name, one]) => isUnicode(name) && isSound(one));
}
