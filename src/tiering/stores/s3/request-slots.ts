// How many requests to one store are under way. Invariant: never more than `max`, and who waited
// longest goes next; nobody waits longer than `waitMsMax`.
import { Refusal } from '../../../core/errors.ts';

interface Waiter {
  timer: NodeJS.Timeout;
  grant(): void;
  refuse(error: unknown): void;
}

export class RequestSlots {
  readonly #max: number;
  readonly #waitMsMax: number;
  readonly #waiters = new Set<Waiter>();
  #taken = 0;

  constructor(max: number, waitMsMax: number) {
    this.#max = max;
    this.#waitMsMax = waitMsMax;
  }

  get inFlight(): number {
    return this.#taken;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  /** Takes a free slot. Never waits, and never overtakes: `release` hands slots straight on. */
  tryTake(): boolean {
    if (this.#taken >= this.#max) return false;
    this.#taken++;
    return true;
  }

  /** The next free slot. Rejects with Refusal SlowDown after a while, or with the signal's reason. */
  take(signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = (): void => waiter.refuse(signal?.reason);
      const leave = (): void => {
        clearTimeout(waiter.timer);
        signal?.removeEventListener('abort', stop);
        this.#waiters.delete(waiter);
      };
      const waiter: Waiter = {
        timer: setTimeout(() => waiter.refuse(new Refusal('SlowDown')), this.#waitMsMax),
        grant: () => {
          leave();
          resolve();
        },
        refuse: (error) => {
          leave();
          reject(error);
        },
      };
      this.#waiters.add(waiter);
      signal?.addEventListener('abort', stop);
    });
  }

  release(): void {
    for (const waiter of this.#waiters) {
      waiter.grant();
      return;
    }
    this.#taken--;
  }

  /** All who wait are refused. */
  refuseWaiting(error: unknown): void {
    for (const waiter of this.#waiters) waiter.refuse(error);
  }
}
