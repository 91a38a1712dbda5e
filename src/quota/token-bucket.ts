// A token bucket: so much a second, of which one second's worth may come at once after a pause.
// Invariant: in any time no more is taken than flowed in then, one second's worth, and the last
// amount taken.
import { monotonicMs } from '../core/clock.ts';

export class TokenBucket {
  readonly perSecond: number;
  #level: number;
  #atMs = monotonicMs();

  /** `perSecond`: more than 0. It begins full. */
  constructor(perSecond: number) {
    this.perSecond = perSecond;
    this.#level = perSecond;
  }

  /** The amount that is there now; negative where more was taken than there was. */
  get level(): number {
    const nowMs = monotonicMs();
    this.#level = Math.min(
      this.#level + ((nowMs - this.#atMs) * this.perSecond) / 1000,
      this.perSecond,
    );
    this.#atMs = nowMs;
    return this.#level;
  }

  get isFull(): boolean {
    return this.level === this.perSecond;
  }

  take(amount: number): void {
    this.#level = this.level - amount;
  }

  /** How long until `amount` is there, milliseconds. */
  waitMs(amount: number): number {
    return Math.max(0, ((amount - this.level) * 1000) / this.perSecond);
  }
}
