// What many ask for, and the main thread makes for them: made once for all who wait, and in the
// long run no more than a tenth of the time. Invariant: nobody is answered with what was made
// before they asked.
import { setTimeout as sleep } from 'node:timers/promises';
import { monotonicMs } from '../core/clock.ts';

/** Pauses are so many times as long as the making took, and no longer than this. */
const pauseFactor = 9;
const pauseMsMax = 1000;

export class Paced<T> {
  readonly #make: () => Promise<T>;
  /** The next making, which has not begun. */
  #next: Promise<T> | null = null;
  /** When the making before it, and the pause behind it, are over. */
  #ready: Promise<void> = Promise.resolve();

  constructor(make: () => Promise<T>) {
    this.#make = make;
  }

  /** Rejects as the making does. */
  read(): Promise<T> {
    this.#next ??= this.#begin();
    return this.#next;
  }

  async #begin(): Promise<T> {
    await this.#ready;
    this.#next = null;
    const begunMs = monotonicMs();
    const made = this.#make();
    const pause = (): Promise<void> => {
      const pauseMs = Math.min((monotonicMs() - begunMs) * pauseFactor, pauseMsMax);
      return sleep(pauseMs, undefined, { ref: false });
    };
    this.#ready = made.then(pause, pause);
    return made;
  }
}
