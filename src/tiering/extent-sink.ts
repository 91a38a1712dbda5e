// The way of a large object's bytes: copied once into pooled chunk buffers, hashed and sealed there
// by a digest thread, written to their extents' files. Invariant: a stream holds at most four
// buffers, and while it waits for another, all that it holds are on their way out; so memory is
// bounded, a slow disk stops the client, and streams cannot lock each other up. Nothing is written
// before it is declared, and only a little is declared before it comes: what a client announces and
// never sends costs the catalog next to nothing.
import { Refusal } from '../core/errors.ts';
import { newExtentId } from '../core/ids.ts';
import type { DataKey } from '../core/keyring.ts';
import { extentBytesMax, tagBytes } from '../core/limits.ts';
import { localStore } from '../core/manifest.ts';
import type { BufferPool, ChunkBuffer } from './buffer-pool.ts';
import type { ExtentSeal } from './chunk-format.ts';
import {
  chunkCount,
  chunkLength,
  chunkPosition,
  defaultAlgorithm,
  deriveExtentKey,
} from './chunk-format.ts';
import type { DigestPool, DigestStream } from './digest-pool.ts';
import type { ObjectSink, WriteOptions, WrittenObject } from './object-sink.ts';
import type { ExtentFile, LocalStore } from './stores/local-store.ts';

/** Chunk buffers that one stream may hold. */
const buffersPerStreamMax = 4;
/** Extents of one stream that may wait for their fsync while the next one is filled. */
const unfinishedExtentsMax = 2;
/** Extents declared ahead of the one being filled, so that a fast client waits for no commit. */
const extentsAhead = 2;

export interface ExtentSinkOptions extends WriteOptions {
  dataKey: DataKey;
  store: LocalStore;
  digests: DigestPool;
  buffers: BufferPool;
}

interface Extent {
  seal: ExtentSeal;
  chunksLeft: number;
  /** Resolves once its intent is durable. */
  declared: Promise<void>;
  /**
   * Resolves to the open file once the intent is declared. Null until its first chunk is full.
   */
  file: Promise<ExtentFile> | null;
  /** The same once it is open: then the digest thread writes to it by itself. */
  opened: ExtentFile | null;
  finished: Promise<void> | null;
  durable: boolean;
}

/** A promise that others resolve, made only when somebody waits. */
interface Signal {
  promise: Promise<void>;
  resolve: () => void;
}

