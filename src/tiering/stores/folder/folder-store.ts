// Extents, and small named objects beside them, as files in a folder of any mounted disk or file
// server: a store like one in S3, with the same names under it. Invariants: under its name a file
// is whole and durable; nothing is made where the disk is not mounted; and a disk that hangs, fills
// up or goes read-only refuses what is asked of it and stops nothing else. Whether the bytes are
// the written ones is for the caller to verify.
import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { monotonicMs, nowMs } from '../../../core/clock.ts';
import { IntegrityError, Refusal } from '../../../core/errors.ts';
import { extentIdBytes } from '../../../core/ids.ts';
import { extentBytesMax } from '../../../core/limits.ts';
import { AttemptFailure } from '../attempt-failure.ts';
import { Breaker, refusalOf } from '../breaker.ts';
import {
  type DriverOptions,
  defaultBreaker,
  defaultStallMs,
  type StoreDriver,
  type StoreState,
} from '../driver.ts';
import type { Finding } from '../s3/probe.ts';
import type { RemoteRead } from '../store.ts';
import { type RequestKind, type StoreMeter, unmeasured } from '../store-meter.ts';
import { defaultConnectionsMax, folderOf } from '../store-place.ts';
import { causeOf, readFileOfStore } from '../unreadable-file.ts';
import { type OpenedFile, scratchBytes } from './file-calls.ts';
import { FileError, FileThreads } from './file-threads.ts';

export interface FolderStoreOptions extends DriverOptions {
  /** `file:///path/of/the/folder`, which must exist. */
  url: string;
}

const defaultExtentBytesMax = 8 * 1024 * 1024;
const temporaryFolder = 'temporary';
/** What a process has left there that was killed: no write lasts as long. */
const temporaryMsMax = 24 * 60 * 60_000;
const namePattern = /^extents\/([0-9a-f]{2})\/([0-9a-f]{30}\1)$/;

export class FolderStore implements StoreDriver {
  readonly number: number;
  readonly name: string;
  readonly extentBytesMax: number;
  readonly meter: StoreMeter;
  readonly opened = { kind: 'folder' } as const;
  readonly #root: string;
  readonly #threads: FileThreads;
  readonly #breaker: Breaker;
  readonly #confirmPlace: () => Promise<void>;
  readonly #onEvent: NonNullable<DriverOptions['onEvent']>;
  #findings: Finding[] = [];
  #probed = false;
  /** Whether the file system has hard links, by which the first writer of a name wins. */
  #hasLinks = true;
  #lastFailure: StoreState['lastFailure'];

