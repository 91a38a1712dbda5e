// The chunks of an object on their way in: read ahead, verified, given out in order.
// Invariant: each buffer and each open file is given back once, when nothing can write to it any
// more, however the stream is left; and the stream waits for a buffer only while it holds none, so
// that readers cannot lock each other up.

import { IntegrityError } from '../core/errors.ts';
import type { ExtentRun } from '../core/manifest.ts';
import { inlineStore } from '../core/manifest.ts';
import type { ChunkBuffer } from './buffer-pool.ts';
import { chunkLength } from './chunk-format.ts';
import { type ChunkPart, planChunks, type ReadChunk, type Reading } from './chunk-reading.ts';
import type { CopySpeeds } from './copy-speeds.ts';
import type { DigestReader } from './digest-pool.ts';
import { type ExtentCopies, mayHaveCopies, noteExtent, readElsewhere } from './extent-copies.ts';
import { FastestReading } from './fastest-reading.ts';
import { LocalReading } from './local-reading.ts';
import type { ObjectReaderOptions, ReadOptions } from './object-reader.ts';
import { RemoteReading } from './remote-reading.ts';

export interface ChunkStreamOptions extends Omit<ReadOptions, 'inlineBody'>, ObjectReaderOptions {
  openInline: (run: ExtentRun) => Promise<Buffer>;
  /** Where any copy may answer: how fast the stores are. */
  speeds: CopySpeeds;
}

interface Incoming extends ReadChunk {
  part: ChunkPart;
  buffer: ChunkBuffer | null;
  reading: Reading | null;
  isHere: boolean;
}

/** How many inline chunks may be ahead of the client: they come from the database, one by one. */
const inlineAheadMax = 8;
/**
 * How many pieces of one chunk may be ahead of the client, where several runs lie in it: they cost
 * nothing.
 */
const piecesAheadMax = 64;
/**
 * For how long another store is asked in the place of one that could not be asked, milliseconds: to
 * ask in vain costs a chunk the time of a refusal, and what is cheaper may be there again.
 */
const insteadMs = 10_000;

export class ChunkStream {
  readonly #options: ChunkStreamOptions;
  readonly #reader: DigestReader;
  readonly #legs = new Map<number, Reading>();
  #local: LocalReading | null = null;
  #fastest: FastestReading | null = null;
  /** Ends what a remote store is asked for. */
  #abandoned: AbortController | null = null;
  readonly #plan: Iterator<ChunkPart, undefined>;
  #planned: ChunkPart | undefined;
  /** By stores that could not be asked which others are for a while: they had what was wanted. */
  readonly #instead = new Map<number, { store: number; untilMs: number }>();
  /** By runs that are asked of another store for that what they were. */
  readonly #homes = new WeakMap<ExtentRun, ExtentRun>();
  /** The last of them. */
  #moved: { home: ExtentRun; run: ExtentRun } | null = null;
  readonly #incoming: Incoming[] = [];
  #given: Incoming | null = null;
  #isClosed = false;

