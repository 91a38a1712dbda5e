// The trace of an operation, as far as what it asks of stores belongs to it (W3C Trace Context).
// Invariant: it is told the begin and the end of each try, and what it gives travels in the headers
// of that try; whether anybody traces is not this room's business.

/** A try of a request, as it begins. */
export interface TracedTry {
  /** Name of the store. */
  store: string;
  /** Its server, with the port where it is not the usual one. */
  host: string;
  method: string;
  /** Tries of the same request before this one. */
  earlierTries: number;
  /** Another try for the same bytes is under way, and slow. */
  isSecond: boolean;
}

export interface TryTrace {
  /** Names and values by turns. */
  readonly headers: readonly string[];
  /**
   * It has ended: with an answer's status, null where none came; by a failure of this cause, or as
   * `abandoned`; null: properly.
   */
  end(status: number | null, failure: string | null): void;
}

export interface StoreTrace {
  begin(attempt: TracedTry): TryTrace;
}
