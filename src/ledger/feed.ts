// The feed of events, in the order of the log, to all that is kept in memory. Invariants: events
// reach each subscriber one change after the other; a change is answered only when all subscribers
// have applied its events and those of all changes before it, so it holds from the next request on;
// and a feed that could not be applied ends the gateway, since memory would be something else than
// the log.
import type { LedgerEvent } from './events.ts';

/** What one change has caused. */
export interface FeedEntry {
  /** Log index of the change's record. */
  index: number;
  events: readonly LedgerEvent[];
  /** The epoch of rights that it has begun; absent: it took none away. */
  epoch?: number;
}

export interface Subscriber {
  /** Makes memory what the log says. What must be read again is awaited. */
  apply(entry: FeedEntry): void | Promise<void>;
}

export class Feed {
  readonly #subscribers: Subscriber[] = [];
  /** Resolves when all that was delivered so far is applied. */
  #applied: Promise<void> = Promise.resolve();
  /** Entries that were delivered and are not applied. */
  #pending = 0;

  /** From now on `subscriber` is given each change's events. */
  subscribe(subscriber: Subscriber): void {
    this.#subscribers.push(subscriber);
  }

  /** Resolves when nothing that was delivered is still to be applied; null: nothing is. */
  get settling(): Promise<void> | null {
    return this.#pending === 0 ? null : this.#applied;
  }

  /** Resolves when all subscribers have applied the entry; rejects when one of them could not. */
  deliver(entry: FeedEntry): Promise<void> {
    this.#pending += 1;
    const applied = this.#applied.then(() => this.#apply(entry));
    this.#applied = applied.catch(() => {});
    return applied;
  }

  async #apply(entry: FeedEntry): Promise<void> {
    try {
      for (const subscriber of this.#subscribers) await subscriber.apply(entry);
    } finally {
      this.#pending -= 1;
    }
  }
}
