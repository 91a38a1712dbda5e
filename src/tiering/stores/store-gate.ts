// The gate before a store over a network. It is shut until the store was probed and its owner mark
// was found to be ours, and shut again when the mark is not ours any more. Invariant: while the
// gate is shut, nothing is read from the store or written to it, and requests for it are refused at
// once with ServiceUnavailable. A store that buckets use but that is not configured any more has a
// gate that stays shut.
import { Refusal } from '../../core/errors.ts';
import type { ArchiveCalls, RemoteRead, RemoteStore } from './store.ts';
import { type StoreMeter, unmeasured } from './store-meter.ts';
import type { StoreTally } from './store-tally.ts';

export class StoreGate implements RemoteStore {
  readonly number: number;
  readonly name: string;
  #store: RemoteStore | null = null;
  #reason: string;
  readonly #onMoved: () => void;

  /** `onMoved` is called when it was opened or shut. */
  constructor(options: { number: number; name: string; reason: string; onMoved?: () => void }) {
    this.number = options.number;
    this.name = options.name;
    this.#reason = options.reason;
    this.#onMoved = options.onMoved ?? (() => {});
  }

  /** Why the gate is shut; null: it is open. */
  get reason(): string | null {
    return this.#store ? null : this.#reason;
  }

  open(store: RemoteStore): void {
    this.#store = store;
    this.#onMoved();
  }

  shut(reason: string): void {
    this.#store = null;
    this.#reason = reason;
    this.#onMoved();
  }

  get meter(): StoreMeter {
    return this.#store?.meter ?? unmeasured;
  }

  /** Undefined while the gate is shut, too: then reads are refused. */
  get archive(): ArchiveCalls | undefined {
    return this.#store?.archive;
  }

  checkOpen(): void {
    this.#inside();
  }

  /** Throws Refusal ServiceUnavailable while the gate is shut, so that no body is asked for. */
  get extentBytesMax(): number {
    return this.#inside().extentBytesMax;
  }

  // The plain `async` ones of these would cost hot reads and writes another promise.
  put(id: Buffer, pieces: readonly Buffer[], tally?: StoreTally): Promise<void> {
    return this.#store?.put(id, pieces, tally) ?? this.#refuse();
  }

  read(options: RemoteRead): Promise<void> {
    return this.#store?.read(options) ?? this.#refuse();
  }

  async replace(id: Buffer, pieces: readonly Buffer[]): Promise<void> {
    await this.#inside().replace(id, pieces);
  }

  async remove(id: Buffer, tally?: StoreTally): Promise<void> {
    await this.#inside().remove(id, tally);
  }

  async discard(ids: readonly Buffer[], tally?: StoreTally): Promise<void> {
    await this.#store?.discard(ids, tally);
  }

  async *list(): AsyncGenerator<{ id: Buffer; sizeBytes: number }> {
    yield* this.#inside().list();
  }

  async readEnd(
    id: Buffer,
    maxBytes: number,
  ): Promise<{ bytes: Buffer; sizeBytes: number } | undefined> {
    return this.#inside().readEnd(id, maxBytes);
  }

  async getObject(name: string): Promise<Buffer | undefined> {
    return this.#inside().getObject(name);
  }

  async putObject(
    name: string,
    bytes: Buffer,
    options?: { ifAbsent?: boolean },
  ): Promise<'stored' | 'exists'> {
    return this.#inside().putObject(name, bytes, options);
  }

  async removeObject(name: string): Promise<void> {
    await this.#inside().removeObject(name);
  }

  async *listObjects(
    prefix: string,
    after?: string,
  ): AsyncGenerator<{ name: string; sizeBytes: number }> {
    yield* this.#inside().listObjects(prefix, after);
  }

  #inside(): RemoteStore {
    if (this.#store) return this.#store;
    throw this.#refusal();
  }

  #refuse(): Promise<never> {
    return Promise.reject(this.#refusal());
  }

  #refusal(): Refusal {
    const message = 'The store of this bucket is not available.';
    return new Refusal('ServiceUnavailable', { message, cause: new Error(this.#reason) });
  }
}
