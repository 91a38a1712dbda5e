// Takes an object's bytes and makes them extents (DESIGN sections 4.7, 5 and 7). Small objects are
// hashed and sealed here and go inline with their catalog row; large ones go through ExtentSink.
// Invariant: `finish` resolves only for exactly `sizeBytes` bytes, all durable or, if inline,
// sealed and ready for the ledger's transaction. An empty object has no extent at all.
import { hash } from 'node:crypto';
import { Refusal } from '../core/errors.ts';
import { newExtentId } from '../core/ids.ts';
import type { DataKey, Keyring } from '../core/keyring.ts';
import { chunkBytes, inlineBytesMax, tagBytes } from '../core/limits.ts';
import type { ExtentRun } from '../core/manifest.ts';
import { inlineStore } from '../core/manifest.ts';
import type { BufferPool } from './buffer-pool.ts';
import type { ChecksumAlgorithm } from './checksums.ts';
import { computeChecksum } from './checksums.ts';
import { defaultAlgorithm, deriveExtentKey, sealChunk } from './chunk-format.ts';
import type { DigestPool } from './digest-pool.ts';
import { ExtentSink } from './extent-sink.ts';
import type { ObjectSink, WriteOptions, WrittenObject } from './object-sink.ts';
import type { LocalStore } from './stores/local-store.ts';

export type { ChecksumAlgorithm } from './checksums.ts';
export type { ObjectSink, WriteOptions, WrittenObject } from './object-sink.ts';

export interface ObjectWriterOptions {
  keyring: Keyring;
  store: LocalStore;
  digests: DigestPool;
  buffers: BufferPool;
  /** The largest object that goes inline, bytes; at most one chunk. Default 64 KiB. */
  inlineBytesMax?: number;
}

export class ObjectWriter {
  readonly #options: ObjectWriterOptions;
  readonly #inlineBytesMax: number;

  constructor(options: ObjectWriterOptions) {
    this.#options = options;
    this.#inlineBytesMax = options.inlineBytesMax ?? inlineBytesMax;
    if (this.#inlineBytesMax > chunkBytes) throw new Error('an inline object is at most one chunk');
  }

  /** Begins an object. */
  async begin(options: WriteOptions): Promise<ObjectSink> {
    const { keyring, store, digests, buffers } = this.#options;
    const dataKey = keyring.tenantKey(options.tenant);
    if (options.sizeBytes <= this.#inlineBytesMax) return new InlineSink(options, dataKey);
    return new ExtentSink({ ...options, dataKey, store, digests, buffers });
  }
}

/** Collects a small object in its own buffer, with room for the tag. */
class InlineSink implements ObjectSink {
  readonly #dataKey: DataKey;
  readonly #checksum: ChecksumAlgorithm | null;
  readonly #sealed: Buffer;
  readonly #sizeBytes: number;
  #filled = 0;

  constructor(options: WriteOptions, dataKey: DataKey) {
    this.#dataKey = dataKey;
    this.#checksum = options.checksum;
    this.#sizeBytes = options.sizeBytes;
    this.#sealed = Buffer.allocUnsafeSlow(options.sizeBytes + tagBytes);
  }

  write(bytes: Buffer): Promise<void> | null {
    if (this.#filled + bytes.length > this.#sizeBytes) {
      return Promise.reject(new Refusal('IncompleteBody'));
    }
    this.#sealed.set(bytes, this.#filled);
    this.#filled += bytes.length;
    return null;
  }

  async finish(): Promise<WrittenObject> {
    const sizeBytes = this.#sizeBytes;
    if (this.#filled !== sizeBytes) throw new Refusal('IncompleteBody');
    const data = this.#sealed.subarray(0, sizeBytes);
    const sha256 = hash('sha256', data, 'buffer');
    const asked = this.#checksum;
    const sealed = sizeBytes > 0 ? this.#seal() : null;
    return {
      sizeBytes,
      md5: hash('md5', data, 'buffer'),
      sha256,
      checksum: asked === 'SHA256' ? sha256 : asked && computeChecksum(asked, data),
      runs: sealed ? [sealed] : [],
      inline: sealed && { id: sealed.id, body: this.#sealed },
    };
  }

  async abort(): Promise<void> {
    // Nothing was taken and nothing was stored.
  }

  #seal(): ExtentRun {
    const extentBytes = this.#sizeBytes;
    const id = newExtentId();
    const key = deriveExtentKey(this.#dataKey.key, id);
    sealChunk({ id, key, algorithm: defaultAlgorithm, extentBytes }, 0, this.#sealed);
    return {
      id,
      store: inlineStore,
      algorithm: defaultAlgorithm,
      epoch: this.#dataKey.epoch,
      extentBytes,
      offset: 0,
      length: extentBytes,
    };
  }
}
