// A hash that grows with its text, so that one pass over a path gives the hash of each path around
// it; with a secret, so that nobody can choose texts that collide. Invariant: two texts of at most
// `lengthMax` units collide with probability 2^-32 over the secret, however they were chosen; what
// a text has beyond that length does not count.
//
// It is two times the upper half of Σ r[i]·(unit[i] + 1) modulo 2^32, with secret random words r:
// multilinear hashing, of which each is strongly universal (Lemire and Kaser 2014, "Strongly
// universal string hashing is fast").
import { randomFillSync } from 'node:crypto';

export class PathHash {
  readonly #first: Int32Array;
  readonly #second: Int32Array;
  readonly #lengthMax: number;
  #a = 0;
  #b = 0;
  #length = 0;

  constructor(lengthMax: number) {
    this.#lengthMax = lengthMax;
    this.#first = randomFillSync(new Int32Array(lengthMax));
    this.#second = randomFillSync(new Int32Array(lengthMax));
  }

  /** Begins a text anew. */
  restart(): void {
    this.#a = 0;
    this.#b = 0;
    this.#length = 0;
  }

  /** Adds the units of `text` from `start` up to `end` to what was added before. */
  add(text: string, start = 0, end = text.length): void {
    const [first, second] = [this.#first, this.#second];
    let [a, b, at] = [this.#a, this.#b, this.#length];
    const stop = Math.min(end, start + this.#lengthMax - at);
    for (let i = start; i < stop; i++, at++) {
      const unit = text.charCodeAt(i) + 1;
      a = (a + Math.imul(first[at] as number, unit)) | 0;
      b = (b + Math.imul(second[at] as number, unit)) | 0;
    }
    this.#a = a;
    this.#b = b;
    this.#length = at;
  }

  /** The hash of what was added: a signed word of 32 bits, which is what V8 holds best. */
  get value(): number {
    return (this.#a & 0xffff0000) | (this.#b >>> 16);
  }

  /** The hash of a whole text. */
  of(text: string): number {
    this.restart();
    this.add(text);
    return this.value;
  }
}
