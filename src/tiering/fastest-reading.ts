// Chunks of extents that are in several stores, any of which may answer: a run of chunks is asked
// of the store that has answered soonest of late, and is gone on with in another at the chunk where
// that one was slow, failed, or gave what is false. Invariants: a chunk settles only when nothing
// writes to its buffer any more; second requests are few, and take only memory that nobody waits
// for; and each fault is told of the store that had it.
import { monotonicMs } from '../core/clock.ts';
import { IntegrityError } from '../core/errors.ts';
import type { ExtentRun } from '../core/manifest.ts';
import { type BufferPool, type ChunkBuffer, copyIntoShared, type Party } from './buffer-pool.ts';
import { chunkLength } from './chunk-format.ts';
import type { ChunkPart, ReadChunk, Reading } from './chunk-reading.ts';
import type { CopySpeeds } from './copy-speeds.ts';
import { type ExtentCopies, mayBeElsewhere, readElsewhere } from './extent-copies.ts';

export interface FastestReadingOptions {
  copies: ExtentCopies;
  speeds: CopySpeeds;
  buffers: BufferPool;
  party: Party | undefined;
  /** The stream's way to a store; throws Refusal where it is not configured. */
  readingOf(store: number): Reading;
  /** Whether the stream was left. */
  isOver(): boolean;
}

interface Settling {
  promise: Promise<Buffer>;
  resolve(data: Buffer): void;
  reject(error: unknown): void;
}

/** Chunks that are asked of one store. */
interface Asked {
  store: number;
  chunks: readonly ReadChunk[];
  /** The number of the first of them, and of the first that this store was asked for. */
  from: number;
  begun: number;
  beganMs: number;
  ending: AbortController;
}

/** In the middle of a read a store may pause for longer than before its first chunk. */
const pauseMsMin = 250;

export class FastestReading implements Reading {
  readonly asksOthers = true;
  readonly #options: FastestReadingOptions;
  /** What still has a buffer though nobody waits for it. */
  readonly #leaving = new Set<Promise<unknown>>();
  /** Which was asked last, by which goes how much is worth asking for. */
  #last: Reading | null = null;

  constructor(options: FastestReadingOptions) {
    this.#options = options;
  }

  wanted(ahead: number, next: ChunkPart): number {
    try {
      this.#last ??= this.#options.readingOf(next.run.store);
      return this.#last.wanted(ahead, next);
    } catch {
      return ahead === 0 ? 1 : 0;
    }
  }

