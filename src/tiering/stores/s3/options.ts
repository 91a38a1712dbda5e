// What an S3 store is opened with, and what it tells of itself.
import type { StoreCounts, StoreMeter } from '../store-meter.ts';
import type { StoreTally } from '../store-tally.ts';
import type { BreakerState } from './breaker.ts';
import type { Credentials } from './credentials.ts';
import type { AttemptFailure, FailureCause } from './failure.ts';
import type { Finding } from './probe.ts';
import type { RetryPolicy } from './retry.ts';

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
  /** The profile of the AWS configuration files. */
  profile?: string;
  /** Default: the SDK's chain. */
  credentials?: Credentials;
  /** Default 8 MiB. */
  extentBytesMax?: number;
  /** Requests under way at once; default 64. */
  connectionsMax?: number;
  /** Default 2,000. */
  connectTimeoutMs?: number;
  /** Default 10,000. */
  firstByteTimeoutMs?: number;
  /** Default 10,000. */
  stallTimeoutMs?: number;
  retryPolicy?: RetryPolicy;
  /** Of small reads, what may be asked a second time when it is slow. Default 0.05; 0: never. */
  hedgeShare?: number;
  /** Failures in a row, and the pauses between trials. Default: 10; 100 ms to 10 s. */
  breaker?: { failuresMax: number; pauseMsMin: number; pauseMsMax: number };
  /** Counts what is asked of the server for no operation. Default: nobody looks. */
  tally?: StoreTally;
  /** Measures what is asked of the server. Default: nobody looks, and no read is asked twice. */
  meter?: StoreMeter;
  onEvent?: (event: StoreEvent) => void;
  /**
   * Asked before an extent is said to be missing. Rejects when the place is not ours any more: then
   * nothing was lost in it. Default: it is ours.
   */
  confirmPlace?: () => Promise<void>;
  /** Ends an opening that is under way. */
  signal?: AbortSignal;
}

/** The events that the log tells. */
export type StoreEvent =
  | { kind: 'breaker'; state: BreakerState; failure?: AttemptFailure }
  | { kind: 'probed'; findings: readonly Finding[] };

/** For `/_/health` and those who see more; the counts are the meter's. */
export interface StoreState extends StoreCounts {
  /** It was probed and is not taken for down. */
  ready: boolean;
  breaker: BreakerState;
  /** Of the last probe; empty: it was not reached yet. */
  findings: readonly Finding[];
  inFlight: number;
  waiting: number;
  lastFailure: { reason: FailureCause; message: string; timeMs: number } | undefined;
}
