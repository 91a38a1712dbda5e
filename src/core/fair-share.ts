// A room of bytes that several principals fill: memory, or what the disk can still take.
// Invariants: what is held never exceeds the capacity that was known when it was taken; and beyond
// one claim no principal holds more than half of what the others leave, so whoever comes next finds
// room. One claim alone may have all there is: nobody could ever store what is larger than the half
// otherwise.

/** Why not: there is no room for it, or whoever asks has too much of the room already. */
export type ClaimOutcome = 'taken' | 'noRoom' | 'tooMuch';

interface Holding {
  bytes: number;
  claims: number;
}

export class FairShare {
  readonly #capacityBytes: () => number;
  readonly #holdings = new Map<string, Holding>();
  #heldBytes = 0;

  constructor(capacityBytes: () => number) {
    this.#capacityBytes = capacityBytes;
  }

  get capacityBytes(): number {
    return this.#capacityBytes();
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Claims `bytes` for a principal (`cms/alice`). A claim of nothing is always granted. */
  take(principal: string, bytes: number): ClaimOutcome {
    if (bytes === 0) return 'taken';
    const capacityBytes = this.#capacityBytes();
    if (this.#heldBytes + bytes > capacityBytes) return 'noRoom';
    const holding = this.#holdings.get(principal);
    if (!holding) {
      this.#holdings.set(principal, { bytes, claims: 1 });
    } else {
      const othersBytes = this.#heldBytes - holding.bytes;
      if (holding.bytes + bytes > (capacityBytes - othersBytes) / 2) return 'tooMuch';
      holding.bytes += bytes;
      holding.claims += 1;
    }
    this.#heldBytes += bytes;
    return 'taken';
  }

  /** Gives back what one claim took; to be called once for each. */
  give(principal: string, bytes: number): void {
    if (bytes === 0) return;
    const holding = this.#holdings.get(principal);
    if (!holding || holding.bytes < bytes) throw new Error('more was given back than was taken');
    holding.bytes -= bytes;
    holding.claims -= 1;
    if (holding.claims === 0) this.#holdings.delete(principal);
    this.#heldBytes -= bytes;
  }
}
