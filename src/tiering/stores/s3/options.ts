// What an S3 store is opened with, and what it tells of itself.
import type { StoreCounts, StoreMeter } from '../store-meter.ts';
import type { StoreTally } from '../store-tally.ts';
import type { StoreAddress } from './address.ts';
import type { BreakerState } from './breaker.ts';
import type { Credentials, LoadCredentials } from './credentials.ts';
import type { AttemptFailure, FailureCause } from './failure.ts';
import type { Finding } from './probe.ts';
import type { ProofKind } from './proven-put.ts';
import type { RetryPolicy } from './retry.ts';

export const defaultConnectionsMax = 64;

export interface S3StoreOptions {
  number: number;
  name: string;
  /** `s3://bucket` or `s3://bucket/prefix`. */
  url: string;
  /** Default: AWS's for the region. */
  endpoint?: string;
  /** Default: as the AWS configuration says, else us-east-1. */
  region?: string;
  /** Default: the bucket in the host name, except where the host or the bucket cannot do that. */
  pathStyle?: boolean;
  /** A profile of the AWS configuration files. */
  profile?: string;
  /** Default: the SDK's chain. */
  credentials?: Credentials;
  /** Default 8 MiB. */
  extentBytesMax?: number;
  /** The most requests that are under way at once; default `defaultConnectionsMax`. */
  connectionsMax?: number;
  /** Default 2,000. */
  connectTimeoutMs?: number;
  /** Default 10,000. */
  firstByteTimeoutMs?: number;
  /** Default 10,000. */
  stallTimeoutMs?: number;
  retryPolicy?: RetryPolicy;
  /** For which share of small reads a second request may be sent. Default 0.05; 0: for none. */
  hedgeShare?: number;
  /** The circuit breaker's failures in a row and its pauses. Default: 10; 100 ms to 10 s. */
  breaker?: { failuresMax: number; pauseMsMin: number; pauseMsMax: number };
  /** Where threads share what the breaker goes by: `breakerWords` of it. */
  breakerState?: Int32Array;
  /** Counts requests that belong to no operation. Default: they are not counted. */
  tally?: StoreTally;
  /** Measures all requests. Default: nothing is measured, and no second requests are sent. */
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

/** What one thread has found out of a store, for others that use it too: plain data. */
export interface OpenedStore {
  address: StoreAddress;
  honoursConditions: boolean;
  proof: ProofKind;
}

/** What a thread that joins another one's store has that one do. */
export interface JoinOptions extends S3StoreOptions {
  loadCredentials: LoadCredentials;
}

/** What is logged. */
export type StoreEvent =
  | { kind: 'breaker'; state: BreakerState; failure?: AttemptFailure }
  | { kind: 'probed'; findings: readonly Finding[] };

/** For `/_/health` and those who see more; the counts are the meter's. */
export interface StoreState extends StoreCounts {
  /** Whether it was probed and is not taken for down. */
  ready: boolean;
  breaker: BreakerState;
  /** What the last probe found; empty: the server was not reached yet. */
  findings: readonly Finding[];
  inFlight: number;
  waiting: number;
  lastFailure: { reason: FailureCause; message: string; timeMs: number } | undefined;
}
