// What a writer is asked and what it answers: the terms between the gateway and both kinds of sink.
// Invariant: the sink never asks for memory that grows with the object; `write` tells when to wait.
import type { ExtentRun } from '../core/manifest.ts';
import type { ChecksumAlgorithm } from './checksums.ts';

export interface WrittenObject {
  sizeBytes: number;
  md5: Buffer;
  sha256: Buffer;
  /** Of the asked algorithm, big-endian; null when none was asked for. */
  checksum: Buffer | null;
  runs: ExtentRun[];
  /**
   * The sealed bytes of a small object, alone in their ArrayBuffer so that they can be transferred.
   */
  inline: { id: Buffer; body: Uint8Array } | null;
}

export interface WriteOptions {
  tenant: string;
  /** The exact size to come, bytes. */
  sizeBytes: number;
  checksum: ChecksumAlgorithm | null;
  /**
   * Records intents for these extent ids durably; no store write begins before it is done. Called
   * again and again while a long object comes in.
   */
  declare: (ids: Buffer[]) => Promise<void>;
  /** Called when the client is so slow that others wait for the buffer it fills: abort the sink. */
  recall?: () => void;
}

/** Where an object's bytes are pushed, in order. */
export interface ObjectSink {
  /**
   * Takes the next bytes. Null: go on at once. A promise: call nothing but `abort` until it
   * resolves, and leave `bytes` unchanged until then; it rejects when the write has failed. Refusal
   * IncompleteBody when more than `sizeBytes` come.
   */
  write(bytes: Buffer): Promise<void> | null;
  /**
   * Waits until all is durable. Refusal IncompleteBody when fewer than `sizeBytes` came. When it
   * rejects, `abort` is still to be called.
   */
  finish(): Promise<WrittenObject>;
  /**
   * Removes what was written and gives all back. Safe at any time and twice; after `finish` only
   * while it is certain that no catalog row names the extents.
   */
  abort(): Promise<void>;
}
