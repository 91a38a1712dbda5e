// The chunks of an object on their way in: read ahead, verified, given out in order.
// Invariant: each buffer and each open file is given back once, however the stream is left; and the
// stream waits for a buffer only while it holds none, so that readers cannot lock each other up.
import { IntegrityError } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import { chunkBytes } from '../core/limits.ts';
import type { ExtentRun } from '../core/manifest.ts';
import { inlineStore } from '../core/manifest.ts';
import type { BufferPool, ChunkBuffer } from './buffer-pool.ts';
import type { ExtentSeal } from './chunk-format.ts';
import { sealedBytes } from './chunk-format.ts';
import type { DigestPool, DigestReader } from './digest-pool.ts';
import { openSeal } from './extent-run.ts';
import type { ExtentSource, LocalStore } from './stores/local-store.ts';

/** Chunks that one stream reads ahead. */
const chunksAheadMax = 8;
/** It asks for so many at a time: waking a thread costs about as much as verifying a chunk. */
const chunksPerRequest = 4;

export interface ChunkStreamOptions {
  tenant: string;
  runs: readonly ExtentRun[];
  keyring: Keyring;
  store: LocalStore;
  digests: DigestPool;
  buffers: BufferPool;
  openInline: (run: ExtentRun) => Promise<Buffer>;
  /** Called when others wait for the buffer that was given out: close the stream. */
  recall?: () => void;
}

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

interface OpenExtent {
  seal: ExtentSeal;
  source: ExtentSource;
}

interface Incoming {
  data: Promise<Buffer>;
  buffer: ChunkBuffer | null;
  /** Set on the last chunk of a run: when it has been given out, all reads of the file are over. */
  closes: Promise<OpenExtent> | null;
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

export class ChunkStream {
  readonly #options: ChunkStreamOptions;
  readonly #reader: DigestReader;
  readonly #plan: Iterator<ChunkPart, undefined>;
  #planned: ChunkPart | undefined;
  readonly #incoming: Incoming[] = [];
  #given: Incoming | null = null;
  /** The extent of the run that is being read. */
  #open: Promise<OpenExtent> | null = null;

  constructor(options: ChunkStreamOptions) {
    this.#options = options;
    this.#reader = options.digests.openReader();
    this.#plan = planChunks(options.runs);
    this.#planned = this.#plan.next().value;
  }

  /** The next verified bytes, valid until the next call; null at the end. */
  async next(): Promise<Buffer | null> {
    await this.#takeBack();
    await this.#readAhead();
    const given = this.#incoming.shift() ?? null;
    this.#given = given;
    if (!given) return null;
    const data = await given.data;
    const { buffers, recall } = this.#options;
    if (given.buffer && recall) buffers.lend(given.buffer, recall);
    return data;
  }

  /** Waits until nothing is under way and gives everything back. */
  async close(): Promise<void> {
    this.#planned = undefined;
    for (;;) {
      await this.#takeBack();
      this.#given = this.#incoming.shift() ?? null;
      if (!this.#given) break;
    }
    await closeExtent(this.#open);
    this.#reader.close();
  }

  async #takeBack(): Promise<void> {
    const given = this.#given;
    if (!given) return;
    this.#given = null;
    await given.data.catch(() => null);
    if (given.buffer) this.#options.buffers.release(given.buffer);
    await closeExtent(given.closes);
  }

  async #readAhead(): Promise<void> {
    const { buffers } = this.#options;
    if (this.#incoming.length > chunksAheadMax - chunksPerRequest) return;
    while (this.#planned && this.#incoming.length < chunksAheadMax) {
      let buffer: ChunkBuffer | null = null;
      if (this.#planned.run.store !== inlineStore) {
        buffer = buffers.tryAcquire();
        if (!buffer && this.#incoming.length > 0) return;
        buffer ??= await buffers.acquire();
      }
      this.#begin(this.#planned, buffer);
      this.#planned = this.#plan.next().value;
    }
  }

  #begin(part: ChunkPart, buffer: ChunkBuffer | null): void {
    if (!buffer) {
      this.#push({ data: this.#options.openInline(part.run), buffer, closes: null });
      return;
    }
    if (part.first) this.#open = this.#openExtent(part.run);
    const opened = this.#open as Promise<OpenExtent>;
    const data = readChunk(this.#reader, opened, part, buffer);
    this.#push({ data, buffer, closes: part.last ? opened : null });
    if (part.last) this.#open = null;
  }

  #push(incoming: Incoming): void {
    // Its error is met when its turn comes; until then it is no unhandled one.
    incoming.data.catch(() => null);
    this.#incoming.push(incoming);
  }

  async #openExtent(run: ExtentRun): Promise<OpenExtent> {
    const { keyring, store, tenant } = this.#options;
    const seal = openSeal(run, keyring.tenantKey(tenant, run.epoch));
    const source = await store.open(run.id);
    if (source.sizeBytes === sealedBytes(run.extentBytes)) return { seal, source };
    await source.close();
    const id = run.id.toString('hex');
    throw new IntegrityError(`extent ${id} has ${source.sizeBytes} sealed bytes`);
  }
}

async function readChunk(
  reader: DigestReader,
  opened: Promise<OpenExtent>,
  part: ChunkPart,
  buffer: ChunkBuffer,
): Promise<Buffer> {
  const { seal, source } = await opened;
  await reader.verify(seal, part.index, buffer, source.descriptor);
  return buffer.bytes.subarray(part.from, part.to);
}

/** Closes what was opened, if it was. */
async function closeExtent(opened: Promise<OpenExtent> | null): Promise<void> {
  const extent = await opened?.catch(() => null);
  await extent?.source.close();
}
