// Between the holders of a run: has all others give up what they have free of accounts in which one
// of them is short. It is to be in one thread, which reaches the others.

/** Has a holder give up what it has free (`LeaseHolder.giveUpFree`). */
type GiveUp = (accounts: readonly string[]) => Promise<unknown>;

export class Recalls {
  readonly #holders = new Map<number, GiveUp>();

  /** From now on this holder is recalled as well. */
  add(holder: number, giveUp: GiveUp): void {
    this.#holders.set(holder, giveUp);
  }

  /**
   * What a holder asks of the others, or nobody of all; resolves when they are done, which one may
   * never be.
   */
  async recall(holder: number | null, accounts: readonly string[]): Promise<void> {
    const done: Promise<unknown>[] = [];
    for (const [other, giveUp] of this.#holders) if (other !== holder) done.push(giveUp(accounts));
    await Promise.allSettled(done);
  }
}
