// The way of a large object's bytes, as far as it is the same for all stores: copied once into
// pooled chunk buffers, which a digest thread hashes and seals in place. What becomes of sealed
// chunks is the subclasses' part. Invariant: a stream waits for a buffer of the pool only while all
// that it holds comes free without another's help; so memory is bounded, a slow store stops the
// client, and streams cannot lock each other up.
import { Refusal } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import { chunkBytes } from '../core/limits.ts';
import type { ExtentRun } from '../core/manifest.ts';
import type { BufferPool, ChunkBuffer } from './buffer-pool.ts';
import { copyIntoShared } from './buffer-pool.ts';
import type { ExtentKey } from './chunk-format.ts';
import type { DigestPool, DigestStream } from './digest-pool.ts';
import { newExtentKey } from './extent-run.ts';
import type {
  Digests,
  ObjectDescription,
  ObjectSink,
  WriteOptions,
  WrittenObject,
} from './object-sink.ts';

export interface ExtentSinkOptions extends WriteOptions {
  keyring: Keyring;
  /** What it writes is encrypted. */
  isEncrypted: boolean;
  digests: DigestPool;
  buffers: BufferPool;
}

/** How many extents of one write may end early because others wait for its buffer. */
const earlyExtentsMax = 64;

/** A promise that is resolved from outside, made only when somebody waits. */
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

/** What ends with a chunk. Null means that neither is known to end. */
export type Ends = 'object' | 'extent' | null;

export abstract class ExtentSink implements ObjectSink {
  protected readonly options: ExtentSinkOptions;
  protected readonly stream: DigestStream;
  /** What new extents are sealed under: one for a write, whatever happens meanwhile. */
  protected readonly epoch: number;
  /** Why the write has failed. */
  protected failure: unknown = null;
  /** The size of the object, or the most that it can be while `#isOpenEnded`. */
  protected sizeBytes: number;
  /** The size is known only at the end of the bytes, and so is which chunk is the last. */
  #isOpenEnded: boolean;
  #received = 0;

  /** The chunk being filled: its buffer, how far, and the bytes of the object before it. */
  #buffer: ChunkBuffer | null = null;
  #filled = 0;
  #before = 0;
  /** The id of the next extent. */
  #nextId: Buffer | null = null;
  #isTakingId = false;
  /** Others wait for the buffer: its bytes are sent off as soon as their extent has an id. */
  #isRecalled = false;
  #earlyExtents = 0;

  /** How many buffers the subclass has. */
  protected inFlight = 0;
  #moved: Signal | null = null;
  #isClosed = false;

  constructor(options: ExtentSinkOptions) {
    this.options = options;
    this.sizeBytes = options.sizeBytes;
    this.#isOpenEnded = options.isAtMost ?? false;
    this.epoch = options.keyring.currentEpoch;
    this.stream = options.digests.open(options.checksums);
  }

  /** Whether the next chunk goes into the extent of the one before it. */
  protected abstract readonly isExtentOpen: boolean;
  /** Whether the stream may hold another buffer. When not, something under way will `move` it. */
  protected abstract readonly hasRoom: boolean;
  /**
   * Takes a full chunk, the object's last, or one with which its extent shall end: its buffer is to
   * be given back by `giveBack`, without waiting for the client. May call `beginExtent` once.
   */
  protected abstract accept(buffer: ChunkBuffer, length: number, ends: Ends): void;
  /**
   * The stream is about to wait for the pool: everything that is held must be on its way to being
   * given back.
   */
  protected abstract letGo(): void;
  /** Resolves when all extents are durable. */
  protected abstract complete(
    description: ObjectDescription | null,
    digests: Digests,
  ): Promise<ExtentRun[]>;
  /** After a failure: gives all buffers back and removes what is stored. */
  protected abstract discard(): Promise<void>;

  write(bytes: Buffer): Promise<void> | null {
    if (this.failure) return Promise.reject(this.failure);
    if (this.#received + bytes.length > this.sizeBytes) {
      this.fail(new Refusal('IncompleteBody'));
      return Promise.reject(this.failure);
    }
    this.#received += bytes.length;
    try {
      const taken = this.#take(bytes, 0);
      return taken === bytes.length ? null : this.#takeRest(bytes, taken);
    } catch (error) {
      // The store's gate was closed in the meantime.
      this.fail(error);
      return Promise.reject(error);
    }
  }

