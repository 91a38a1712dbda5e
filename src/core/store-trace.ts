// What requests to stores tell the trace that they belong to. Drivers of stores tell it, and
// tracing makes spans of it: neither knows the other.

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

/**
 * The trace of an operation (W3C Trace Context), as far as what it asks of stores belongs to it. It
 * is told the begin and the end of each try, and what it gives travels in the headers of that try.
 */
export interface StoreTrace {
  begin(attempt: TracedTry): TryTrace;
}
