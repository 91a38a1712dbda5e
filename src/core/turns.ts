// One at a time for each name, in the order in which they came; others wait for nobody.

export class Turns {
  readonly #last = new Map<string, Promise<unknown>>();

  /** Does `work` when all that came before by this name has ended, however it did. */
  async take<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name);
    const mine = before ? before.then(work, work) : work();
    this.#last.set(name, mine);
    try {
      return await mine;
    } finally {
      if (this.#last.get(name) === mine) this.#last.delete(name);
    }
  }
}
