// Whether what was read from the database may be kept in memory, though changes became known while
// it was read. Who reads notes up to which log index events are applied, before it reads; what was
// read is kept only if no event of a later index has concerned it meanwhile. Invariant: nothing
// that was read before a change is kept after the change's event, so a cache never has what is
// older than the last event that was applied to it.

/** How far something in memory has followed the log. */
export interface Followed {
  /** Log index of the newest change of which all events are applied. */
  readonly index: number;
}

export class Loads {
  readonly #followed: Followed;
  /** Log index of the last event that concerned what is kept here. */
  #changedAt = Number.NEGATIVE_INFINITY;

  constructor(followed: Followed) {
    this.#followed = followed;
  }

  /** To be noted before something is read. */
  get asOf(): number {
    return this.#followed.index;
  }

  /** An event of this index concerns what is kept here, and is being applied. */
  outdate(index: number): void {
    this.#changedAt = index;
  }

  /** May be kept what was read since `asOf`? */
  isCurrent(asOf: number): boolean {
    return asOf >= this.#changedAt;
  }
}
