// How the chunks of a store come in: the terms between the stream that gives them out in order and
// the ways of the stores.
import { chunkBytes } from '../core/limits.ts';
import type { ExtentRun } from '../core/manifest.ts';
import type { ChunkBuffer } from './buffer-pool.ts';

/** The part `[from, to)` of chunk `index` of a run's extent. */
export interface ChunkPart {
  run: ExtentRun;
  index: number;
  from: number;
  to: number;
  /** The first or the last one of its run. */
  first: boolean;
  last: boolean;
}

/** The chunks that hold the runs' bytes, in order. An inline extent is one chunk. */
export function* planChunks(runs: readonly ExtentRun[]): Generator<ChunkPart, undefined, void> {
  for (const run of runs) {
    const end = run.offset + run.length;
    for (let at = run.offset; at < end; ) {
      const index = Math.floor(at / chunkBytes);
      const start = index * chunkBytes;
      const to = Math.min(end - start, chunkBytes);
      const first = at === run.offset;
      yield { run, index, from: at - start, to, first, last: start + to === end };
      at = start + to;
    }
  }
}

/** A chunk that is being read. */
export interface ReadChunk {
  /** Resolves to the verified bytes; settles when nothing can write to their buffer any more. */
  data: Promise<Buffer>;
  /** Called when the bytes were used: gives back what is needed no longer. */
  close?: () => Promise<void>;
}

/** The reading of one stream from one store, or from several that have the same. */
export interface Reading {
  /** It asks other stores by itself for what one does not give. */
  readonly asksOthers?: true;
  /** How many chunks are worth asking for now, from `next` on, with so many ahead of the client. */
  wanted(ahead: number, next: ChunkPart): number;
  /**
   * Begins to read consecutive chunks of one run, each into its buffer. `ending` ends that alone,
   * where the store is one that is asked over a network.
   */
  begin(
    parts: readonly ChunkPart[],
    buffers: readonly ChunkBuffer[],
    ending?: AbortSignal,
  ): ReadChunk[];
  /** Called when the client waits for a chunk that was asked for and is not here yet. */
  noteStall?(): void;
  /** Called when all chunks have settled: gives back what is left. */
  close?(): Promise<void>;
}