  constructor(options: ChunkStreamOptions) {
    this.#options = options;
    this.#reader = options.digests.openReader();
    this.#plan = planChunks(options.runs);
    this.#planned = this.#planNext();
    options.signal?.addEventListener('abort', this.#abandon);
  }

  /** The next verified bytes, valid until the next call; null at the end. */
  async next(): Promise<Buffer | null> {
    await this.#takeBack();
    await this.#readAhead();
    const given = this.#incoming.shift() ?? null;
    this.#given = given;
    if (!given) return null;
    if (!given.isHere) given.reading?.noteStall?.();
    const data = await given.data.catch((error: unknown) => this.#rethrow(error, given.part.run));
    const { buffers, recall } = this.#options;
    if (given.buffer && recall) buffers.lend(given.buffer, recall);
    return data;
  }

  /** Waits until nothing is under way and gives everything back. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#planned = undefined;
    this.#options.signal?.removeEventListener('abort', this.#abandon);
    if (this.#incoming.length > 0) this.#abandon();
    for (;;) {
      await this.#takeBack();
      this.#given = this.#incoming.shift() ?? null;
      if (!this.#given) break;
    }
    await this.#fastest?.close();
    await this.#local?.close();
    for (const reading of this.#legs.values()) await reading.close?.();
    this.#reader.close();
  }

  readonly #abandon = (): void => this.#abandoned?.abort();

  #rethrow(error: unknown, run: ExtentRun): never {
    const { signal } = this.#options;
    if (signal?.aborted) throw signal.reason;
    if (error instanceof IntegrityError) noteExtent(error, run);
    throw error;
  }

  async #takeBack(): Promise<void> {
    const given = this.#given;
    if (!given) return;
    this.#given = null;
    await given.data.catch(() => null);
    if (given.buffer) this.#options.buffers.release(given.buffer);
    await given.close?.();
  }

  /** The next part, in the store that is to be asked first. */
  #planNext(): ChunkPart | undefined {
    const part = this.#plan.next().value;
    if (!part || this.#instead.size === 0 || !mayHaveCopies(part.run)) return part;
    const home = part.run;
    const instead = this.#instead.get(home.store);
    if (!instead || performance.now() >= instead.untilMs) return part;
    const { store } = instead;
    // The chunks of an extent that are read together are of one run.
    if (this.#moved?.home !== home || this.#moved.run.store !== store) {
      this.#moved = { home, run: { ...home, store } };
      this.#homes.set(this.#moved.run, home);
    }
    return { ...part, run: this.#moved.run };
  }

  /** Another store than was asked gave what is in `run`: it is asked for what comes next. */
  #askNext(run: ExtentRun, error: unknown, store: number): void {
    const home = this.#homes.get(run) ?? run;
    if (store === home.store) this.#instead.delete(home.store);
    // A store that has lost this extent may have the next one, or is to be told of that too.
    else if (!(error instanceof IntegrityError)) {
      this.#instead.set(home.store, { store, untilMs: performance.now() + insteadMs });
    }
  }

  async #readAhead(): Promise<void> {
    for (let part = this.#planned; part; part = this.#planned) {
      if (part.run.store === inlineStore) {
        if (this.#incoming.length >= inlineAheadMax) return;
        this.#push({ data: this.#options.openInline(part.run) }, part, null, null);
        this.#planned = this.#planNext();
        continue;
      }
      const last = this.#incoming.at(-1);
      if (last?.buffer && isPieceOf(last.part, part)) {
        if (this.#incoming.length >= piecesAheadMax) return;
        this.#share(last, last.buffer, part);
        this.#planned = this.#planNext();
        continue;
      }
      const reading = this.#readingOr(part.run);
      const wanted = reading.wanted(this.#incoming.length, part);
      if (wanted === 0 || !(await this.#begin(reading, part.run, wanted))) return;
    }
  }

  /** Gives out another piece of the chunk that was asked for last; the chunk stays until then. */
  #share(last: Incoming, buffer: ChunkBuffer, part: ChunkPart): void {
    const data = last.data.then(() => buffer.bytes.subarray(part.from, part.to));
    this.#push({ data, close: last.close }, part, buffer, last.reading);
    last.buffer = null;
    last.close = undefined;
  }

  /** Begins to read up to `wanted` chunks of a run; false when there is no buffer for any. */
  async #begin(reading: Reading, run: ExtentRun, wanted: number): Promise<boolean> {
    const { buffers, party } = this.#options;
    const isAhead = this.#incoming.length > 0;
    let buffer = buffers.tryAcquire(party, isAhead);
    if (!buffer && isAhead) return false;
    buffer ??= await buffers.acquire(party);
    const parts: ChunkPart[] = [];
    const taken: ChunkBuffer[] = [];
    while (buffer) {
      parts.push(this.#planned as ChunkPart);
      taken.push(buffer);
      this.#planned = this.#planNext();
      const isMore = this.#planned?.run === run && parts.length < wanted;
      buffer = isMore ? buffers.tryAcquire(party, true) : null;
    }
    const chunks = reading.begin(parts, taken);
    for (const [i, chunk] of chunks.entries()) {
      const [part, into] = [parts[i] as ChunkPart, taken[i] as ChunkBuffer];
      const given = reading.asksOthers ? chunk : this.#orElsewhere(chunk, part, into);
      this.#push(given, part, into, reading);
    }
    return true;
  }

  /** What the store of a chunk does not give is taken from another that has its extent. */
  #orElsewhere(chunk: ReadChunk, part: ChunkPart, buffer: ChunkBuffer): ReadChunk {
    const { copies, isAlone, signal } = this.#options;
    const { run } = part;
    if (!copies || isAlone || !mayHaveCopies(run)) return chunk;
    const data = chunk.data.catch((error: unknown) => {
      if (signal?.aborted || this.#isClosed) throw error;
      return readElsewhere(copies, run, error, async (from) => {
        const found = await this.#readOne({ ...part, run: from }, buffer);
        this.#askNext(run, error, from.store);
        return found;
      });
    });
    return { ...chunk, data };
  }

  /** One chunk alone, into a buffer that nothing else writes to. */
  async #readOne(part: ChunkPart, buffer: ChunkBuffer): Promise<Buffer> {
    const reading = this.#legOf(part.run.store);
    const [chunk] = reading.begin([part], [buffer]);
    return (chunk as ReadChunk).data;
  }

  #push(
    chunk: ReadChunk,
    part: ChunkPart,
    buffer: ChunkBuffer | null,
    reading: Reading | null,
  ): void {
    const { data, close } = chunk;
    const incoming: Incoming = { data, close, part, buffer, reading, isHere: false };
    const here = (): void => {
      incoming.isHere = true;
    };
    // The error is thrown when its turn comes; until then it must not count as unhandled.
    data.then(here, here);
    this.#incoming.push(incoming);
  }

  #legOf(store: number): Reading {
    let reading = this.#legs.get(store);
    if (!reading) {
      reading = this.#openLeg(store);
      this.#legs.set(store, reading);
    }
    return reading;
  }

  /** The same; of a store that is not there, one whose chunks are refused. */
  #readingOr(run: ExtentRun): Reading {
    const { copies, isAnyCopy } = this.#options;
    if (!mayHaveCopies(run)) return this.#readingOfLocal();
    if (isAnyCopy && copies) return this.#readingOfFastest(copies);
    try {
      return this.#legOf(run.store);
    } catch (error) {
      return { wanted: (ahead) => (ahead === 0 ? 1 : 0), begin: () => [refusedChunk(error)] };
    }
  }

  #readingOfFastest(copies: ExtentCopies): Reading {
    const { speeds, buffers, party, signal } = this.#options;
    this.#fastest ??= new FastestReading({
      ...{ copies, speeds, buffers, party },
      readingOf: (store) => this.#legOf(store),
      isOver: () => this.#isClosed || signal?.aborted === true,
    });
    return this.#fastest;
  }

  #readingOfLocal(): Reading {
    const { tenant, keyring, stores } = this.#options;
    this.#local ??= new LocalReading({
      ...{ tenant, keyring, reader: this.#reader, store: stores.local },
    });
    return this.#local;
  }

  /** The way to a store that has, or may have, what others have as well. */
  #openLeg(store: number): Reading {
    const { tenant, keyring, stores, tallies } = this.#options;
    const terms = { tenant, keyring, reader: this.#reader };
    this.#abandoned ??= new AbortController();
    const { signal } = this.#abandoned;
    const tally = tallies?.tallyOf(store);
    return new RemoteReading({ ...terms, store: stores.leg(store), signal, tally });
  }
}

function refusedChunk(error: unknown): ReadChunk {
  return { data: Promise.reject(error) };
}

/** Returns whether `part` is all of its run and lies in the same chunk as `last`. */
function isPieceOf(last: ChunkPart, part: ChunkPart): boolean {
  const { run, index, to } = part;
  return (
    part.first &&
    part.last &&
    index === last.index &&
    run.id.equals(last.run.id) &&
    run.store === last.run.store &&
    run.algorithm === last.run.algorithm &&
    run.epoch === last.run.epoch &&
    run.extentBytes === last.run.extentBytes &&
    run.trailerBytes === last.run.trailerBytes &&
    to <= chunkLength(run.extentBytes, index)
  );
}
