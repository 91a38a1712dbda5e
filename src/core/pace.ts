// Long work on the main thread, in which others have their turns. Invariant: they wait for no longer
// than `turnMs` and the longest of the steps between two calls of `rest`, however many such works are
// under way: one of them goes on in each turn of the event loop.

const turnMs = 10;

/** Works that wait to go on, in their order. */
const waiting: (() => void)[] = [];

export class Pace {
  #sinceMs = performance.now();

  /** To be awaited after each step. */
  async rest(): Promise<void> {
    if (performance.now() - this.#sinceMs >= turnMs) await this.wait();
  }

  /** To be awaited before work that is known to be long: others that are begin with it. */
  async wait(): Promise<void> {
    await new Promise<void>((resolve) => {
      if (waiting.push(resolve) === 1) setImmediate(giveTurn);
    });
    this.#sinceMs = performance.now();
  }
}

function giveTurn(): void {
  waiting.shift()?.();
  // What is asked for in a turn's own callbacks comes with the next one.
  if (waiting.length > 0) setImmediate(giveTurn);
}
