// Long work on the main thread, in which others have their turns. Invariant: they wait for no longer
// than `turnMs` and the longest of the steps between two calls of `rest`.
import { setImmediate } from 'node:timers/promises';

const turnMs = 10;

export class Pace {
  #sinceMs = performance.now();

  /** To be awaited after each step. */
  async rest(): Promise<void> {
    if (performance.now() - this.#sinceMs < turnMs) return;
    await setImmediate();
    this.#sinceMs = performance.now();
  }
}
