// Chunks of extents in a remote store: units of consecutive chunks, one ranged read each, straight
// into their buffers, where a digest thread verifies each as soon as it is whole. Invariants: what is
// asked for ahead grows only while the client waits for the store, so that a slow client holds
// little; and a chunk settles only when the store can write to its buffer no more.
import type { Keyring } from '../core/keyring.ts';
import { tagBytes } from '../core/limits.ts';
import { AdaptiveWindow } from './adaptive-window.ts';
import type { ChunkBuffer } from './buffer-pool.ts';
import { chunkLength, chunkPosition, type ExtentSeal, sealedBytes } from './chunk-format.ts';
import type { ChunkPart, ReadChunk, Reading } from './chunk-reading.ts';
import type { DigestReader } from './digest-pool.ts';
import { openSeal } from './extent-run.ts';
import type { RemoteStore } from './stores/store.ts';

/** Chunks of one read: at first, and at most, which is as much as several pay for. */
const unit = { first: 4, max: 16 };
/** Reads of one stream under way: at first, and at most. */
const window = { first: 4, max: 8 };

export interface RemoteReadingOptions {
  tenant: string;
  keyring: Keyring;
  reader: DigestReader;
  store: RemoteStore;
  /** Ends the reads under way. */
  signal: AbortSignal;
}

/** A chunk that is on its way into its buffer. */
interface Arrival {
  promise: Promise<void>;
  resolve: () => void;
  reject: (error: unknown) => void;
}

function createArrival(): Arrival {
  let resolve: () => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<void>((onArrived, onLost) => {
    resolve = onArrived;
    reject = onLost;
  });
  return { promise, resolve, reject };
}

export class RemoteReading implements Reading {
  readonly #options: RemoteReadingOptions;
  readonly #window = new AdaptiveWindow(window);
  #unitChunks = unit.first;
  #underWay = 0;
  #units = 0;

  constructor(options: RemoteReadingOptions) {
    this.#options = options;
  }

  wanted(ahead: number): number {
    if (this.#underWay >= this.#window.size) return 0;
    const aheadMax = this.#window.size * this.#unitChunks;
    return ahead + this.#unitChunks <= aheadMax ? this.#unitChunks : 0;
  }

  begin(parts: readonly ChunkPart[], buffers: readonly ChunkBuffer[]): ReadChunk[] {
    const { tenant, keyring, reader } = this.#options;
    const { run } = parts[0] as ChunkPart;
    let seal: ExtentSeal;
    try {
      seal = openSeal(run, keyring.tenantKey(tenant, run.epoch));
    } catch (error) {
      return parts.map(() => ({ data: Promise.reject(error) }));
    }
    this.#units++;
    const arrivals = parts.map(createArrival);
    void this.#read(parts, buffers, arrivals);
    return parts.map((part, i) => {
      const buffer = buffers[i] as ChunkBuffer;
      const verify = async (): Promise<Buffer> => {
        await (arrivals[i] as Arrival).promise;
        await reader.verify(seal, part.index, buffer, null);
        return buffer.bytes.subarray(part.from, part.to);
      };
      return { data: verify() };
    });
  }

  beLate(): void {
    this.#window.limit();
    // For the first bytes everybody waits.
    if (this.#units > window.first) this.#unitChunks = Math.min(2 * this.#unitChunks, unit.max);
  }

  /** Reads a unit, and settles all of its arrivals. */
  async #read(
    parts: readonly ChunkPart[],
    buffers: readonly ChunkBuffer[],
    arrivals: readonly Arrival[],
  ): Promise<void> {
    const { store, signal } = this.#options;
    const { run, index } = parts[0] as ChunkPart;
    const into = parts.map((part, i) => {
      const sealed = chunkLength(run.extentBytes, part.index) + tagBytes;
      return (buffers[i] as ChunkBuffer).bytes.subarray(0, sealed);
    });
    this.#underWay++;
    let lost: unknown = new Error('a store ended a read before all of it was there');
    try {
      await store.read({
        id: run.id,
        sizeBytes: sealedBytes(run.extentBytes) + run.trailerBytes,
        position: chunkPosition(index),
        into,
        filled: (i) => arrivals[i]?.resolve(),
        signal,
      });
      this.#window.passed(into.reduce((bytes, piece) => bytes + piece.length, 0));
    } catch (error) {
      lost = error;
    }
    this.#underWay--;
    for (const arrival of arrivals) arrival.reject(lost);
  }
}
