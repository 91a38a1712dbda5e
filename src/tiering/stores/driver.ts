// What a gateway asks of the driver of a store besides the store's bytes: how it is, and how other
// threads join in what one thread has opened.
import type { AttemptFailure, FailureCause } from './attempt-failure.ts';
import type { BreakerState } from './breaker.ts';
import type { LoadCredentials } from './s3/credentials.ts';
import type { S3OpenedStore } from './s3/options.ts';
import type { Finding } from './s3/probe.ts';
import type { RemoteStore } from './store.ts';
import type { StoreCounts, StoreMeter } from './store-meter.ts';
import type { StoreTally } from './store-tally.ts';

/** What every driver is opened with. */
export interface DriverOptions {
  number: number;
  name: string;
  /** Default: the driver's own. Bytes of plaintext, at most 16 MiB. */
  extentBytesMax?: number;
  /** The most calls that are under way at once. Default: the driver's own. */
  connectionsMax?: number;
  /** A call in which nothing moves for so long has failed. Default 10,000. */
  stallTimeoutMs?: number;
  /** The circuit breaker's failures in a row and its pauses. Default: 10; 100 ms to 10 s. */
  breaker?: { failuresMax: number; pauseMsMin: number; pauseMsMax: number };
  /** Where threads share what the breaker goes by: `breakerWords` of it. */
  breakerState?: Int32Array;
  /** Counts what belongs to no operation. Default: it is not counted. */
  tally?: StoreTally;
  /** Measures all calls. Default: nothing is measured. */
  meter?: StoreMeter;
  onEvent?: (event: StoreEvent) => void;
  /**
   * Called before an extent is said to be missing. Rejects when the place is not ours any more:
   * then nothing was lost in it. Default: it is ours.
   */
  confirmPlace?: () => Promise<void>;
  /** Ends the opening while it is under way. */
  signal?: AbortSignal;
}

export const defaultBreaker = { failuresMax: 10, pauseMsMin: 100, pauseMsMax: 10_000 };
export const defaultStallMs = 10_000;

/** What one thread has found out of a store, for others that use it too: plain data. */
export type OpenedStore = S3OpenedStore | { kind: 'folder' };

/** What is logged. */
export type StoreEvent =
  | { kind: 'breaker'; state: BreakerState; failure?: AttemptFailure }
  | { kind: 'probed'; findings: readonly Finding[] };

/** For `/_/health` and those who see more; the counts are the meter's. */
export interface StoreState extends StoreCounts {
  /** Whether it was probed and is not taken for down. */
  ready: boolean;
  breaker: BreakerState;
  /** What the last probe found; empty: the store was not reached yet. */
  findings: readonly Finding[];
  inFlight: number;
  waiting: number;
  lastFailure: { reason: FailureCause; message: string; timeMs: number } | undefined;
}

export interface StoreDriver extends RemoteStore {
  state(): StoreState;
  /** What others join in. */
  readonly opened: OpenedStore;
  /** A thread that has joined in has found the store down. */
  followBreaker(failure: AttemptFailure): void;
  /** Of a store that has credentials: see `CredentialSource`. */
  readonly loadCredentials?: LoadCredentials;
  /** Ends all calls that are under way, as failed. */
  close(): Promise<void>;
}
