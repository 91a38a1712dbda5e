// The stores of this gateway, by the numbers that manifests and buckets have and by the names that
// people give them. Invariant: the local store is there; any other may have been taken out of the
// configuration, and what needs it is then refused, clearly.
import { Refusal } from '../../core/errors.ts';
import { localStore } from '../../core/manifest.ts';
import { LocalLeg } from './local-leg.ts';
import type { LocalStore } from './local-store.ts';
import type { ExtentStore, LegStore, RemoteStore } from './store.ts';

export class Stores {
  readonly local: LocalStore;
  readonly #localLeg: LocalLeg;
  readonly #remote = new Map<number, RemoteStore>();

  constructor(local: LocalStore, remote: Iterable<RemoteStore> = []) {
    this.local = local;
    this.#localLeg = new LocalLeg(local);
    for (const store of remote) this.#remote.set(store.number, store);
  }

  /** The remote ones, in the order of the configuration. */
  get remotes(): Iterable<RemoteStore> {
    return this.#remote.values();
  }

  /** Throws Refusal ServiceUnavailable when no such store is configured. */
  get(number: number): ExtentStore {
    return number === localStore ? this.local : this.remote(number);
  }

  /** The same for stores over a network. */
  remote(number: number): RemoteStore {
    const store = this.#remote.get(number);
    if (store) return store;
    const message = `Store ${number}, which holds the data of this bucket, is not configured.`;
    throw new Refusal('ServiceUnavailable', { message });
  }

  /** One of several that have the same extents. Throws as `get` does. */
  leg(number: number): LegStore {
    return number === localStore ? this.#localLeg : this.remote(number);
  }

  /** The store of this name; undefined: none is configured. */
  named(name: string): ExtentStore | undefined {
    if (name === this.local.name) return this.local;
    for (const store of this.#remote.values()) if (store.name === name) return store;
    return undefined;
  }
}
