// The outcome of a change of the catalog. It is plain data, since it crosses from the ledger's
// thread.
import type { ErrorCode } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import type { Purged } from './purge-held.ts';

export interface StorageDelta {
  storedBytes: number;
  storedObjects: number;
  /** The same as it is charged by time. */
  billed: readonly BilledDelta[];
  /** The object that was deleted or replaced. Null: none, or a damaged one. */
  ended: EndedObject | null;
  /** Objects that snapshots held and that were let go of; absent: none. */
  released?: readonly EndedObject[];
  /** It made a version, whose `seq` is the index of its record. */
  makesVersion?: true;
  /** `seq` of the version that it ended: one kept as noncurrent goes on. */
  supersededSeq?: number;
  /** The version that it made, changed or ended; absent where the bucket never had versioning. */
  named?: NamedVersion;
  /** The version whose attributes the change made different. */
  amended?: AmendedVersion;
  /** The bucket that was made, or set up, and what is set of it now (`hashSettings`). */
  configured?: { bucketId: number; settings: string };
}

export interface AmendedVersion {
  seq: number;
  /** SHA-256 of the attributes that it has now, hex. */
  attributes: string;
}

/** A version as S3 names it. */
export interface NamedVersion {
  /** Null: S3's `null` version. */
  versionId: string | null;
  isMarker: boolean;
}

/** Bytes added to what is billed of a class; less than 0: removed. */
export interface BilledDelta {
  class: string;
  bytes: number;
}

export interface EndedObject {
  class: string;
  billedBytes: number;
  /** Since when it was in the class. */
  sinceMs: number;
}

/** What a change did at another key of its bucket, which a second record tells of. */
export interface OtherKey {
  key: string;
  /** With the index of that record, which is the next one. */
  storage: StorageDelta;
}

/** A bucket that got another owner: whose storage it was is charged, and moved in the accounts. */
export interface HandedOver {
  bucket: { tenant: string; name: string };
  from: string;
  to: string;
}

export type Outcome<R> =
  | {
      ok: true;
      storage: StorageDelta;
      result: R;
      also?: OtherKey;
      handedOver?: HandedOver;
      purged?: Purged;
    }
  | { ok: false; code: ErrorCode; fields?: Record<string, string> };

export const noStorage: StorageDelta = {
  storedBytes: 0,
  storedObjects: 0,
  billed: [],
  ended: null,
};

/** Nothing of what is stored is another. */
export const unchanged: Outcome<null> = { ok: true, storage: noStorage, result: null };

export function refused(code: ErrorCode, fields?: Record<string, string>): Outcome<never> {
  return fields ? { ok: false, code, fields } : { ok: false, code };
}

/**
 * What prices say of storing an object and of ending it, which this room asks and does not know.
 */
export interface StorageTerms {
  /** The bytes that all copies of an object of this class count for where storage is charged. */
  billedBytes(storageClass: string, sizeBytes: number, copies: number): number | Promise<number>;
  /** Resolves to whether the accounts can pay what is owed for an object that is replaced. */
  mayEnd(ended: EndedObject): Promise<boolean>;
  /** Resolves to whether a principal may store what a bucket of its tenant keeps, too. */
  mayOwn(bucket: { tenant: string; name: string }, owner: string): Promise<boolean>;
  /** Resolves to whether somebody, `tenant/name`, may have so many bytes more as their writer. */
  mayHaveWritten(
    bucket: { tenant: string; name: string },
    writer: string,
    storedBytes: number,
  ): Promise<boolean>;
}

/** Where in the log a change is being made, and what its rows are made and authenticated with. */
export interface Moment {
  /** The log index of the change's record. */
  seq: number;
  timeMs: number;
  /** What the clock says, where records are ahead of it; absent: the same. */
  clockMs?: number;
  keyring: Keyring;
  terms: StorageTerms;
}
