// Versions that could not be moved, and how long each waits until it is tried again: twice as long
// after each failure. Invariants: what cannot be moved at all costs less and less, and keeps no
// other version from being moved; and however many there are, the memory of them is bounded.

export const retryMsMin = 60_000;
const retryMsMax = 24 * 3_600_000;
/** How long one waits that is not remembered. */
const unknownMs = 3_600_000;
const rememberedMax = 10_000;

interface Failed {
  tries: number;
  untilMs: number;
}

export class MoveFailures {
  /** By the version's number, the one that failed longest ago first. */
  readonly #failed = new Map<number, Failed>();

  /** Until when a version waits, milliseconds; null: it does not. */
  waitsUntil(seq: number, nowMs: number): number | null {
    const failed = this.#failed.get(seq);
    return failed && failed.untilMs > nowMs ? failed.untilMs : null;
  }

  /** Gives until when it waits. */
  note(seq: number, nowMs: number): number {
    const tries = (this.#failed.get(seq)?.tries ?? 0) + 1;
    this.#failed.delete(seq);
    if (this.#failed.size >= rememberedMax) this.#prune(nowMs);
    if (this.#failed.size >= rememberedMax) return nowMs + unknownMs;
    const untilMs = nowMs + Math.min(retryMsMin * 2 ** (tries - 1), retryMsMax);
    this.#failed.set(seq, { tries, untilMs });
    return untilMs;
  }

  /** It was moved, or need not be. */
  forget(seq: number): void {
    this.#failed.delete(seq);
  }

  /** What has waited, and was not tried for a day since then, is not there any more. */
  #prune(nowMs: number): void {
    for (const [seq, { untilMs }] of this.#failed) {
      if (untilMs < nowMs - retryMsMax) this.#failed.delete(seq);
    }
  }
}