  begin(parts: readonly ChunkPart[], buffers: readonly ChunkBuffer[]): ReadChunk[] {
    const settling = parts.map(() => createSettling());
    void new Unit(this.#options, { parts, buffers, settling }, this).run();
    return settling.map(({ promise }) => ({ data: promise }));
  }

  noteStall(): void {
    this.#last?.noteStall?.();
  }

  async close(): Promise<void> {
    await Promise.all(this.#leaving);
  }

  asked(reading: Reading): void {
    this.#last = reading;
  }

  leave(until: Promise<unknown>): void {
    const left: Promise<unknown> = until.catch(() => null).then(() => this.#leaving.delete(left));
    this.#leaving.add(left);
  }
}

/** Some chunks of one extent, in order. */
class Unit {
  readonly #options: FastestReadingOptions;
  readonly #parts: readonly ChunkPart[];
  readonly #buffers: readonly ChunkBuffer[];
  readonly #settling: readonly Settling[];
  readonly #reading: FastestReading;
  /** The stores that have the extent, the faster ones first. */
  #order: readonly number[] = [];

  constructor(
    options: FastestReadingOptions,
    unit: {
      parts: readonly ChunkPart[];
      buffers: readonly ChunkBuffer[];
      settling: readonly Settling[];
    },
    reading: FastestReading,
  ) {
    this.#options = options;
    this.#parts = unit.parts;
    this.#buffers = unit.buffers;
    this.#settling = unit.settling;
    this.#reading = reading;
  }

  async run(): Promise<void> {
    let at = 0;
    let asked: Asked | null = null;
    try {
      const { run } = this.#parts[0] as ChunkPart;
      this.#order = await orderOf(this.#options, run, 'chunk');
      asked = this.#ask(this.#order[0] as number, 0);
      for (; at < this.#parts.length; at++) asked = await this.#settle(asked, at);
    } catch (error) {
      asked?.ending.abort();
      await Promise.allSettled((asked?.chunks ?? []).map(({ data }) => data));
      for (const { reject } of this.#settling.slice(at)) reject(error);
    }
  }

  /** Asks a store for all chunks from one on. */
  #ask(store: number, from: number): Asked {
    const ending = new AbortController();
    const beganMs = monotonicMs();
    const run = { ...(this.#parts[from] as ChunkPart).run, store };
    const parts = this.#parts.slice(from).map((part) => ({ ...part, run }));
    const chunks = this.#begin(store, parts, this.#buffers.slice(from), ending.signal);
    return { store, chunks, from, begun: from, beganMs, ending };
  }

  #begin(
    store: number,
    parts: readonly ChunkPart[],
    buffers: readonly ChunkBuffer[],
    ending?: AbortSignal,
  ): readonly ReadChunk[] {
    let chunks: readonly ReadChunk[];
    try {
      const reading = this.#options.readingOf(store);
      chunks = reading.begin(parts, buffers, ending);
      this.#reading.asked(reading);
    } catch (error) {
      chunks = parts.map(() => ({ data: Promise.reject(error) }));
    }
    // Each error is thrown when its turn comes.
    for (const { data } of chunks) data.catch(() => {});
    return chunks;
  }

  /** Settles a chunk; gives what is asked for those behind it. Throws what no store could give. */
  async #settle(asked: Asked, at: number): Promise<Asked> {
    const { speeds, copies, isOver } = this.#options;
    const { store, begun, beganMs } = asked;
    const first = (asked.chunks[at - asked.from] as ReadChunk).data;
    try {
      const moved = await this.#orFaster(asked, at, first);
      // Where another was faster, this one took longer than that at least.
      if (at === begun) speeds.answered(store, 'chunk', monotonicMs() - beganMs);
      if (moved) return moved;
      (this.#settling[at] as Settling).resolve(await first);
      return asked;
    } catch (error) {
      const { run } = this.#parts[at] as ChunkPart;
      const asIs = { ...run, store };
      if (isOver() || !mayBeElsewhere(error, asIs)) throw error;
      speeds.failed(store);
      let from = store;
      const data = await readElsewhere(copies, asIs, error, async (other) => {
        const part = { ...(this.#parts[at] as ChunkPart), run: other };
        const [chunk] = this.#begin(other.store, [part], [this.#buffers[at] as ChunkBuffer]);
        const bytes = await (chunk as ReadChunk).data;
        from = other.store;
        return bytes;
      });
      const next = await this.#goOn(asked, from, at + 1);
      (this.#settling[at] as Settling).resolve(data);
      return next;
    }
  }

  /**
   * Where a chunk does not come for longer than the store's answers take, another store is asked
   * for it as well. Null: the first has answered. Throws what the first failed with, where the
   * other has not answered.
   */
  async #orFaster(asked: Asked, at: number, first: Promise<Buffer>): Promise<Asked | null> {
    const { speeds, buffers, party, isOver } = this.#options;
    const other = this.#order.find((one) => one !== asked.store);
    const patienceMs = speeds.patienceMs(asked.store, 'chunk');
    const waitMs = at === asked.begun ? patienceMs : Math.max(patienceMs, pauseMsMin);
    if (other === undefined || !(await isLate(first, waitMs)) || isOver()) {
      await first;
      return null;
    }
    const scratch = speeds.takeSecond() ? buffers.tryAcquire(party, true) : null;
    if (!scratch) {
      await first;
      return null;
    }
    const ending = new AbortController();
    const part = this.#parts[at] as ChunkPart;
    const moved = { ...part, run: { ...part.run, store: other } };
    const [second] = this.#begin(other, [moved], [scratch], ending.signal) as [ReadChunk];
    second.data.catch((error: unknown) => {
      if (!ending.signal.aborted) tellFault(this.#options, moved.run, error);
    });
    const isSecond = await Promise.any([first.then(() => false), second.data.then(() => true)])
      // Both have failed: what the first one has is told.
      .catch(() => false);
    if (!isSecond) {
      ending.abort();
      this.#reading.leave(second.data.catch(() => null).then(() => buffers.release(scratch)));
      await first;
      return null;
    }
    first.catch((error: unknown) => {
      const asIs = { ...part.run, store: asked.store };
      // It may have failed before it was ended.
      const isFault = error instanceof IntegrityError || !asked.ending.signal.aborted;
      if (isFault) tellFault(this.#options, asIs, error);
    });
    try {
      const next = await this.#goOn(asked, other, at + 1, at);
      // Nothing else writes to its own buffer by now. All of the chunk, of which other runs of the
      // stream may use more than this part.
      const own = this.#buffers[at] as ChunkBuffer;
      const length = chunkLength(part.run.extentBytes, part.index);
      copyIntoShared(own.bytes, 0, scratch.bytes.subarray(0, length));
      (this.#settling[at] as Settling).resolve(own.bytes.subarray(part.from, part.to));
      return next;
    } finally {
      buffers.release(scratch);
    }
  }

  /** Has a store give what is missing from a chunk on; what the former one gave is kept. */
  async #goOn(asked: Asked, store: number, from: number, ended = from): Promise<Asked> {
    if (store === asked.store) return asked;
    asked.ending.abort();
    const before = asked.chunks.slice(ended - asked.from);
    const settled = await Promise.allSettled(before.map(({ data }) => data));
    let at = from;
    for (; at < this.#parts.length; at++) {
      const had = settled[at - ended];
      if (had?.status !== 'fulfilled') break;
    }
    const kept = asked.chunks.slice(from - asked.from, at - asked.from);
    if (at === this.#parts.length) return { ...asked, store, chunks: kept, from };
    // What came behind a gap is read again with it.
    const rest = this.#ask(store, at);
    return { ...rest, chunks: [...kept, ...rest.chunks], from };
  }
}

/** One small extent, of the store that gives it first; a few are asked of two stores. */
export async function openFastest({
  copies,
  speeds,
  run,
  open,
}: Pick<FastestReadingOptions, 'copies' | 'speeds'> & {
  run: ExtentRun;
  open(run: ExtentRun, signal?: AbortSignal): Promise<Buffer>;
}): Promise<Buffer> {
  const [store = run.store, other] = await orderOf({ copies, speeds }, run, 'small');
  const first = { ...run, store };
  const ending = new AbortController();
  const ask = async (from: ExtentRun): Promise<Buffer> => {
    const startMs = monotonicMs();
    try {
      const bytes = await open(from, ending.signal);
      speeds.answered(from.store, 'small', monotonicMs() - startMs);
      return bytes;
    } catch (error) {
      // Where the other one was faster, this one took longer than that at least.
      if (ending.signal.aborted) speeds.answered(from.store, 'small', monotonicMs() - startMs);
      else tellFault({ copies, speeds }, from, error);
      throw error;
    }
  };
  const asked = ask(first);
  const isSlow = other !== undefined && (await isLate(asked, speeds.patienceMs(store, 'small')));
  const answers = isSlow && speeds.takeSecond() ? [asked, ask({ ...run, store: other })] : [asked];
  try {
    return await Promise.any(answers);
  } catch {
    // All have failed, or the only one.
    const error: unknown = await asked.catch((reason: unknown) => reason);
    return readElsewhere(copies, first, error, open);
  } finally {
    ending.abort();
  }
}

/** Tells what a store failed with, whether or not somebody waits for it. */
function tellFault(
  { copies, speeds }: Pick<FastestReadingOptions, 'copies' | 'speeds'>,
  run: ExtentRun,
  error: unknown,
): void {
  if (!mayBeElsewhere(error, run)) return;
  speeds.failed(run.store);
  if (error instanceof IntegrityError) copies.suspect(run.id, run.store, error);
}

/** The stores that have an extent, in the order in which they are to be asked; at least one. */
export async function orderOf(
  { copies, speeds }: Pick<FastestReadingOptions, 'copies' | 'speeds'>,
  { id, store }: ExtentRun,
  size: 'small' | 'chunk',
): Promise<number[]> {
  const good = await copies.good(id);
  // The class's own order, as the write found it, decides where nothing else does.
  const known = good.includes(store) ? [store, ...good.filter((one) => one !== store)] : good;
  return speeds.order(known.length === 0 ? [store] : known, size);
}

/** Resolves to whether something has no outcome yet after so long. */
export function isLate(outcome: Promise<unknown>, waitMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, waitMs, true);
    const settled = (): void => {
      clearTimeout(timer);
      resolve(false);
    };
    outcome.then(settled, settled);
  });
}

function createSettling(): Settling {
  let resolve: (data: Buffer) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const promise = new Promise<Buffer>((onData, onError) => {
    resolve = onData;
    reject = onError;
  });
  return { promise, resolve, reject };
}
