// Lets one after the other, by name: who follows a change from before its commit until it is in memory
// must not meet another that does the same. Invariants: turns of a name are given in the order they
// were asked for, and nobody waits for those of another name.

export class Turns {
  readonly #last = new Map<string, Promise<void>>();

  /** Resolves when it is the caller's turn, with what ends that; to be called once. */
  async take(name: string): Promise<() => void> {
    const before = this.#last.get(name);
    let end = (): void => {};
    const mine = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#last.set(name, mine);
    await before;
    return () => {
      if (this.#last.get(name) === mine) this.#last.delete(name);
      end();
    };
  }
}
