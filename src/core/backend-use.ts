// What was asked of stores that bill it: the terms between the stores' drivers, which count, the
// quota room, which prices, and the records, which say. Invariant: every request that a driver has
// begun to send is counted once, whatever became of it.

/** Requests by what providers bill them as, and bytes of their bodies. */
export interface BackendUse {
  /** PUT and LIST. */
  puts: number;
  /** GET and HEAD. */
  gets: number;
  /** DELETE, and what the server answered with its own failure (5xx). */
  frees: number;
  /** Bytes from the gateway to the store. */
  sentBytes: number;
  /** Bytes from the store to the gateway. */
  receivedBytes: number;
}

/** The use of one store, by its name. */
export interface StoreUse extends BackendUse {
  store: string;
}
