// The sink of the local store: extents of 16 MiB, each a file that the digest thread writes to
// while the chunk is warm. Invariant: it holds at most four buffers, all on their way to the disk,
// and no more than two files wait for their fsync while the next one is filled.
import { isUnwritable, Refusal } from '../core/errors.ts';
import { extentBytesMax, tagBytes } from '../core/limits.ts';
import { type ExtentRun, localStore } from '../core/manifest.ts';
import type { ChunkBuffer } from './buffer-pool.ts';
import { chunkPosition, type ExtentKey } from './chunk-format.ts';
import type { ChunkToSeal } from './digest-pool.ts';
import { type Ends, ExtentSink, type ExtentSinkOptions } from './extent-sink.ts';
import type { ExtentFile, LocalStore } from './stores/local-store.ts';

/** Chunk buffers that one stream may hold. */
const buffersPerStreamMax = 4;
/** Extents of one stream that may wait for their fsync while the next one is filled. */
const unfinishedExtentsMax = 2;

interface LocalExtent {
  key: ExtentKey;
  extentBytes: number;
  chunks: number;
  chunksWritten: number;
  /** Whether its last chunk has come. */
  isEnded: boolean;
  file: Promise<ExtentFile>;
  /** The same once it is open: then the digest thread writes to it by itself. */
  opened: ExtentFile | null;
  finished: Promise<void> | null;
  durable: boolean;
}

export class LocalSink extends ExtentSink {
  readonly #store: LocalStore;
  readonly #extents: LocalExtent[] = [];
  #open: LocalExtent | null = null;

  constructor(options: ExtentSinkOptions & { local: LocalStore }) {
    super(options);
    this.#store = options.local;
  }

  protected override get isExtentOpen(): boolean {
    return this.#open !== null;
  }

  protected override get hasRoom(): boolean {
    return this.inFlight < buffersPerStreamMax;
  }

  protected override accept(buffer: ChunkBuffer, length: number, ends: Ends): void {
    const extent = this.#open ?? this.#begin();
    const index = extent.chunks++;
    extent.extentBytes += length;
    extent.isEnded = ends !== null || extent.extentBytes === extentBytesMax;
    this.#open = extent.isEnded ? null : extent;
    const { key, opened, isEnded: last } = extent;
    const descriptor = opened?.descriptor ?? null;
    this.#write(extent, { extent: key, buffer, length, index, last, descriptor })
      .catch((error: unknown) => this.#failOf(error))
      .finally(() => this.giveBack(buffer));
  }

  protected override letGo(): void {
    // Everything that is held is on its way to the disk already.
  }

  protected override async complete(): Promise<ExtentRun[]> {
    await this.drain();
    await Promise.all(this.#extents.map(({ finished }) => finished));
    return this.#extents.map(({ key: { id, algorithm }, extentBytes }) => ({
      id,
      store: localStore,
      algorithm,
      epoch: this.epoch,
      extentBytes,
      offset: 0,
      length: extentBytes,
      trailerBytes: 0,
    }));
  }

  protected override async discard(): Promise<void> {
    // Files and buffers are given back only when no thread can still write to them.
    await this.drain();
    await Promise.all(this.#extents.map((extent) => this.#remove(extent)));
  }

  #begin(): LocalExtent {
    const key = this.beginExtent();
    // Otherwise a fast client would fill the page cache while the disk is still at earlier extents.
    const former = this.#extents.at(-unfinishedExtentsMax);
    const extent: LocalExtent = {
      key,
      extentBytes: 0,
      chunks: 0,
      chunksWritten: 0,
      isEnded: false,
      file: this.#openFile(key.id, former),
      opened: null,
      finished: null,
      durable: false,
    };
    extent.file.then(
      (file) => {
        extent.opened = file;
      },
      (error: unknown) => this.#failOf(error),
    );
    this.#extents.push(extent);
    return extent;
  }

  async #openFile(id: Buffer, former: LocalExtent | undefined): Promise<ExtentFile> {
    await former?.finished;
    if (this.failure) throw this.failure;
    return this.#store.create(id);
  }

  async #write(extent: LocalExtent, chunk: ChunkToSeal): Promise<void> {
    // Both are awaited even when one fails: the slot is not ours before the digest thread is done.
    const [sealed, opened] = await Promise.allSettled([this.stream.seal(chunk), extent.file]);
    if (sealed.status === 'rejected') throw sealed.reason;
    if (opened.status === 'rejected') throw opened.reason;
    if (this.failure) return;
    const file = opened.value;
    if (chunk.descriptor === null) {
      const bytes = chunk.buffer.bytes.subarray(0, chunk.length + tagBytes);
      await file.write(bytes, chunkPosition(chunk.index));
    }
    extent.chunksWritten++;
    if (!extent.isEnded || extent.chunksWritten < extent.chunks) return;
    extent.finished = file.finish().then(() => {
      extent.durable = true;
    });
    extent.finished.catch((error: unknown) => this.#failOf(error));
  }

  #failOf(error: unknown): void {
    this.fail(
      isUnwritable(error)
        ? new Refusal('ServiceUnavailable', { message: 'The store takes no bytes.', cause: error })
        : error,
    );
  }

  async #remove(extent: LocalExtent): Promise<void> {
    const file = await extent.file.catch(() => null);
    if (!file) return;
    await extent.finished?.catch(() => null);
    if (extent.durable) await this.#store.remove(extent.key.id);
    else await file.abort();
  }
}
