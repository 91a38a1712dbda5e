// The stages of a request, each a type: what is not known yet cannot be asked.
//   parsed      `S3Request`     what the message says
//   identified  `Identified`    who asks, by what proof
//   asked       `Asked<R>`      what is asked for, and about what; it is being decided
//   admitted    `Admitted<R>`   who asks may do it, and what it is about is there
//   reserved    `Reserved<R>`   what it may use is set aside: it is done from here on
//   done        `Exchange`      its status, and the index of its record
// `R` is the resource that the operation names: it says what of a bucket, a key and a source there
// is.
import type { Identity } from '../../authz/identity.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import type { ErrorCode, Refusal } from '../../core/errors.ts';
import type { AskedRequest } from './asked.ts';
import type { SourceName } from './copy-source.ts';
import type { AnyOperation } from './operation.ts';
import type { S3Request } from './request.ts';
import type { ReservedRequest } from './reserved.ts';

/** Who asks for what, as an entrance tells it. */
export interface Identified {
  request: S3Request;
  who: Identity;
  /** Why who asks is refused whatever it is; null: they are not. */
  refused: Refusal | null;
  /** Of the body, what had to be read to know that. */
  receivedBytes?: number;
  /** Throws a Refusal. */
  findOperation(request: S3Request): AnyOperation;
  /**
   * Who asks, where they were authenticated at `atMs`, as things are now (`Authenticator.renew`).
   * Throws a Refusal where the credential is good no more.
   */
  renew(atMs: number): Promise<Identity>;
}

/**
 * What an operation is about. `bucketName`: the bucket need not exist. `listing`: what in a bucket
 * begins with the query's `prefix`. `copy`: an object, and the source that `x-amz-copy-source`
 * names.
 */
export type Resource = 'service' | 'bucketName' | 'bucket' | 'listing' | 'object' | 'copy';

interface BucketNames {
  askedName: string;
  bucketName: string;
}

interface ObjectNames extends BucketNames {
  key: string;
}

/** What is named. */
interface Names {
  service: unknown;
  bucketName: BucketNames;
  bucket: BucketNames;
  listing: BucketNames;
  object: ObjectNames;
  copy: ObjectNames;
}

/** What is there. */
interface Found {
  service: unknown;
  bucketName: unknown;
  bucket: { bucket: Bucket };
  listing: { bucket: Bucket };
  object: { bucket: Bucket };
  copy: { bucket: Bucket };
}

interface Sources {
  service: unknown;
  bucketName: unknown;
  bucket: unknown;
  listing: unknown;
  object: unknown;
  copy: { source: SourceName };
}

/** It is known who asks for what, and about what: that is being decided. */
export type Asked<R extends Resource = 'service'> = AskedRequest & Names[R] & Sources[R];

/** It may be done, with what is there. */
export type Admitted<R extends Resource = 'service'> = Asked<R> & Found[R];

/** What it may use is set aside. */
export type Reserved<R extends Resource = 'service'> = ReservedRequest &
  Names[R] &
  Found[R] & { asked: Asked<R> };

/** A request of which there is a record in the end, however far it came. */
export interface Recorded {
  /** Is there one, or will there be one that it has in common with others? */
  readonly isRecorded: boolean;
  /** Must a read be recorded before its last byte is sent? */
  readonly isStrictRead: boolean;
  /**
   * Records an operation that changed nothing: a read, or a refusal. It is to be waited for where
   * very many are on their way; null: they are not.
   */
  record(status: number, error: string | null): Promise<unknown> | null;
  /** The same, durable before it resolves; gives why it could not be recorded, else null. */
  recordNow(status: number, error: string | null): Promise<ErrorCode | null>;
}
