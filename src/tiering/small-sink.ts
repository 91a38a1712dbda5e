// The way of a small object's bytes: collected in one buffer of its own, hashed and sealed on the
// spot, then put into a remote store as one extent, or left to travel in the catalog's transaction.
// Invariant: nothing is stored before the digests were found right. An empty object has no extent.
import { hash } from 'node:crypto';
import { Refusal } from '../core/errors.ts';
import { newExtentId } from '../core/ids.ts';
import type { Keyring } from '../core/keyring.ts';
import { tagBytes } from '../core/limits.ts';
import type { ExtentRun } from '../core/manifest.ts';
import { inlineStore } from '../core/manifest.ts';
import { computeChecksum } from './checksums.ts';
import { defaultAlgorithm, deriveExtentKey, sealChunk } from './chunk-format.ts';
import { type LastExtent, sealExtentMetadata } from './extent-metadata.ts';
import type { Describe, Digests, ObjectSink, WriteOptions, WrittenObject } from './object-sink.ts';
import type { RemoteStore } from './stores/store.ts';

export interface SmallSinkOptions extends WriteOptions {
  keyring: Keyring;
  /** Null: inline. */
  remote: RemoteStore | null;
}

export class SmallSink implements ObjectSink {
  readonly #options: SmallSinkOptions;
  /** The bytes, with room for the tag. */
  #sealed: Buffer;
  #filled = 0;
  /** The extent that was put, or tried to be. */
  #id: Buffer | null = null;
  #put: Promise<void> = Promise.resolve();
  #isAborted = false;

  constructor(options: SmallSinkOptions) {
    this.#options = options;
    this.#sealed = Buffer.allocUnsafeSlow(options.sizeBytes + tagBytes);
  }

  write(bytes: Buffer): Promise<void> | null {
    if (this.#filled + bytes.length > this.#options.sizeBytes) {
      return Promise.reject(new Refusal('IncompleteBody'));
    }
    this.#sealed.set(bytes, this.#filled);
    this.#filled += bytes.length;
    return null;
  }

  async finish(describe: Describe): Promise<WrittenObject> {
    const { remote } = this.#options;
    this.#settleSize();
    const sizeBytes = this.#filled;
    const digests = this.#digest();
    const description = describe(digests);
    if (sizeBytes === 0) return { ...digests, sizeBytes, runs: [], inline: null };
    if (!remote) {
      const run = this.#seal(newExtentId());
      const inline = { id: run.id, body: this.#sealed };
      return { ...digests, sizeBytes, runs: [run], inline };
    }
    const run = this.#seal(await this.#options.takeId());
    const sha256 = digests.sha256.toString('hex');
    const last = description && {
      ...description,
      extentCount: 1,
      sizeBytes,
      sha256,
      timeMs: Date.now(),
    };
    await this.#store(remote, run, last);
    return { ...digests, sizeBytes, runs: [run], inline: null };
  }

  async abort(): Promise<void> {
    this.#isAborted = true;
    const { remote } = this.#options;
    if (!remote || !this.#id) return;
    await this.#put.catch(() => null);
    // What cannot be removed now is an intent, and the sweeper's.
    await remote.remove(this.#id, this.#options.tally).catch(() => null);
    this.#id = null;
  }

  /** The buffer has the object's size from here on: it travels as it is. */
  #settleSize(): void {
    const { sizeBytes, isAtMost } = this.#options;
    if (this.#filled === sizeBytes) return;
    if (!isAtMost) throw new Refusal('IncompleteBody');
    const sealed = Buffer.allocUnsafeSlow(this.#filled + tagBytes);
    this.#sealed.copy(sealed, 0, 0, this.#filled);
    this.#sealed = sealed;
  }

  #digest(): Digests {
    const data = this.#sealed.subarray(0, this.#filled);
    const asked = this.#options.checksum;
    const sha256 = hash('sha256', data, 'buffer');
    return {
      md5: hash('md5', data, 'buffer'),
      sha256,
      checksum: asked === 'SHA256' ? sha256 : asked && computeChecksum(asked, data),
    };
  }

  #seal(id: Buffer): ExtentRun {
    const { keyring, place, remote } = this.#options;
    const sizeBytes = this.#filled;
    const dataKey = keyring.tenantKey(place.tenant);
    const algorithm = defaultAlgorithm;
    const key = deriveExtentKey(dataKey.key, id);
    sealChunk({ id, key, algorithm }, { index: 0, last: true }, this.#sealed);
    return {
      id,
      store: remote?.number ?? inlineStore,
      algorithm,
      epoch: dataKey.epoch,
      extentBytes: sizeBytes,
      offset: 0,
      length: sizeBytes,
      trailerBytes: 0,
    };
  }

  async #store(remote: RemoteStore, run: ExtentRun, last: LastExtent | null): Promise<void> {
    const { keyring, place } = this.#options;
    const { id, extentBytes, algorithm, epoch } = run;
    const write = id.toString('hex');
    const own = { ...place, write, index: 0, offset: 0, extentBytes, algorithm, epoch };
    const trailer = sealExtentMetadata(keyring, id, last ? { ...own, last } : own);
    run.trailerBytes = trailer.length;
    if (this.#isAborted) throw new Error('the write was aborted');
    this.#id = id;
    this.#put = remote.put(id, [this.#sealed, trailer], this.#options.tally);
    await this.#put;
  }
}
