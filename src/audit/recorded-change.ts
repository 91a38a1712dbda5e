// What a record says of a change: bounded, so that no request makes a record of more than a few
// kilobytes. Invariant: what is too long is named by its digest, so the record still fixes it.
import { hash } from 'node:crypto';
import { canonicalize } from '../core/canonical-json.ts';
import { Pace } from '../core/pace.ts';

/** Longer than nearly all grants and policies. */
const recordedBytesMax = 4096;

/** The members that a record's `change` has. Whoever calls it leaves out what is secret. */
export function recordedChange(members: object): object {
  const value = plain(members);
  return bounded(value, canonicalize(value));
}

/** The same for a change that may be a megabyte. Others have their turns meanwhile. */
export async function recordedLargeChange(members: object): Promise<object> {
  const pace = new Pace();
  await pace.rest();
  const value = plain(members);
  await pace.rest();
  const text = canonicalize(value);
  await pace.rest();
  return bounded(value, text);
}

function bounded(value: unknown, text: string): object {
  const bytes = Buffer.byteLength(text);
  return bytes <= recordedBytesMax
    ? (value as object)
    : { bytes, sha256: hash('sha256', text, 'hex') };
}

/**
 * The same in what every reader of JSON understands alike: text is Unicode, and numbers that others
 * may round are text. Each half of a surrogate pair is U+FFFD.
 */
function plain(value: unknown): unknown {
  if (typeof value === 'string') return value.toWellFormed();
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : String(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(plain);
  const entries = Object.entries(value).filter(([, one]) => one !== undefined);
  return Object.fromEntries(entries.map(([name, one]) => [name.toWellFormed(), plain(one)]));
}
