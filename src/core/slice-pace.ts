// How much background work one transaction does, where others wait for it to end: less where a
// slice took long, for whatever reason, and more where it did not.
import { setTimeout as sleep } from 'node:timers/promises';

export interface SlicePaceOptions {
  /** Rows of the first slice, and the most. */
  first: number;
  most: number;
  /** Milliseconds: a slice that took longer is halved, one that took less than half may grow. */
  longMs: number;
}

export class SlicePace {
  readonly #options: SlicePaceOptions;
  #rows: number;

  constructor(options: SlicePaceOptions) {
    this.#options = options;
    this.#rows = options.first;
  }

  /** Of the next slice; 1 or more. */
  get rows(): number {
    return this.#rows;
  }

  note(tookMs: number): void {
    const { most, longMs } = this.#options;
    if (tookMs > longMs) this.#rows = Math.max(1, this.#rows >> 1);
    else if (tookMs < longMs / 2) this.#rows = Math.min(most, this.#rows + 1);
  }
}

/** Leaves as much time to others as a slice took, up to a second. */
export async function restAfter(tookMs: number): Promise<void> {
  await sleep(Math.min(tookMs, 1000));
}

const restBytes = 4 * 1024 * 1024;

/** Rests as long as it has read, each few megabytes: nobody waits for what is read here. */
export class ByteRest {
  #bytes = 0;
  #sinceMs = performance.now();

  /** null: not yet. */
  after(bytes: number): Promise<void> | null {
    this.#bytes += bytes;
    if (this.#bytes < restBytes) return null;
    this.#bytes = 0;
    const tookMs = performance.now() - this.#sinceMs;
    return restAfter(tookMs).then(() => {
      this.#sinceMs = performance.now();
    });
  }
}
