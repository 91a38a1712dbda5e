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
  /** Written into several stores: by run the numbers of those that have it, its own first. */
  places?: number[][];
}

/** Several stores that take the same bytes. */
export interface WriteLegs {
  /** Their numbers, in order. */
  stores: readonly number[];
  /** How many have them before a write counts. */
  ack: number;
  tallyOf: (store: number) => StoreTally | undefined;
}

export interface WriteOptions {
  /** Number of the store that takes the bytes. */
  store: number;
  /** Where several do: those, of which `store` is the first. */
  legs?: WriteLegs;
  place: WritePlace;
  /** The exact size to come, bytes. */
  sizeBytes: number;
  /** `sizeBytes` is only the most that can come: the size is known at the end. */
  isAtMost?: true;
  /** To be computed of the bytes. */
  checksums: readonly ChecksumAlgorithm[];
  /** The bytes are not to be encrypted: they are of no tenant, and each record in them is. */
  isPlain?: true;
  /** The bytes must not lie in the database itself, however few they are. */
  isApart?: true;
  /** A new extent id whose intent is durable: nothing is written to a store under another. */
  takeId: () => Buffer | Promise<Buffer>;
  /** Counts what is asked of a store over a network. */
  tally?: StoreTally;
  /** The party whose share of the memory it takes; by default the gateway's own. */
  party?: Party;
  /**
   * Called when the client is so slow that others wait for the buffer it fills, and what is in it
   * cannot be written without the rest: abort the sink. Without it nobody is waited for.
   */
  recall?: () => void;
}

/** A sink takes an object's bytes, in order, then digests them, and then seals them. */
export interface ObjectSink {
  /**
   * Takes the next bytes. Null: go on at once. A promise: call nothing but `abort` until it
   * resolves, and leave `bytes` unchanged until then; it rejects when the write has failed. Refusal
   * IncompleteBody when more than `sizeBytes` come.
   */
  write(bytes: Buffer): Promise<void> | null;
  /**
   * No more bytes come: their digests. Refusal IncompleteBody when fewer than `sizeBytes` came,
   * unless that was only the most. When it fails, `abort` is still to be called.
   */
  digest(): Promise<Digests> | Digests;
  /**
   * Waits until all is durable. `digests`: as `digest` gave them; `description`: what the bytes
   * are, null when they are no object by themselves. When it fails, `abort` is still to be called.
   */
  seal(
    digests: Digests,
    description: ObjectDescription | null,
  ): Promise<WrittenObject> | WrittenObject;
  /**
   * Removes what was written and gives everything back. It may be called at any time and twice;
   * after `seal` only while it is certain that no catalog row names the extents.
   */
  abort(): Promise<void>;
}
