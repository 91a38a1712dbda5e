// The feed of events, in the order of the log, to all that is kept in memory. Invariants: events
// reach each subscriber one change after the other; a change is answered only when all subscribers
// have applied its events and those of all changes before it, so it holds from the next request on;
// and a feed that could not be applied ends the gateway, since memory would be something else than
// the log.
import type { LedgerEvent } from './events.ts';
import type { Scope } from './scopes.ts';

/** What one change has caused. */
export interface FeedEntry {
  /** Log index of the change's record. */
  index: number;
  events: readonly LedgerEvent[];
  /** The epoch of rights that it has begun; absent: it took none away. */
  epoch?: number;
  /** From where it took them. */
  taken?: Scope | undefined;
}

export interface Subscriber {
  /** Makes memory what the log says. What must be read again is awaited. */
  apply(entry: FeedEntry): void | Promise<void>;
}

export class Feed {
  readonly #subscribers: Subscriber[] = [];
  /** Resolves when nothing that was delivered is still to be applied; null: nothing is. */
  settling: Promise<void> | null = null;

  /** From now on `subscriber` is given each change's events. */
  subscribe(subscriber: Subscriber): void {
    this.#subscribers.push(subscriber);
  }

  /** Resolves when all subscribers have applied the entry; rejects when one of them could not. */
  deliver(entry: FeedEntry): Promise<void> {
    const before = this.settling ?? Promise.resolve();
    const applied = before.then(() => this.#apply(entry));
    const end = (): void => {
      if (this.settling === settling) this.settling = null;
    };
    const settling = applied.then(end, end);
    this.settling = settling;
    return applied;
  }

  async #apply(entry: FeedEntry): Promise<void> {
    for (const subscriber of this.#subscribers) await subscriber.apply(entry);
  }
}