  /** Use `FolderStore.open` or `FolderStore.join`. */
  private constructor(options: FolderStoreOptions, isFirst: boolean) {
    const { number, name, breaker = defaultBreaker, url } = options;
    this.number = number;
    this.name = name;
    this.extentBytesMax = options.extentBytesMax ?? defaultExtentBytesMax;
    this.meter = options.meter ?? unmeasured;
    this.#root = folderOf(url);
    this.#confirmPlace = options.confirmPlace ?? (() => Promise.resolve());
    this.#onEvent = options.onEvent ?? (() => {});
    this.#threads = new FileThreads({
      threadsMax: options.connectionsMax ?? defaultConnectionsMax(url),
      stallMs: options.stallTimeoutMs ?? defaultStallMs,
    });
    this.#breaker = new Breaker({
      ...breaker,
      words: options.breakerState,
      trial: isFirst ? () => this.#try() : null,
      onChange: (state, failure) => this.#onEvent({ kind: 'breaker', state, failure }),
    });
  }

  /**
   * Opens and probes the store. Throws an Error that says why when the folder is not there or
   * cannot serve as a store. One that does not answer is no error: the store is then not ready,
   * refuses what is asked of it, and is probed until it is.
   */
  static async open(options: FolderStoreOptions): Promise<FolderStore> {
    const bytesMax = options.extentBytesMax ?? defaultExtentBytesMax;
    if (bytesMax > extentBytesMax) throw new Error(`extents of ${bytesMax} bytes are too large`);
    const store = new FolderStore(options, true);
    try {
      options.signal?.throwIfAborted();
      await store.#probe();
    } catch (error) {
      if (!(error instanceof AttemptFailure) || !error.serverFault) {
        await store.close();
        throw error;
      }
      store.#breaker.open(error);
    }
    return store;
  }

  /** Joins in what another thread has opened, and goes on to look after. */
  static join(options: FolderStoreOptions): FolderStore {
    const store = new FolderStore(options, false);
    store.#probed = true;
    return store;
  }

  followBreaker(failure: AttemptFailure): void {
    this.#breaker.follow(failure);
  }

  async put(id: Buffer, pieces: readonly Buffer[]): Promise<void> {
    const name = nameOf(id);
    const outcome = await this.#put(name, pieces, this.#hasLinks);
    if (outcome === 'stored') return;
    // Ids are random, so this is not another write's.
    const cause = new Error(`${name} exists in the store ${this.name} and is another`);
    throw new Refusal('ServiceUnavailable', { cause });
  }

  async replace(id: Buffer, pieces: readonly Buffer[]): Promise<void> {
    await this.#put(nameOf(id), pieces, false);
  }

  async read(options: RemoteRead): Promise<void> {
    const { sizeBytes, position, into, filled, signal } = options;
    const name = nameOf(options.id);
    await this.#readFile(name, signal, async (file) => {
      if (file.sizeBytes !== sizeBytes) throw this.#isOfLength(name, file.sizeBytes, sizeBytes);
      let at = position;
      for (const [index, piece] of into.entries()) {
        await this.#fill(file, at, piece, signal);
        at += piece.length;
        filled?.(index);
      }
    });
  }

  async readEnd(
    id: Buffer,
    maxBytes: number,
  ): Promise<{ bytes: Buffer; sizeBytes: number } | undefined> {
    try {
      return await this.#readFile(nameOf(id), undefined, async (file) => {
        const bytes = Buffer.alloc(Math.min(maxBytes, file.sizeBytes));
        await this.#fill(file, file.sizeBytes - bytes.length, bytes, undefined);
        return { bytes, sizeBytes: file.sizeBytes };
      });
    } catch (error) {
      if (error instanceof IntegrityError && error.kind === 'missing') return undefined;
      throw error;
    }
  }

  remove(id: Buffer): Promise<void> {
    return this.removeObject(nameOf(id));
  }

  async discard(ids: readonly Buffer[]): Promise<void> {
    if (ids.length === 0) return;
    try {
      await this.#confirmPlace();
    } catch {
      return;
    }
    // An extent that cannot be removed now is an intent, so the sweeper will remove it.
    await Promise.allSettled(ids.map((id) => this.remove(id)));
  }

  async *list(): AsyncIterable<{ id: Buffer; sizeBytes: number }> {
    for await (const { name, sizeBytes } of this.listObjects('extents/')) {
      const id = namePattern.exec(name)?.[2];
      if (id !== undefined) yield { id: Buffer.from(id, 'hex'), sizeBytes };
    }
  }

  async getObject(name: string): Promise<Buffer | undefined> {
    const bytes = await this.#ask('get', () =>
      this.#threads.run({ do: 'take', file: this.#fileOf(name) }),
    );
    return bytes === null ? undefined : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
  }

  async putObject(
    name: string,
    bytes: Buffer,
    options: { ifAbsent?: boolean } = {},
  ): Promise<'stored' | 'exists'> {
    const ifAbsent = options.ifAbsent ?? false;
    // Where there are no links, looking first is the best that can be done.
    if (ifAbsent && !this.#hasLinks && (await this.getObject(name))) return 'exists';
    return this.#put(name, [bytes], ifAbsent && this.#hasLinks);
  }

  async removeObject(name: string): Promise<void> {
    await this.#ask('delete', () => this.#threads.run({ do: 'remove', file: this.#fileOf(name) }));
  }

  async *listObjects(
    prefix: string,
    after = '',
  ): AsyncIterable<{ name: string; sizeBytes: number }> {
    const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1);
    yield* this.#walk(folder, { prefix, after });
  }

  state(): StoreState {
    const { inFlight, waiting } = this.#threads;
    const { requests, retries, failures, hedges } = this.meter.counts;
    return {
      ready: this.#probed && this.#breaker.state === 'closed',
      breaker: this.#breaker.state,
      findings: this.#findings,
      retries: { ...retries },
      failures: { ...failures },
      hedges,
      inFlight,
      waiting,
      requests,
      lastFailure: this.#lastFailure,
    };
  }

  async close(): Promise<void> {
    this.#breaker.close();
    this.#threads.close();
  }

  /** In the order of the names' bytes, in which a folder's name ends with its slash. */
  async *#walk(
    folder: string,
    asked: { prefix: string; after: string },
  ): AsyncIterable<{ name: string; sizeBytes: number }> {
    const entries = await this.#ask('list', () =>
      this.#threads.run({ do: 'list', folder: this.#fileOf(folder) }),
    );
    const named = (entries ?? []).map(({ name, isFolder, sizeBytes }) => ({
      name: `${folder}${name}${isFolder ? '/' : ''}`,
      isFolder,
      sizeBytes,
    }));
    named.sort((a, b) => Buffer.compare(Buffer.from(a.name), Buffer.from(b.name)));
    const { prefix, after } = asked;
    for (const { name, isFolder, sizeBytes } of named) {
      if (name === `${temporaryFolder}/`) continue;
      if (isFolder) {
        const mayHold = name.startsWith(prefix) || prefix.startsWith(name);
        const isPast = after > name && !after.startsWith(name);
        if (mayHold && !isPast) yield* this.#walk(name, asked);
      } else if (name.startsWith(prefix) && name > after) yield { name, sizeBytes };
    }
  }

  /** Stores a file whole. */
  async #put(
    name: string,
    pieces: readonly Buffer[],
    ifAbsent: boolean,
  ): Promise<'stored' | 'exists'> {
    const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
    const temporary = this.#fileOf(`${temporaryFolder}/${randomBytes(16).toString('hex')}`);
    const root = this.#root;
    const file = this.#fileOf(name);
    const sent = pieces.map(inMessage);
    const put = { do: 'put', root, temporary, file, pieces: sent, ifAbsent } as const;
    return this.#ask('put', () => this.#threads.run(put), bytes);
  }

  /** Opens a file, has it used, and closes it. Rejects with IntegrityError where it is missing. */
  async #readFile<T>(
    name: string,
    signal: AbortSignal | undefined,
    use: (file: OpenedFile) => Promise<T>,
  ): Promise<T> {
    const file = {
      ...{ name, store: this.number, meter: this.meter },
      failureOfOne: (error: unknown) => {
        const failure = error instanceof Refusal ? error.cause : undefined;
        return failure instanceof AttemptFailure && failure.reason === 'io' ? failure : null;
      },
      servesOthers: () => this.#servesOthers(),
    };
    return readFileOfStore(file, () => this.#readOnce(name, signal, use));
  }

  async #readOnce<T>(
    name: string,
    signal: AbortSignal | undefined,
    use: (file: OpenedFile) => Promise<T>,
  ): Promise<T> {
    const close = ({ descriptor }: OpenedFile): void => {
      this.#threads.run({ do: 'close', descriptor }).catch(() => {});
    };
    let isMissing = false;
    const read = this.#ask('get', async () => {
      const options = { signal, late: (late: OpenedFile | null) => late && close(late) };
      const file = await this.#threads.run({ do: 'open', file: this.#fileOf(name) }, options);
      if (!file) {
        isMissing = true;
        return null;
      }
      try {
        return await use(file);
      } finally {
        close(file);
      }
    });
    const result = await read;
    if (!isMissing) return result as T;
    await this.#confirmPlace();
    throw this.#isMissing(`${name} is missing`);
  }

  /** Reads into a piece, which is written to in this turn of the loop or not at all. */
  async #fill(
    { descriptor }: OpenedFile,
    position: number,
    piece: Buffer,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    for (let done = 0; done < piece.length; ) {
      const length = Math.min(piece.length - done, scratchBytes);
      const call = { do: 'read', descriptor, position: position + done, length } as const;
      const use = (scratch: Uint8Array, count: number): void => {
        piece.set(scratch.subarray(0, count), done);
      };
      const count = await this.#threads.run(call, { signal, use });
      if (count === 0) throw new AttemptFailure('truncated', 'a file ended before its length');
      done += count;
    }
  }

  /** Does something of the store, counted and timed, if the breaker lets it. */
  async #ask<T>(kind: RequestKind, run: () => Promise<T>, bytes = 0): Promise<T> {
    this.#breaker.admit();
    const startMs = monotonicMs();
    this.meter.sent(kind);
    try {
      const result = await run();
      const durationMs = monotonicMs() - startMs;
      this.meter.answered(kind, bytes, durationMs, durationMs);
      this.#breaker.succeed();
      return result;
    } catch (error) {
      throw this.#noted(error);
    }
  }

  /** What those who asked are told. */
  #noted(error: unknown): unknown {
    const failure = this.#counted(error);
    if (!(failure instanceof AttemptFailure)) return failure;
    if (failure.serverFault) this.#breaker.fail(failure);
    return refusalOf(failure);
  }

  /** What failed, which is the error itself where the store did not. */
  #counted(error: unknown): unknown {
    const failure = error instanceof FileError ? failureOf(error) : error;
    if (!(failure instanceof AttemptFailure)) return failure;
    const { reason, message } = failure;
    this.meter.failed(reason);
    this.#lastFailure = { reason, message, timeMs: nowMs() };
    return failure;
  }

  async #servesOthers(): Promise<boolean> {
    try {
      const mark = await this.#threads.run({ do: 'take', file: this.#fileOf('owner') });
      return mark !== null;
    } catch {
      return false;
    }
  }

  /** The breaker's trial: a small file, or the probe where the folder was never used. */
  async #try(): Promise<void> {
    if (!this.#probed) return this.#probe();
    try {
      await this.#threads.run({ do: 'list', folder: this.#fileOf(temporaryFolder) });
      await this.#threads.run({ do: 'take', file: this.#fileOf('owner') });
    } catch (error) {
      throw this.#counted(error);
    }
  }

  /** Finds out whether files can be written, read, listed and removed, and whether links work. */
  async #probe(): Promise<void> {
    this.#findings = [];
    const folder = this.#fileOf(temporaryFolder);
    const name = `${temporaryFolder}/${randomBytes(16).toString('hex')}`;
    const bytes = randomBytes(1000);
    const run = this.#threads.run.bind(this.#threads);
    const put = async (from: string, ifAbsent: boolean) => {
      const call = { root: this.#root, file: this.#fileOf(name), pieces: [bytes], ifAbsent };
      return run({ do: 'put', temporary: this.#fileOf(`${name}.${from}`), ...call });
    };
    try {
      if (!(await run({ do: 'list', folder: this.#root }))) {
        const advice = 'make the folder, or mount its disk';
        throw new AttemptFailure('unreachable', `${this.#root} is not there: ${advice}`);
      }
      await run({ do: 'make', folder });
      await run({ do: 'clear', folder, beforeMs: nowMs() - temporaryMsMax });
      await this.#find('write', 'a file was written and is durable', () => put('a', false));
      await this.#find('read', 'it was read back as it was written', async () => {
        const read = await run({ do: 'take', file: this.#fileOf(name) });
        if (!read || !bytes.equals(read)) throw new Error('what was read is not what was written');
      });
      this.#hasLinks = await this.#find(
        'condition',
        'the first writer of a name wins',
        async () => {
          if ((await put('b', true)) !== 'exists') throw new Error('a file was written over');
        },
      ).then(
        () => true,
        () => false,
      );
      await this.#find('delete', 'it was removed', () =>
        run({ do: 'remove', file: this.#fileOf(name) }),
      );
      this.#probed = true;
    } catch (error) {
      throw this.#counted(error);
    } finally {
      this.#onEvent({ kind: 'probed', findings: this.#findings });
    }
  }

  async #find(
    capability: Finding['capability'],
    good: string,
    step: () => Promise<unknown>,
  ): Promise<void> {
    const startMs = monotonicMs();
    const note = (ok: boolean, detail: string): void => {
      this.#findings.push({ capability, ok, detail, latencyMs: monotonicMs() - startMs });
    };
    try {
      await step();
      note(true, good);
    } catch (error) {
      note(false, (error as Error).message);
      throw error;
    }
  }

  #isMissing(message: string): IntegrityError {
    return new IntegrityError(message, { kind: 'missing', store: this.number });
  }

  #isOfLength(name: string, is: number, shouldBe: number): IntegrityError {
    const message = `${name} has ${is} bytes instead of ${shouldBe}`;
    return new IntegrityError(message, { kind: 'length', store: this.number });
  }

  #fileOf(name: string): string {
    return join(this.#root, name);
  }
}

/** What the system's error says of the folder. */
function failureOf(error: FileError): AttemptFailure {
  const reason = causeOf(error.code);
  return new AttemptFailure(reason, error.message, { cause: error, code: error.code });
}

/** Shared memory is sent as it is; of other memory a message would copy all that is around it. */
function inMessage(piece: Buffer): Uint8Array {
  return piece.buffer instanceof SharedArrayBuffer ? piece : new Uint8Array(piece);
}

function nameOf(id: Buffer): string {
  if (id.length !== extentIdBytes) throw new Error(`an extent id of ${id.length} bytes`);
  const name = id.toString('hex');
  return `extents/${name.slice(30)}/${name}`;
}
