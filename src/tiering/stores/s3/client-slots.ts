// The HTTP clients of one store, one connection each, handed out for one request at a time.
// Invariant: never more than `max` requests are under way, nor connections open; who waited longest
// goes next, and nobody waits longer than `waitMsMax`.
import type { Client } from 'undici';
import { Refusal } from '../../../core/errors.ts';

interface Waiter {
  grant(client: Client): void;
  refuse(error: unknown): void;
}

export interface ClientSlotsOptions {
  max: number;
  waitMsMax: number;
  open: () => Client;
}

export class ClientSlots {
  readonly #options: ClientSlotsOptions;
  /** The client that was used last is used first again, so that those not needed stay idle. */
  readonly #free: Client[] = [];
  readonly #waiters = new Set<Waiter>();
  #taken = 0;

  constructor(options: ClientSlotsOptions) {
    this.#options = options;
  }

  get inFlight(): number {
    return this.#taken;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  /** Gives a free client at once, if there is one. Nobody who waits is overtaken. */
  tryTake(): Client | undefined {
    if (this.#taken >= this.#options.max) return undefined;
    this.#taken++;
    return this.#free.pop() ?? this.#options.open();
  }

  /**
   * Waits for the next free client. Rejects with Refusal SlowDown when that takes too long, or with
   * the reason of the signal.
   */
  take(signal?: AbortSignal): Promise<Client> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', stop);
        this.#waiters.delete(waiter);
      };
      const waiter: Waiter = {
        grant: (client) => {
          leave();
          resolve(client);
        },
        refuse: (error) => {
          leave();
          reject(error);
        },
      };
      const stop = (): void => waiter.refuse(signal?.reason);
      const timer = setTimeout(
        () => waiter.refuse(new Refusal('SlowDown')),
        this.#options.waitMsMax,
      );
      this.#waiters.add(waiter);
      signal?.addEventListener('abort', stop);
    });
  }

  /**
   * Gives a client back after its request. `isStuck`: it never came to be connected, and is not
   * used again.
   */
  release(client: Client, isStuck: boolean): void {
    if (isStuck) void client.destroy();
    const kept = isStuck ? this.#options.open() : client;
    for (const waiter of this.#waiters) {
      waiter.grant(kept);
      return;
    }
    this.#taken--;
    this.#free.push(kept);
  }

  /** Refuses everybody who waits. */
  refuseWaiting(error: unknown): void {
    for (const waiter of this.#waiters) waiter.refuse(error);
  }

  /** Closes the connections that are not in use. */
  async close(): Promise<void> {
    await Promise.all(this.#free.map((client) => client.destroy()));
  }
}
