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
import { computeChecksum, loadChecksums } from './checksums.ts';
import { sealChunk } from './chunk-format.ts';
import { type LastExtent, sealExtentMetadata } from './extent-metadata.ts';
import { newExtentKey } from './extent-run.ts';
import type { WriteTarget } from './mirrored-sink.ts';
import type {
  Digests,
  ObjectDescription,
  ObjectSink,
  WriteOptions,
  WrittenObject,
} from './object-sink.ts';

export interface SmallSinkOptions {
  keyring: Keyring;
  write: WriteOptions;
  /** Null: the bytes go inline. */
  remote: WriteTarget | null;
  isEncrypted: boolean;
}

export class SmallSink implements ObjectSink {
  readonly #keyring: Keyring;
  readonly #write: WriteOptions;
  readonly #remote: WriteTarget | null;
  readonly #isEncrypted: boolean;
  /** The bytes, with room for the tag. */
  #sealed: Buffer;
  #filled = 0;
  /** The extent that was put, or tried to be. */
  #id: Buffer | null = null;
  #putting: Promise<void> | null = null;
  #isAborted = false;

  constructor({ keyring, write, remote, isEncrypted }: SmallSinkOptions) {
    this.#keyring = keyring;
    this.#write = write;
    this.#remote = remote;
    this.#isEncrypted = isEncrypted;
    this.#sealed = Buffer.allocUnsafeSlow(write.sizeBytes + tagBytes);
  }

  write(bytes: Buffer): Promise<void> | null {
    if (this.#filled + bytes.length > this.#write.sizeBytes) {
      return Promise.reject(new Refusal('IncompleteBody'));
    }
    this.#sealed.set(bytes, this.#filled);
    this.#filled += bytes.length;
    return null;
  }

  digest(): Promise<Digests> | Digests {
    this.#settleSize();
    const loading = loadChecksums(this.#write.checksums);
    return loading ? loading.then(() => this.#digest()) : this.#digest();
  }

  #digest(): Digests {
    const data = this.#sealed.subarray(0, this.#filled);
    const md5 = hash('md5', data, 'buffer');
    const sha256 = hash('sha256', data, 'buffer');
    const checksums = this.#write.checksums.map((asked) => {
      if (asked === 'MD5') return md5;
      return asked === 'SHA256' ? sha256 : computeChecksum(asked, data);
    });
    return { md5, sha256, checksums };
  }

  seal(
    { md5, sha256, checksums }: Digests,
    description: ObjectDescription | null,
  ): Promise<WrittenObject> | WrittenObject {
    const sizeBytes = this.#filled;
    const written = { md5, sha256, checksums, sizeBytes, runs: [], inline: null };
    if (sizeBytes === 0) return written;
    if (this.#remote) return this.#put(this.#remote, written, description);
    const run = this.#seal(newExtentId());
    return { ...written, runs: [run], inline: { id: run.id, body: this.#sealed } };
  }

  async #put(
    remote: WriteTarget,
    written: WrittenObject,
    description: ObjectDescription | null,
  ): Promise<WrittenObject> {
    const { sizeBytes, sha256 } = written;
    const run = this.#seal(await this.#write.takeId());
    const last = description && {
      ...description,
      extentCount: 1,
      sizeBytes,
      sha256: sha256.toString('hex'),
      timeMs: Date.now(),
    };
    await this.#store(remote, run, last);
    return { ...written, runs: [run] };
  }

  async abort(): Promise<void> {
    this.#isAborted = true;
    if (!this.#remote || !this.#id) return;
    await this.#putting?.catch(() => null);
    await this.#remote.discard([this.#id], this.#write.tally);
    this.#id = null;
  }

  /** From here on the buffer has the object's size, since it travels as it is. */
  #settleSize(): void {
    const { sizeBytes, isAtMost } = this.#write;
    if (this.#filled === sizeBytes) return;
    if (!isAtMost) throw new Refusal('IncompleteBody');
    const sealed = Buffer.allocUnsafeSlow(this.#filled + tagBytes);
    this.#sealed.copy(sealed, 0, 0, this.#filled);
    this.#sealed = sealed;
  }

  #seal(id: Buffer): ExtentRun {
    const sizeBytes = this.#filled;
    const { tenant } = this.#write.place;
    const epoch = this.#keyring.currentEpoch;
    const key = newExtentKey(this.#keyring, { id, tenant, epoch, isEncrypted: this.#isEncrypted });
    sealChunk(key, { index: 0, last: true }, this.#sealed);
    return {
      id,
      store: this.#remote?.number ?? inlineStore,
      algorithm: key.algorithm,
      epoch,
      extentBytes: sizeBytes,
      offset: 0,
      length: sizeBytes,
      trailerBytes: 0,
    };
  }

  async #store(remote: WriteTarget, run: ExtentRun, last: LastExtent | null): Promise<void> {
    const { place, tally } = this.#write;
    const { id, extentBytes, algorithm, epoch } = run;
    const write = id.toString('hex');
    const own = { ...place, write, index: 0, offset: 0, extentBytes, algorithm, epoch };
    const trailer = sealExtentMetadata(this.#keyring, id, last ? { ...own, last } : own);
    run.trailerBytes = trailer.length;
    if (this.#isAborted) throw new Error('the write was aborted');
    this.#id = id;
    this.#putting = remote.put(id, [this.#sealed, trailer], tally);
    await this.#putting;
  }
}
