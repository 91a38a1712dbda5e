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
  /** Last used is first used again: what is not needed stays idle and is closed. */
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

  /** A free one. Never waits, and never overtakes: `release` hands clients straight on. */
  tryTake(): Client | undefined {
    if (this.#taken >= this.#options.max) return undefined;
    this.#taken++;
    return this.#free.pop() ?? this.#options.open();
  }

  /** The next free one. Rejects with Refusal SlowDown after a while, or as the signal says. */
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

  /** Gives a client back after its request; one that `isStuck` in connecting is not used again. */
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

  /** All who wait are refused. */
  refuseWaiting(error: unknown): void {
    for (const waiter of this.#waiters) waiter.refuse(error);
  }

  /** Closes the connections that are not in use. */
  async close(): Promise<void> {
    await Promise.all(this.#free.map((client) => client.destroy()));
  }
}
