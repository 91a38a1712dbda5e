// What a journal refuses, as all threads see it: a word of memory that they share.
import { Refusal } from '../../core/errors.ts';

export const refusesNothing = 0;
export const refusesUnsafe = 1;
export const refusesAll = 2;

/** Throws what `Journal.admit` throws, by the word of a journal that another thread has. */
export function admitByWord(refusals: Int32Array, { mustBeSafe }: { mustBeSafe: boolean }): void {
  const refused = Atomics.load(refusals, 0);
  if (refused === refusesAll || (mustBeSafe && refused === refusesUnsafe)) throw unsafe(null);
}

/** Nobody is answered for it. */
export function unsafe(cause: unknown): Refusal {
  const message = 'The store of this bucket cannot make the change safe.';
  return new Refusal('ServiceUnavailable', { message, cause });
}
