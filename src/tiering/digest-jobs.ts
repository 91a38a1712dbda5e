// What the main thread and the digest threads say to each other: plain data, in batches.
// Invariant: the jobs of one thread are done in the order in which they were sent.
import type { ChecksumAlgorithm } from './checksums.ts';

/** The digests of one object's bytes. */
export interface Digests {
  md5: Buffer;
  sha256: Buffer;
  /** Of the asked algorithm, else null. */
  checksum: Buffer | null;
}

export type DigestJob =
  | { kind: 'open'; stream: number; checksum: ChecksumAlgorithm | null }
  /** The chunks that follow belong to this extent. */
  | { kind: 'extent'; stream: number; extent: ExtentTerms }
  /**
   * Hash the chunk in a slot of the arena, put its tag behind it, and write both to the file that
   * is open as `descriptor`, if there is one yet.
   */
  | {
      kind: 'chunk';
      stream: number;
      job: number;
      slot: number;
      index: number;
      descriptor: number | null;
    }
  | { kind: 'finish'; stream: number; job: number }
  /**
   * Read chunk `index` of an extent from its open file into a slot, and verify it. Of no stream.
   */
  | {
      kind: 'verify';
      job: number;
      slot: number;
      index: number;
      descriptor: number;
      extent: ExtentTerms;
    }
  | { kind: 'drop'; stream: number };

/** An ExtentSeal as it crosses threads. */
export interface ExtentTerms {
  id: Uint8Array;
  key: Uint8Array;
  algorithm: number;
  extentBytes: number;
}

export interface DigestReply {
  job: number;
  digests?: { md5: Uint8Array; sha256: Uint8Array; checksum: Uint8Array | null };
  error?: unknown;
  /** The system's code of the error (`ENOSPC`), which errors lose between threads. */
  code?: string | undefined;
  /** The error is an IntegrityError: errors lose their class too. */
  isIntegrity?: boolean;
}
