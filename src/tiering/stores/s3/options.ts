// What an S3 store is opened with, and what others join in.
import type { DriverOptions } from '../driver.ts';
import type { StoreAddress } from './address.ts';
import type { Credentials, LoadCredentials } from './credentials.ts';
import type { ProofKind } from './proven-put.ts';
import type { RetryPolicy } from './retry.ts';

export interface S3StoreOptions extends DriverOptions {
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
  /** Of extents: sent as `x-amz-storage-class`. Default: none is named. */
  storageClass?: string;
  /** Default: the SDK's chain. */
  credentials?: Credentials;
  /** Default 2,000. */
  connectTimeoutMs?: number;
  /** Default 10,000. */
  firstByteTimeoutMs?: number;
  retryPolicy?: RetryPolicy;
  /** For which share of small reads a second request may be sent. Default 0.05; 0: for none. */
  hedgeShare?: number;
}

/** What one thread has found out of an S3 store, for others that use it too: plain data. */
export interface S3OpenedStore {
  kind: 's3';
  address: StoreAddress;
  honoursConditions: boolean;
  proof: ProofKind;
}

/** What a thread that joins another one's store has that one do. */
export interface JoinOptions extends S3StoreOptions {
  loadCredentials: LoadCredentials;
}
