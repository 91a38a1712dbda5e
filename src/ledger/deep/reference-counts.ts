// How much more often extents are named than they are counted, in little memory: sums over all
// extents that share a place by a secret hash. Invariant: a place that sums up to nothing has no
// extent that is counted too seldom, unless another of the same place is counted too often by as
// much; and nobody who writes to the database knows which share one.
import { randomBytes } from 'node:crypto';

const bits = 20;
/** Of an extent's id, in words of 16 bits. */
const idWords = 8;

export class ReferenceCounts {
  readonly #sums = new Float64Array(2 ** bits);
  readonly #factors = new Uint32Array(idWords + 1);

  constructor() {
    const random = randomBytes(this.#factors.byteLength);
    this.#factors.set(
      new Uint32Array(random.buffer.slice(random.byteOffset, random.byteOffset + random.length)),
    );
  }

  /** `count`: less than 0 of what is taken away. */
  add(id: Uint8Array, count: number): void {
    const place = this.#placeOf(id);
    this.#sums[place] = (this.#sums[place] ?? 0) + count;
  }

  /** Is one of those at its place named more often than it is counted? */
  isBelow(id: Uint8Array): boolean {
    return (this.#sums[this.#placeOf(id)] ?? 0) > 0;
  }

  get hasBelow(): boolean {
    return this.#sums.some((sum) => sum > 0);
  }

  /** Multiply-shift hashing of vectors (Dietzfelbinger 1996): two ids rarely share a place. */
  #placeOf(id: Uint8Array): number {
    let sum = this.#factors[idWords] as number;
    for (let i = 0; i < idWords; i++) {
      const word = ((id[2 * i] ?? 0) << 8) | (id[2 * i + 1] ?? 0);
      sum = (sum + Math.imul(this.#factors[i] as number, word)) | 0;
    }
    return sum >>> (32 - bits);
  }
}
