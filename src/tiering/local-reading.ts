// Chunks of extents in the local store: a digest thread reads each from the open file and verifies
// it. Invariant: a file is open from the first chunk of its run until the last one was used.
import { monotonicMs } from '../core/clock.ts';
import { IntegrityError } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import type { ExtentRun } from '../core/manifest.ts';
import type { ChunkBuffer } from './buffer-pool.ts';
import { type ExtentSeal, sealedBytes } from './chunk-format.ts';
import type { ChunkPart, ReadChunk, Reading } from './chunk-reading.ts';
import type { DigestReader } from './digest-pool.ts';
import { openSeal } from './extent-run.ts';
import type { ExtentSource, LocalStore } from './stores/local-store.ts';

/** How many chunks one stream reads ahead. */
const chunksAheadMax = 8;
/**
 * How many chunks it asks for at a time: waking a thread costs about as much as verifying a chunk.
 */
const chunksPerRequest = 4;

export interface LocalReadingOptions {
  tenant: string;
  keyring: Keyring;
  reader: DigestReader;
  store: LocalStore;
}

interface OpenExtent {
  seal: ExtentSeal;
  source: ExtentSource;
}

export class LocalReading implements Reading {
  readonly #options: LocalReadingOptions;
  /** The extent of the run that is being read. */
  #open: Promise<OpenExtent> | null = null;

  constructor(options: LocalReadingOptions) {
    this.#options = options;
  }

  wanted(ahead: number): number {
    return ahead > chunksAheadMax - chunksPerRequest ? 0 : chunksAheadMax - ahead;
  }

  begin(parts: readonly ChunkPart[], buffers: readonly ChunkBuffer[]): ReadChunk[] {
    return parts.map((part, i) => {
      if (part.first) this.#open = this.#openExtent(part.run);
      const opened = this.#open as Promise<OpenExtent>;
      const data = this.#read(opened, part, buffers[i] as ChunkBuffer);
      if (!part.last) return { data };
      this.#open = null;
      return { data, close: () => closeExtent(opened) };
    });
  }

  async close(): Promise<void> {
    if (this.#open) await closeExtent(this.#open);
  }

  async #openExtent(run: ExtentRun): Promise<OpenExtent> {
    const { keyring, store, tenant } = this.#options;
    const seal = openSeal(run, keyring, tenant);
    const source = await store.open(run.id);
    if (source.sizeBytes === sealedBytes(run.extentBytes) + run.trailerBytes) {
      return { seal, source };
    }
    await source.close();
    const id = run.id.toString('hex');
    throw new IntegrityError(`extent ${id} has ${source.sizeBytes} bytes`, { kind: 'length' });
  }

  async #read(opened: Promise<OpenExtent>, part: ChunkPart, buffer: ChunkBuffer): Promise<Buffer> {
    const { seal, source } = await opened;
    const { reader, store } = this.#options;
    const startMs = monotonicMs();
    await reader.verify(seal, part.index, buffer, source.descriptor);
    const durationMs = monotonicMs() - startMs;
    store.meter.sent('get');
    store.meter.answered('get', part.to - part.from, durationMs, durationMs);
    return buffer.bytes.subarray(part.from, part.to);
  }
}

/** Closes what was opened, if it was. */
async function closeExtent(opened: Promise<OpenExtent>): Promise<void> {
  const extent = await opened.catch(() => null);
  await extent?.source.close();
}