function createSignal(): Signal {
  let resolve: () => void = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

export class ExtentSink implements ObjectSink {
  readonly #options: ExtentSinkOptions;
  readonly #extents: Extent[] = [];
  readonly #stream: DigestStream;
  #received = 0;

  /** The chunk being filled: its buffer, and how far. */
  #buffer: ChunkBuffer | null = null;
  #filled = 0;
  #chunkIndex = 0;
  #extentIndex = 0;

  /** Buffers on their way through digest and store. */
  #inFlight = 0;
  /** Resolved when a buffer of ours has come back or the stream has failed. */
  #moved: Signal | null = null;
  #failure: unknown = null;
  #closed = false;

  constructor(options: ExtentSinkOptions) {
    this.#options = options;
    // Intents are made durable while the first chunk comes in.
    this.#declareNext(1 + extentsAhead);
    this.#stream = options.digests.open(options.checksum);
    this.#stream.beginExtent((this.#extents[0] as Extent).seal);
  }

  write(bytes: Buffer): Promise<void> | null {
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#received + bytes.length > this.#options.sizeBytes) {
      this.#fail(new Refusal('IncompleteBody'));
      return Promise.reject(this.#failure);
    }
    this.#received += bytes.length;
    const taken = this.#take(bytes, 0);
    return taken === bytes.length ? null : this.#takeRest(bytes, taken);
  }

  async finish(): Promise<WrittenObject> {
    if (this.#received !== this.#options.sizeBytes) this.#fail(new Refusal('IncompleteBody'));
    await this.#drain();
    if (this.#failure) throw this.#failure;
    const digests = await this.#stream.finish();
    await Promise.all(this.#extents.map((extent) => extent.finished));
    this.#close();
    const { sizeBytes, dataKey } = this.#options;
    const runs = this.#extents.map(({ seal: { id, algorithm, extentBytes } }) => ({
      id,
      store: localStore,
      algorithm,
      epoch: dataKey.epoch,
      extentBytes,
      offset: 0,
      length: extentBytes,
    }));
    return { sizeBytes, ...digests, runs, inline: null };
  }

  async abort(): Promise<void> {
    this.#fail(new Error('the write was aborted'));
    // Files and buffers are given back only when no thread can still write to them.
    await this.#drain();
    this.#close();
    await Promise.all(this.#extents.map((extent) => this.#removeExtent(extent)));
  }

  /** Makes and declares so many more extents, as far as the object goes. */
  #declareNext(count: number): void {
    const { sizeBytes, dataKey, declare } = this.#options;
    const first = this.#extents.length;
    const end = Math.min(first + count, Math.ceil(sizeBytes / extentBytesMax));
    if (first === end) return;
    const ids = Array.from({ length: end - first }, () => newExtentId());
    const declared = declare(ids);
    declared.catch((error: unknown) => this.#fail(error));
    for (const id of ids) {
      const before = this.#extents.length * extentBytesMax;
      const extentBytes = Math.min(extentBytesMax, sizeBytes - before);
      const key = deriveExtentKey(dataKey.key, id);
      this.#extents.push({
        seal: { id, key, algorithm: defaultAlgorithm, extentBytes },
        chunksLeft: chunkCount(extentBytes),
        declared,
        file: null,
        opened: null,
        finished: null,
        durable: false,
      });
    }
  }

  /** Copies what finds room without waiting; says how many bytes are taken by then. */
  #take(bytes: Buffer, from: number): number {
    let at = from;
    while (at < bytes.length) {
      if (!this.#buffer && this.#inFlight < buffersPerStreamMax) {
        this.#hold(this.#options.buffers.tryAcquire());
      }
      if (!this.#buffer) return at;
      at += this.#fill(this.#buffer, bytes, at);
    }
    return at;
  }

  async #takeRest(bytes: Buffer, from: number): Promise<void> {
    for (let at = from; at < bytes.length; at = this.#take(bytes, at)) {
      if (this.#inFlight >= buffersPerStreamMax) await this.#nextMove();
      else await this.#acquire();
      if (this.#failure) throw this.#failure;
    }
  }

  async #acquire(): Promise<void> {
    const { buffers } = this.#options;
    const buffer = await buffers.acquire();
    if (this.#failure) buffers.release(buffer);
    else this.#hold(buffer);
  }

  /** The client fills it, in its own time. */
  #hold(buffer: ChunkBuffer | null): void {
    this.#buffer = buffer;
    const { buffers, recall } = this.#options;
    if (buffer && recall) buffers.lend(buffer, recall);
  }

  /** Copies into the chunk under way, and sends it off when it is full. Says how many bytes. */
  #fill(buffer: ChunkBuffer, bytes: Buffer, from: number): number {
    const extent = this.#extents[this.#extentIndex] as Extent;
    const length = chunkLength(extent.seal.extentBytes, this.#chunkIndex);
    const count = Math.min(bytes.length - from, length - this.#filled);
    buffer.bytes.set(bytes.subarray(from, from + count), this.#filled);
    this.#filled += count;
    if (this.#filled === length) this.#sendOff(extent, buffer);
    return count;
  }

  #sendOff(extent: Extent, buffer: ChunkBuffer): void {
    const index = this.#chunkIndex;
    const sealed = buffer.bytes.subarray(0, this.#filled + tagBytes);
    this.#options.buffers.keep(buffer);
    this.#buffer = null;
    this.#filled = 0;
    this.#inFlight++;
    extent.file ??= this.#openFile(this.#extentIndex);
    this.#store(extent, buffer, index, sealed)
      .catch((error: unknown) => this.#fail(error))
      .finally(() => this.#return(buffer));

    this.#chunkIndex++;
    if (this.#chunkIndex < chunkCount(extent.seal.extentBytes)) return;
    this.#chunkIndex = 0;
    this.#extentIndex++;
    this.#declareNext(1);
    const next = this.#extents[this.#extentIndex];
    if (next) this.#stream.beginExtent(next.seal);
  }

  async #openFile(extentIndex: number): Promise<ExtentFile> {
    const extent = this.#extents[extentIndex] as Extent;
    await extent.declared;
    // Else a fast client would fill the page cache while the disk is still at earlier extents.
    await this.#extents[extentIndex - unfinishedExtentsMax]?.finished;
    if (this.#failure) throw this.#failure;
    extent.opened = await this.#options.store.create(extent.seal.id);
    return extent.opened;
  }

  async #store(extent: Extent, buffer: ChunkBuffer, index: number, sealed: Buffer): Promise<void> {
    const { opened } = extent;
    const sealing = this.#stream.seal(buffer, index, opened?.descriptor ?? null);
    // Both are awaited even when one fails: the slot is not ours before the digest thread is done.
    const [, file] = await settleAll(sealing, extent.file);
    if (this.#failure || !file) return;
    if (!opened) await file.write(sealed, chunkPosition(index));
    if (--extent.chunksLeft > 0) return;
    extent.finished = file.finish().then(() => {
      extent.durable = true;
    });
    extent.finished.catch((error: unknown) => this.#fail(error));
  }

  #return(buffer: ChunkBuffer): void {
    this.#inFlight--;
    this.#options.buffers.release(buffer);
    this.#move();
  }

  #fail(error: unknown): void {
    this.#failure ??= isDiskFull(error)
      ? new Refusal('ServiceUnavailable', { message: 'The store is full.', cause: error })
      : error;
    this.#move();
  }

  #move(): void {
    this.#moved?.resolve();
    this.#moved = null;
  }

  #nextMove(): Promise<void> {
    this.#moved ??= createSignal();
    return this.#moved.promise;
  }

  async #drain(): Promise<void> {
    while (this.#inFlight > 0) await this.#nextMove();
  }

  #close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#stream.close();
    if (this.#buffer) this.#options.buffers.release(this.#buffer);
    this.#buffer = null;
  }

  async #removeExtent(extent: Extent): Promise<void> {
    const file = await extent.file?.catch(() => null);
    if (!file) return;
    await extent.finished?.catch(() => null);
    if (extent.durable) await this.#options.store.remove(extent.seal.id);
    else await file.abort();
  }
}

/** What a full disk says, or a quota of the file system's. */
function isDiskFull(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOSPC' || code === 'EDQUOT';
}

async function settleAll<A, B>(a: Promise<A>, b: Promise<B> | null): Promise<[A, B | null]> {
  const results = await Promise.allSettled([a, b]);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
  return [await a, await b];
}
