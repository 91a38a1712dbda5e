// A number that several threads change without asking each other: 64 bits of memory that they share
// (or, where one thread has it for itself, of its own). Invariant: each change is atomic, and what
// is taken is never more than there is.

const cellBytes = BigInt64Array.BYTES_PER_ELEMENT;

export class SharedCount {
  readonly #cell: BigInt64Array;

  /** In memory of so many bytes as `sharedMemory` makes, or its own. */
  constructor(memory: ArrayBufferLike = new ArrayBuffer(cellBytes)) {
    this.#cell = new BigInt64Array(memory);
  }

  static sharedMemory(): SharedArrayBuffer {
    return new SharedArrayBuffer(cellBytes);
  }

  get value(): number {
    return Number(Atomics.load(this.#cell, 0));
  }

  add(amount: number): void {
    Atomics.add(this.#cell, 0, BigInt(amount));
  }

  /** Takes so much, or what there is of it; returns what it took. */
  take(amount: number): number {
    const wanted = BigInt(amount);
    for (let has = Atomics.load(this.#cell, 0); ; ) {
      const taken = has < wanted ? has : wanted;
      const found = Atomics.compareExchange(this.#cell, 0, has, has - taken);
      if (found === has) return Number(taken);
      has = found;
    }
  }
}
