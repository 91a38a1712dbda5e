// What a writer is asked and what it answers: the terms between the gateway and all kinds of sink.
// Invariant: the sink never asks for memory that grows with the object; `write` tells when to wait.
import type { ExtentRun } from '../core/manifest.ts';
import type { Party } from './buffer-pool.ts';
import type { ChecksumAlgorithm } from './checksums.ts';
import type { Digests } from './digest-jobs.ts';
import type { ObjectDescription, WritePlace } from './extent-metadata.ts';
import type { StoreTally } from './stores/store-tally.ts';

export type { Digests } from './digest-jobs.ts';
export type { ObjectDescription, WritePlace } from './extent-metadata.ts';

export interface WrittenObject extends Digests {
  sizeBytes: number;
  runs: ExtentRun[];
  /**
   * The sealed bytes of a small object, alone in their ArrayBuffer so that they can be transferred.
   */
  inline: { id: Buffer; body: Uint8Array } | null;
}

export interface WriteOptions {
  /** Number of the store that takes the bytes. */
  store: number;
  place: WritePlace;
  /** The exact size to come, bytes. */
  sizeBytes: number;
  /** Only the most that can come: the end alone will tell the size. */
  isAtMost?: true;
  checksum: ChecksumAlgorithm | null;
  /** Not in the database itself, however small. */
  isApart?: true;
  /** A new extent id whose intent is durable: nothing is written to a store under another. */
  takeId: () => Buffer | Promise<Buffer>;
  /** Counts what is asked of a store over a network. */
  tally?: StoreTally;
  /** Whose memory it takes; default: the gateway's own. */
  party?: Party;
  /**
   * Called when the client is so slow that others wait for the buffer it fills, and what is in it
   * cannot be written without the rest: abort the sink. Without it nobody is waited for.
   */
  recall?: () => void;
}

/**
 * What the bytes are, now that they have come; null when they are no object by themselves. Throws a
 * `Refusal` when they are not what the client said.
 */
export type Describe = (digests: Digests) => ObjectDescription | null;

/** Where an object's bytes are pushed, in order. */
export interface ObjectSink {
  /**
   * Takes the next bytes. Null: go on at once. A promise: call nothing but `abort` until it
   * resolves, and leave `bytes` unchanged until then; it rejects when the write has failed. Refusal
   * IncompleteBody when more than `sizeBytes` come.
   */
  write(bytes: Buffer): Promise<void> | null;
  /**
   * Asks what the bytes are, and waits until all is durable. Refusal IncompleteBody when fewer than
   * `sizeBytes` came, unless that was only the most. When it rejects, `abort` is still to be called.
   */
  finish(describe: Describe): Promise<WrittenObject>;
  /**
   * Removes what was written and gives all back. Safe at any time and twice; after `finish` only
   * while it is certain that no catalog row names the extents.
   */
  abort(): Promise<void>;
}
