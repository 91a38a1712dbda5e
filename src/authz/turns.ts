// Lets one after the other: who follows a change from before its commit until it is in memory must
// not meet another that does the same. Invariant: turns are given in the order they were asked for.

export class Turns {
  #last: Promise<void> = Promise.resolve();

  /** Resolves when it is the caller's turn, with what ends that; to be called once. */
  async take(): Promise<() => void> {
    const before = this.#last;
    let end = () => {};
    this.#last = new Promise((resolve) => {
      end = resolve;
    });
    await before;
    return end;
  }
}
