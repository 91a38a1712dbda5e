// What the main thread and the digest threads say to each other: plain data, in batches.
// Invariant: the jobs of one thread are done in the order in which they were sent.
import type { ChecksumAlgorithm } from './checksums.ts';
import type { ChunkPlace } from './chunk-format.ts';

/** The digests of one object's bytes. */
export interface Digests {
  md5: Buffer;
  sha256: Buffer;
  /** The checksums of the requested algorithms, in their order. */
  checksums: readonly Buffer[];
  /** Of what the client sent, where that is not what is stored: those that were wanted. */
  sent?: { md5?: Buffer; sha256?: Buffer };
}

export type DigestJob =
  | { kind: 'open'; stream: number; checksums: readonly ChecksumAlgorithm[] }
  /**
   * Hash the `length` bytes of the chunk in a slot of the arena, seal it there, and write it with
   * its tag to the file that is open as `descriptor`, if there is one.
   */
  | {
      kind: 'chunk';
      stream: number;
      job: number;
      slot: number;
      length: number;
      place: ChunkPlace;
      extent: KeyTerms;
      descriptor: number | null;
    }
  | { kind: 'finish'; stream: number; job: number }
  /**
   * Verify and decrypt chunk `index` of an extent in a slot; read it there first from the file that
   * is open as `descriptor`, if there is one. Of no stream.
   */
  | {
      kind: 'verify';
      job: number;
      slot: number;
      index: number;
      descriptor: number | null;
      extent: SealTerms;
    }
  | { kind: 'drop'; stream: number };

/** An ExtentKey as it crosses threads. */
export interface KeyTerms {
  id: Uint8Array;
  key: Uint8Array;
  algorithm: number;
  cipher: Uint8Array | null;
}

/** An ExtentSeal as it crosses threads. */
export interface SealTerms extends KeyTerms {
  extentBytes: number;
}

export interface DigestReply {
  job: number;
  digests?: { md5: Uint8Array; sha256: Uint8Array; checksums: readonly Uint8Array[] };
  error?: unknown;
  /** The system's code of the error (`ENOSPC`), which errors lose between threads. */
  code?: string | undefined;
  /** The error is an IntegrityError: errors lose their class too. */
  isIntegrity?: boolean;
}
