// Chunks of extents in a remote store: one read for all that is wanted of an extent, straight into
// the chunks' buffers, where a digest thread verifies each as soon as it is whole. Invariants: what
// is asked for ahead grows only while the client waits for the store, so that a slow client holds
// little; a chunk settles only when the store can write to its buffer no more; and one that is not
// what was written is asked for once more, alone.
import { IntegrityError } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import { tagBytes } from '../core/limits.ts';
import { AdaptiveWindow } from './adaptive-window.ts';
import type { ChunkBuffer } from './buffer-pool.ts';
import {
  chunkCount,
  chunkLength,
  chunkPosition,
  type ExtentSeal,
  sealedBytes,
} from './chunk-format.ts';
import type { ChunkPart, ReadChunk, Reading } from './chunk-reading.ts';
import type { DigestReader } from './digest-pool.ts';
import { openSeal } from './extent-run.ts';
import type { LegStore } from './stores/store.ts';
import { noteDamage } from './stores/store-meter.ts';
import type { StoreTally } from './stores/store-tally.ts';

/** How many chunks one read has: an extent of the usual size. */
const unitChunksMax = 32;
/**
 * How many chunks are ahead of the client at first: a unit, and as many again once half of it was
 * used.
 */
const aheadChunksMin = unitChunksMax + unitChunksMax / 2;
/**
 * How many chunks after the first are verified together: waking a thread costs as much as verifying
 * one.
 */
const chunksPerGroup = 4;
/** How many reads of one stream are under way while the client waits for them. */
const window = { min: 4, max: 8 };

export interface RemoteReadingOptions {
  tenant: string;
  keyring: Keyring;
  reader: DigestReader;
  store: LegStore;
  /** Ends the reads under way. */
  signal: AbortSignal;
  tally?: StoreTally;
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
  readonly #window: AdaptiveWindow;
  #aheadChunks = aheadChunksMin;
  #underWay = 0;
  /** Units that were begun since the client was late. Every client waits for the first bytes. */
  #units = 0;

  constructor(options: RemoteReadingOptions) {
    this.#options = options;
    const stream = options.store.meter.openStream('read');
    this.#window = new AdaptiveWindow({ ...window, stream });
  }

  wanted(ahead: number, { run, index }: ChunkPart): number {
    if (this.#underWay >= this.#window.size) return 0;
    const left = chunkCount(run.offset + run.length) - index;
    const wanted = Math.min(left, unitChunksMax);
    return ahead + wanted <= this.#aheadChunks ? wanted : 0;
  }

  begin(
    parts: readonly ChunkPart[],
    buffers: readonly ChunkBuffer[],
    ending?: AbortSignal,
  ): ReadChunk[] {
    const { tenant, keyring, reader } = this.#options;
    const signal = ending ? AbortSignal.any([this.#options.signal, ending]) : this.#options.signal;
    const { run } = parts[0] as ChunkPart;
    let seal: ExtentSeal;
    try {
      seal = openSeal(run, keyring, tenant);
    } catch (error) {
      return parts.map(() => ({ data: Promise.reject(error) }));
    }
    this.#units++;
    const arrivals = parts.map(createArrival);
    void this.#read(parts, buffers, { arrivals, signal });
    return parts.map((part, i) => {
      const buffer = buffers[i] as ChunkBuffer;
      const verify = async (): Promise<Buffer> => {
        await (arrivals[i] as Arrival).promise;
        try {
          await reader.verify(seal, part.index, buffer, null);
        } catch (error) {
          if (!(error instanceof IntegrityError)) throw error;
          await this.#readAgain(part, buffer, signal);
          await reader.verify(seal, part.index, buffer, null);
        }
        return buffer.bytes.subarray(part.from, part.to);
      };
      return { data: verify() };
    });
  }

  noteStall(): void {
    this.#window.limit();
    if (this.#units < 2) return;
    this.#units = 0;
    const aheadMax = this.#window.size * unitChunksMax;
    this.#aheadChunks = Math.min(this.#aheadChunks + unitChunksMax, aheadMax);
  }

  async close(): Promise<void> {
    this.#window.close();
  }

  /** Reads one chunk once more, which may have been damaged on its way, into the same buffer. */
  async #readAgain(
    { run, index }: ChunkPart,
    buffer: ChunkBuffer,
    signal: AbortSignal,
  ): Promise<void> {
    const { store, tally } = this.#options;
    noteDamage(store.meter);
    await store.read({
      id: run.id,
      sizeBytes: sealedBytes(run.extentBytes) + run.trailerBytes,
      position: chunkPosition(index),
      into: [buffer.bytes.subarray(0, chunkLength(run.extentBytes, index) + tagBytes)],
      signal,
      tally,
    });
  }

  /** Reads a unit, and settles all of its arrivals. */
  async #read(
    parts: readonly ChunkPart[],
    buffers: readonly ChunkBuffer[],
    { arrivals, signal }: { arrivals: readonly Arrival[]; signal: AbortSignal },
  ): Promise<void> {
    const { store, tally } = this.#options;
    const { run, index } = parts[0] as ChunkPart;
    const into = parts.map((part, i) => {
      const sealed = chunkLength(run.extentBytes, part.index) + tagBytes;
      return (buffers[i] as ChunkBuffer).bytes.subarray(0, sealed);
    });
    // Some servers do much less for an object as a whole than for nearly all of it.
    const isWhole = index === 0 && parts.length === chunkCount(run.extentBytes);
    if (isWhole && run.trailerBytes > 0) into.push(Buffer.allocUnsafe(run.trailerBytes));
    this.#underWay++;
    let failure: unknown = null;
    let arrived = 0;
    const last = into.length - 1;
    const filled = (i: number): void => {
      // The last one when all has come: so the read has ended when its bytes are used up.
      const isFull = i < parts.length - 1 && (i === 0 || (i + 1) % chunksPerGroup === 0);
      if (isFull || i === last) while (arrived <= i) arrivals[arrived++]?.resolve();
    };
    try {
      await store.read({
        id: run.id,
        sizeBytes: sealedBytes(run.extentBytes) + run.trailerBytes,
        position: chunkPosition(index),
        into,
        filled,
        signal,
        tally,
      });
      this.#window.passed(into.reduce((bytes, piece) => bytes + piece.length, 0));
    } catch (error) {
      failure = error;
    }
    this.#underWay--;
    for (const lost of arrivals.slice(arrived)) {
      lost.reject(failure ?? new Error('a store ended a read before all of it was there'));
    }
  }
}
