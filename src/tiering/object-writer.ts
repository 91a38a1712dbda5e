// Takes an object's bytes and makes them extents of the bucket's store. Small objects are hashed
// and sealed on the spot; large ones go through an ExtentSink. Invariant: `seal` resolves only
// for exactly `sizeBytes` bytes, or at most so many where that was said, all durable or, if inline,
// sealed and ready for the ledger's transaction. An empty object has no extent at all.

import { chunkBytes, inlineBytesMax } from '../core/limits.ts';
import { localStore } from '../core/manifest.ts';
import { LocalSink } from './local-sink.ts';
import { Mirror, MirroredSink, type WriteTarget } from './mirrored-sink.ts';
import type { ObjectReaderOptions } from './object-reader.ts';
import type { ObjectSink, WriteOptions } from './object-sink.ts';
import { RemoteSink } from './remote-sink.ts';
import { SmallSink } from './small-sink.ts';

export type { ChecksumAlgorithm } from './checksums.ts';
export type {
  Digests,
  ObjectDescription,
  ObjectSink,
  WriteOptions,
  WrittenObject,
} from './object-sink.ts';

export interface ObjectWriterOptions extends ObjectReaderOptions {
  /** The largest object that goes inline, bytes; at most one chunk. Default 64 KiB. */
  inlineBytesMax?: number;
  /** Whether bytes are encrypted. Default: they are not. */
  encrypts?: boolean;
}

export class ObjectWriter {
  readonly #options: ObjectWriterOptions;
  readonly #inlineBytesMax: number;
  readonly #encrypts: boolean;

  constructor(options: ObjectWriterOptions) {
    this.#options = options;
    this.#inlineBytesMax = options.inlineBytesMax ?? inlineBytesMax;
    this.#encrypts = options.encrypts ?? false;
    if (this.#inlineBytesMax > chunkBytes) throw new Error('an inline object is at most one chunk');
  }

  /** Begins an object. Throws Refusal ServiceUnavailable when its store is not configured. */
  begin(write: WriteOptions): ObjectSink {
    const { stores, keyring } = this.#options;
    const isEncrypted = this.#encrypts && !write.isPlain;
    if (write.store === localStore && !write.legs) {
      const isSmall = write.sizeBytes <= this.#inlineBytesMax && !write.isApart;
      if (isSmall) return new SmallSink({ keyring, write, remote: null, isEncrypted });
      return new LocalSink({ ...this.#options, ...write, isEncrypted, local: stores.local });
    }
    const { legs } = write;
    if (!legs) return this.#into(stores.remote(write.store), write, isEncrypted);
    const targets = legs.stores.map((number) => stores.leg(number));
    const mirror = new Mirror({ ...legs, legs: targets });
    return new MirroredSink(this.#into(mirror, write, isEncrypted), mirror);
  }

  /** How large extents are at most that all these stores are to have, by number. */
  extentBytesIn(stores: readonly number[]): number {
    const { stores: open } = this.#options;
    return Math.min(...stores.map((number) => open.leg(number).extentBytesMax));
  }

  #into(remote: WriteTarget, write: WriteOptions, isEncrypted: boolean): ObjectSink {
    const { keyring } = this.#options;
    // The memory of larger objects is the pool's, whether they are large or many.
    if (write.sizeBytes <= inlineBytesMax)
      return new SmallSink({ keyring, write, remote, isEncrypted });
    return new RemoteSink({ ...this.#options, ...write, isEncrypted, remote });
  }
}
