// Which folders of the local store were made since the gateway began, by any of its threads: who
// puts a file into one must know whether the entry of that folder itself is durable. Invariant: a
// folder is counted as begun before it can be seen, and as ended when it is there. So an fsync of
// the folder above that began when all that had begun had ended has made all of them durable, and
// they still are all there is as long as no other has begun.

/** Folders of the first level: two hexadecimal digits. */
const firstFolders = 256;

export class MadeFolders {
  readonly #begun: Int32Array;
  readonly #ended: Int32Array;

  /** In memory that `sharedMemory` makes, or its own. */
  constructor(memory: ArrayBufferLike = new ArrayBuffer(memoryBytes)) {
    this.#begun = new Int32Array(memory, 0, firstFolders);
    this.#ended = new Int32Array(memory, memoryBytes / 2, firstFolders);
  }

  static sharedMemory(): SharedArrayBuffer {
    return new SharedArrayBuffer(memoryBytes);
  }

  /** Runs `make`, which makes folders in this one of the first level, and it if need be. */
  count(first: number, make: () => void): void {
    Atomics.add(this.#begun, first, 1);
    try {
      make();
    } finally {
      Atomics.add(this.#ended, first, 1);
    }
  }

  /** How many have begun to be made: a folder that can be seen is among them. */
  begun(first: number): number {
    return Atomics.load(this.#begun, first);
  }

  /** The same, if all of them have ended; null: one is being made. */
  settled(first: number): number | null {
    const ended = Atomics.load(this.#ended, first);
    return Atomics.load(this.#begun, first) === ended ? ended : null;
  }
}

const memoryBytes = 2 * firstFolders * Int32Array.BYTES_PER_ELEMENT;
