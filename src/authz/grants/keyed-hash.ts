// A hash that grows with its text, unit by unit, so that one pass over a key gives the hash of each
// of its prefixes; with a secret, so that nobody can write texts that collide on purpose.
// Invariant: two texts of at most n units collide with probability n / 2^26 over the secret, however
// they were chosen: the hash is the polynomial of the text at a secret point modulo a prime.
import { randomInt } from 'node:crypto';

const base = 2 ** 26;
const mask = base - 1;
/** 2^26 − 5 is prime, so 2^26 is 5 in its field. */
const fold = 5;

export class KeyedHash {
  readonly #point = randomInt(base >> 1, base - fold);
  /** The hash of no text. */
  readonly start = randomInt(1, base - fold);

  /** The hash of the text of `state` with one UTF-16 unit more. */
  step(state: number, unit: number): number {
    return reduce(state * this.#point + unit);
  }

  /** The hash of the text of `state` followed by `text`. */
  run(state: number, text: string): number {
    const point = this.#point;
    let hash = state;
    for (let i = 0; i < text.length; i++) hash = reduce(hash * point + text.charCodeAt(i));
    return hash;
  }
}

/** Below 2^26 + 25 and congruent, for any whole number below 2^53; not unique, but always the same. */
function reduce(value: number): number {
  const high = Math.floor(value / base);
  const sum = value - high * base + high * fold;
  return (sum & mask) + (sum >>> 26) * fold;
}