  async digest(): Promise<Digests> {
    if (this.#isOpenEnded) this.sizeBytes = this.#received;
    this.#isOpenEnded = false;
    const { sizeBytes } = this;
    if (this.#received !== sizeBytes) this.fail(new Refusal('IncompleteBody'));
    while (this.#buffer && !this.failure && !this.#sendOff()) await this.#nextMove();
    if (this.failure) throw this.failure;
    const digests = await this.stream.finish();
    if (this.failure) throw this.failure;
    return digests;
  }

  async seal(digests: Digests, description: ObjectDescription | null): Promise<WrittenObject> {
    const { sizeBytes } = this;
    const runs = sizeBytes === 0 ? [] : await this.complete(description, digests);
    if (this.failure) throw this.failure;
    this.#close();
    return { ...digests, sizeBytes, runs, inline: null };
  }

  async abort(): Promise<void> {
    this.fail(new Error('the write was aborted'));
    await this.discard();
    this.#close();
  }

  /** Begins the next extent, under an id that is declared. */
  protected beginExtent(): ExtentKey {
    const id = this.#nextId;
    if (!id) throw new Error('an extent before its id');
    this.#nextId = null;
    const { keyring, place, isEncrypted } = this.options;
    return newExtentKey(keyring, { id, tenant: place.tenant, epoch: this.epoch, isEncrypted });
  }

  protected giveBack(buffer: ChunkBuffer): void {
    this.inFlight--;
    this.options.buffers.release(buffer);
    this.move();
  }

  /** Resolves when the subclass has no buffer any more. */
  protected async drain(): Promise<void> {
    while (this.inFlight > 0) await this.#nextMove();
  }

  protected fail(error: unknown): void {
    this.failure ??= error;
    this.move();
  }

  /** To be called when something changed that the stream may wait for. */
  protected move(): void {
    this.#moved?.resolve();
    this.#moved = null;
  }

  #nextMove(): Promise<void> {
    this.#moved ??= createSignal();
    return this.#moved.promise;
  }

  /** Copies what finds room without waiting, and gives how many bytes are taken by then. */
  #take(bytes: Buffer, from: number): number {
    let at = from;
    while (at < bytes.length) {
      if (!this.#buffer && this.hasRoom)
        this.#hold(this.options.buffers.tryAcquire(this.options.party));
      const buffer = this.#buffer;
      if (!buffer) return at;
      const length = Math.min(chunkBytes, this.sizeBytes - this.#before);
      const count = Math.min(bytes.length - at, length - this.#filled);
      copyIntoShared(buffer.bytes, this.#filled, bytes.subarray(at, at + count));
      at += count;
      this.#filled += count;
      // The last chunk is told apart when it is handed on: a full one may yet be it.
      const mayStay = this.#isOpenEnded && at === bytes.length;
      if (this.#filled === length && !mayStay && !this.#sendOff()) return at;
    }
    return at;
  }

  async #takeRest(bytes: Buffer, from: number): Promise<void> {
    for (let at = from; at < bytes.length; at = this.#take(bytes, at)) {
      if (this.#buffer || !this.hasRoom) await this.#nextMove();
      else await this.#acquire();
      if (this.failure) throw this.failure;
    }
  }

  async #acquire(): Promise<void> {
    const { buffers } = this.options;
    this.letGo();
    const buffer = await buffers.acquire(this.options.party);
    if (this.failure) buffers.release(buffer);
    else this.#hold(buffer);
  }

  /** Lends the buffer to the client, which fills it in its own time. */
  #hold(buffer: ChunkBuffer | null): void {
    this.#buffer = buffer;
    const { buffers, recall } = this.options;
    if (buffer && recall) buffers.lend(buffer, () => this.#yield(recall), this.#mayEndEarly);
    // The id is declared while the chunk comes in.
    if (buffer && !this.isExtentOpen) this.#takeId();
  }

  /**
   * Others wait for the buffer that the client fills. What is in it ends its extent, so the client
   * goes on in another when it sends more; only where that cannot be, it is cut.
   */
  #yield(cut: () => void): void {
    if (!this.#buffer || this.failure) return;
    if (!this.#mayEndEarly) {
      cut();
      return;
    }
    this.#isRecalled = true;
    this.#sendOffRecalled();
  }

  /** Of a body whose end is not known yet, any chunk may be the last. */
  get #mayEndEarly(): boolean {
    return !this.#isOpenEnded && this.#earlyExtents < earlyExtentsMax;
  }

  #sendOffRecalled(): void {
    try {
      if (this.#isRecalled && this.#sendOff()) this.move();
    } catch (error) {
      // The store's gate was closed in the meantime.
      this.fail(error);
    }
  }

  #takeId(): void {
    if (this.#nextId || this.#isTakingId) return;
    const taken = this.options.takeId();
    if (!(taken instanceof Promise)) {
      this.#nextId = taken;
      return;
    }
    this.#isTakingId = true;
    taken
      .then((id) => {
        this.#isTakingId = false;
        this.#nextId = id;
        this.#sendOffRecalled();
        this.move();
      })
      .catch((error: unknown) => this.fail(error));
  }

  /** Hands the chunk on. False: its extent has no id yet, and the chunk stays. */
  #sendOff(): boolean {
    const buffer = this.#buffer;
    if (!buffer) return true;
    if (!this.isExtentOpen && !this.#nextId) {
      this.#takeId();
      if (!this.#nextId) return false;
    }
    const length = this.#filled;
    const isEarly =
      this.#isRecalled && length < Math.min(chunkBytes, this.sizeBytes - this.#before);
    if (isEarly) this.#earlyExtents++;
    this.#isRecalled = false;
    this.options.buffers.keep(buffer);
    this.#buffer = null;
    this.#filled = 0;
    this.#before += length;
    this.inFlight++;
    const isLast = !this.#isOpenEnded && this.#before === this.sizeBytes;
    this.accept(buffer, length, isLast ? 'object' : isEarly ? 'extent' : null);
    return true;
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.stream.close();
    if (this.#buffer) this.options.buffers.release(this.#buffer);
    this.#buffer = null;
  }
}
