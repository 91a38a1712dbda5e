// The sink of a remote store: sealed chunks are collected until they are an extent, which is put as
// a whole, since a retry needs its bytes and a slow client must not hold a connection of the
// store's. Invariants: an extent ends at a chunk, at the latest when it is as large as the store
// wants it and at once when the pool has no buffer left, so that all that is held comes free by
// itself; the newest chunk is not sealed before it is known whether its extent ends with it.
import { tagBytes } from '../core/limits.ts';
import type { ExtentRun } from '../core/manifest.ts';
import { AdaptiveWindow } from './adaptive-window.ts';
import type { ChunkBuffer } from './buffer-pool.ts';
import type { ExtentKey } from './chunk-format.ts';
import { type LastExtent, sealExtentMetadata } from './extent-metadata.ts';
import { type Ends, ExtentSink, type ExtentSinkOptions } from './extent-sink.ts';
import type { WriteTarget } from './mirrored-sink.ts';
import type { Digests, ObjectDescription } from './object-sink.ts';

/** How many extents of one stream are on their way to the store. */
const window = { min: 4, max: 8 };

interface RemoteExtent {
  key: ExtentKey;
  index: number;
  /** Bytes of the write before it. */
  offset: number;
  extentBytes: number;
  trailerBytes: number;
  /** In order; the newest is not sealed before its successor is there, or the extent ends. */
  chunks: { buffer: ChunkBuffer; length: number }[];
  /** Settles when the digest thread has given all chunks back. */
  sealing: Promise<unknown>;
  /** Whether the store may have it, or get it. */
  isSent: boolean;
  settled: Promise<void> | null;
}

export class RemoteSink extends ExtentSink {
  readonly #store: WriteTarget;
  readonly #window: AdaptiveWindow;
  readonly #extents: RemoteExtent[] = [];
  #open: RemoteExtent | null = null;
  /** The object's last extent: it is put only when the object's digests are known. */
  #last: RemoteExtent | null = null;
  /** How many extents are on their way. */
  #underWay = 0;

  constructor(options: ExtentSinkOptions & { remote: WriteTarget }) {
    super(options);
    this.#store = options.remote;
    const stream = options.remote.meter.openStream('write');
    this.#window = new AdaptiveWindow({ ...window, stream });
  }

  protected override get isExtentOpen(): boolean {
    return this.#open !== null;
  }

  protected override get hasRoom(): boolean {
    return this.#underWay < this.#window.size;
  }

  protected override accept(buffer: ChunkBuffer, length: number, ends: Ends): void {
    const extent = this.#open ?? this.#begin();
    if (extent.chunks.length > 0) this.#seal(extent, false);
    extent.chunks.push({ buffer, length });
    extent.extentBytes += length;
    if (ends === 'object') this.#endLast(extent);
    else if (ends === 'extent') this.letGo();
    else if (extent.extentBytes + length > this.#store.extentBytesMax) this.letGo();
    // Its client may be slow: then what there is of the extent is sent off for those who wait.
    else this.options.buffers.lend(buffer, () => this.letGo(), true);
  }

  protected override letGo(): void {
    const extent = this.#end();
    if (extent) this.#sendOff(extent, null);
  }

  protected override async complete(
    description: ObjectDescription | null,
    { sha256 }: Digests,
  ): Promise<ExtentRun[]> {
    const last = this.#last as RemoteExtent;
    this.#last = null;
    const { sizeBytes } = this;
    const extentCount = this.#extents.length;
    this.#sendOff(
      last,
      description && {
        ...description,
        extentCount,
        sizeBytes,
        sha256: sha256.toString('hex'),
        timeMs: Date.now(),
      },
    );
    await Promise.all(this.#extents.map(({ settled }) => settled));
    this.#window.close();
    return this.#extents.map(({ key: { id, algorithm }, extentBytes, trailerBytes }) => ({
      id,
      store: this.#store.number,
      algorithm,
      epoch: this.epoch,
      extentBytes,
      offset: 0,
      length: extentBytes,
      trailerBytes,
    }));
  }

  protected override async discard(): Promise<void> {
    // The write has failed: nothing is put any more, and buffers are given back once they are ours.
    this.letGo();
    if (this.#last) this.#sendOff(this.#last, null);
    this.#last = null;
    await Promise.all(this.#extents.map(({ settled }) => settled));
    const sent = this.#extents.filter(({ isSent }) => isSent);
    for (const extent of sent) extent.isSent = false;
    await this.#store.discard(
      sent.map(({ key }) => key.id),
      this.options.tally,
    );
  }

  #begin(): RemoteExtent {
    const before = this.#extents.at(-1);
    const extent: RemoteExtent = {
      key: this.beginExtent(),
      index: this.#extents.length,
      offset: before ? before.offset + before.extentBytes : 0,
      extentBytes: 0,
      trailerBytes: 0,
      chunks: [],
      sealing: Promise.resolve(),
      isSent: false,
      settled: null,
    };
    this.#extents.push(extent);
    this.#open = extent;
    return extent;
  }

  /** Gives the newest chunk to the digest thread, which has them all in order. */
  #seal(extent: RemoteExtent, last: boolean): void {
    const index = extent.chunks.length - 1;
    const { buffer, length } = extent.chunks[index] as { buffer: ChunkBuffer; length: number };
    const { key } = extent;
    // The thread answers in order: when it is done with the last one, it is with all.
    extent.sealing = this.stream.seal({
      extent: key,
      buffer,
      length,
      index,
      last,
      descriptor: null,
    });
    extent.sealing.catch((error: unknown) => this.fail(error));
  }

  /** Ends the open extent with its newest chunk; null when none is open. */
  #end(): RemoteExtent | null {
    const extent = this.#open;
    if (!extent) return null;
    this.#open = null;
    this.#seal(extent, true);
    for (const { buffer } of extent.chunks) this.options.buffers.keep(buffer);
    return extent;
  }

  /** Its buffers wait for the client again: for what follows the bytes, such as trailers. */
  #endLast(extent: RemoteExtent): void {
    this.#last = extent;
    this.#end();
    const { buffers, recall } = this.options;
    if (recall) for (const { buffer } of extent.chunks) buffers.lend(buffer, recall);
  }

  #sendOff(extent: RemoteExtent, last: LastExtent | null): void {
    this.#underWay++;
    if (!this.hasRoom) this.#window.limit();
    extent.settled = this.#put(extent, last).catch((error: unknown) => this.fail(error));
  }

  async #put(extent: RemoteExtent, last: LastExtent | null): Promise<void> {
    const { keyring, place, buffers } = this.options;
    const { key, index, offset, extentBytes, chunks } = extent;
    try {
      for (const { buffer } of chunks) buffers.keep(buffer);
      await extent.sealing;
      if (this.failure) return;
      const trailer = sealExtentMetadata(keyring, key.id, {
        ...place,
        write: (this.#extents[0] as RemoteExtent).key.id.toString('hex'),
        index,
        offset,
        extentBytes,
        algorithm: key.algorithm,
        epoch: this.epoch,
        ...(last ? { last } : {}),
      });
      extent.trailerBytes = trailer.length;
      const pieces = chunks.map(({ buffer, length }) =>
        buffer.bytes.subarray(0, length + tagBytes),
      );
      pieces.push(trailer);
      extent.isSent = true;
      await this.#store.put(key.id, pieces, this.options.tally);
      this.#window.passed(extentBytes);
    } finally {
      this.#underWay--;
      for (const { buffer } of chunks) this.giveBack(buffer);
      extent.chunks = [];
    }
  }
}
