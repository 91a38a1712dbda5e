// Extents as files of the data folder, opaque and sealed: `<2 hex>/<2 hex>/<32 hex>`, the folders
// from the id's last two bytes, which are random (ids begin with the time and would fill one folder
// after the other). Invariant: under its final name a file is whole and durable: it is written
// under a temporary name, fsynced, renamed, and the folder fsynced. After a failed fsync nobody
// knows what is on the disk, so the process stops; it is never tried again.
import fs from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat, unlink } from 'node:fs/promises';
import path from 'node:path';
import { monotonicMs } from '../../core/clock.ts';
import { IntegrityError, Refusal } from '../../core/errors.ts';
import { extentIdBytes } from '../../core/ids.ts';
import { localStore } from '../../core/manifest.ts';
import { MadeFolders } from './made-folders.ts';
import type { ExtentStore } from './store.ts';
import { type StoreMeter, unmeasured } from './store-meter.ts';

export interface ExtentFile {
  /** The open file, for a thread that writes to it by itself. */
  readonly descriptor: number;
  /** Writes all of `bytes` at `position` of the sealed extent. */
  write(bytes: Uint8Array, position: number): Promise<void>;
  /** Durable under its id once this resolves. */
  finish(): Promise<void>;
  /** Removes it; not while a write is under way. After `finish` it does nothing. */
  abort(): Promise<void>;
}

export interface ExtentSource {
  /** Bytes of the whole sealed extent. */
  sizeBytes: number;
  /** The open file, for the thread that reads it. */
  readonly descriptor: number;
  close(): Promise<void>;
}

export interface LocalStoreOptions {
  /**
   * Gets the error of an fsync, after which nobody knows what is stored: who serves ends the
   * process. Default: it is thrown, for who ends with what failed.
   */
  onFatal?: (error: unknown) => never;
  /** Measures how long extents take to be durable, and chunks to be read. Default: nobody looks. */
  meter?: StoreMeter;
  /** Which folders were made, by all threads that write to it. Default: this one alone does. */
  made?: MadeFolders;
}

export const temporaryFolder = 'temporary';
/** The length of a file that is written only to see whether writing is possible. */
const trialBytes = 4096;
/** How many are asked for to see whether the disk serves any. */
const othersMax = 4;
const idPattern = /^[0-9a-f]{32}$/;

function fail(error: unknown): never {
  throw error;
}

function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}

/**
 * A folder that is there already is fine. Making several at once would report a used-up quota as
 * ENOENT.
 */
function makeFolder(folder: string): void {
  try {
    fs.mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Removes a file. False: there was none. */
async function isRemoved(name: string): Promise<boolean> {
  try {
    await unlink(name);
    return true;
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
}

/** Whether the system gives a byte of a file. */
async function isReadable(name: string): Promise<boolean> {
  try {
    await using file = await open(name, 'r');
    return (await file.read(Buffer.alloc(1), 0, 1, 0)).bytesRead === 1;
  } catch {
    return false;
  }
}

// Plain descriptors with callbacks: half the cost of a FileHandle on the path of every chunk.
function openFile(name: string, flags: number): Promise<number> {
  return new Promise((resolve, reject) => {
    fs.open(name, flags, 0o600, (error, fd) => (error ? reject(error) : resolve(fd)));
  });
}

function closeFile(fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.close(fd, (error) => (error ? reject(error) : resolve()));
  });
}

function syncFile(fd: number): Promise<void> {
  return new Promise((resolve, reject) => {
    fs.fsync(fd, (error) => (error ? reject(error) : resolve()));
  });
}

function writeFully(fd: number, bytes: Uint8Array, position: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const go = (done: number): void => {
      fs.write(fd, bytes, done, bytes.length - done, position + done, (error, count) => {
        if (error) reject(error);
        else if (done + count < bytes.length) go(done + count);
        else resolve();
      });
    };
    go(0);
  });
}

/** Returns the path of an extent of a local store in a folder. */
export function extentFile(folder: string, id: Buffer): string {
  const name = id.toString('hex');
  return `${folder}/${name.slice(28, 30)}/${name.slice(30)}/${name}`;
}

export class LocalStore implements ExtentStore {
  readonly number = localStore;
  readonly name = 'local';
  readonly meter: StoreMeter;
  readonly #dir: string;
  readonly #onFatal: (error: unknown) => never;
  readonly #folders: FolderSync;
  readonly #made: MadeFolders;
  /**
   * What `#made` had begun of each first-level folder when its entries, and its own, became
   * durable. Absent at first: an earlier process may have made folders and been killed before they
   * were durable.
   */
  readonly #settled = new Map<string, number>();
  /**
   * The identity of the folder of temporary files: an unmounted disk leaves another one there, or
   * none.
   */
  #identity: { dev: number; ino: number } = { dev: 0, ino: 0 };

  /** Use `LocalStore.open`. */
  private constructor(dir: string, { onFatal, meter, made }: Required<LocalStoreOptions>) {
    this.#dir = dir;
    this.meter = meter;
    this.#made = made;
    this.#onFatal = onFatal;
    this.#folders = new FolderSync(onFatal);
  }

  /** Opens, or makes, the store in `dir`. Throws what the file system says when it cannot. */
  static async open(dir: string, options: LocalStoreOptions = {}): Promise<LocalStore> {
    const { onFatal = fail, meter = unmeasured, made = new MadeFolders() } = options;
    const store = new LocalStore(path.resolve(dir), { onFatal, meter, made });
    const temporary = path.join(store.#dir, temporaryFolder);
    const madeFirst = await mkdir(temporary, { recursive: true, mode: 0o700 });
    // Each new folder is an entry of the one above it.
    for (let folder = temporary; madeFirst && folder !== path.dirname(madeFirst); ) {
      folder = path.dirname(folder);
      await store.#folders.sync(folder);
    }
    const { dev, ino } = fs.statSync(temporary);
    store.#identity = { dev, ino };
    return store;
  }

  /**
   * Returns whether the folder is the one that was opened. A disk may have been unmounted since.
   */
  isThere(): boolean {
    const { dev, ino } = this.#identity;
    const found = fs.statSync(path.join(this.#dir, temporaryFolder), { throwIfNoEntry: false });
    return found?.dev === dev && found.ino === ino;
  }

  /** Throws Refusal ServiceUnavailable when it is not: nothing that is missing then is lost. */
  #mustBeThere(): void {
    if (this.isThere()) return;
    const message = 'The store of this bucket is not available.';
    const cause = new Error(`${this.#dir} is not the folder that was opened`);
    throw new Refusal('ServiceUnavailable', { message, cause });
  }

  /**
   * Begins the file of a new extent, under a temporary name. Throws Refusal ServiceUnavailable when
   * the folder is not there. One that `replaces` another is kept by `abort` once it has its name.
   */
  async create(id: Buffer, { replaces = false } = {}): Promise<ExtentFile> {
    this.#mustBeThere();
    const temporary = path.join(this.#dir, temporaryFolder, id.toString('hex'));
    const { O_WRONLY, O_CREAT, O_EXCL } = fs.constants;
    const fd = await openFile(temporary, O_WRONLY | O_CREAT | O_EXCL);
    let isOpen = true;
    let finished = false;
    const close = async (): Promise<void> => {
      if (!isOpen) return;
      isOpen = false;
      await closeFile(fd);
    };
    return {
      descriptor: fd,
      write: (bytes, position) => writeFully(fd, bytes, position),
      finish: async () => {
        const startMs = monotonicMs();
        const { size } = fs.fstatSync(fd);
        this.meter.sent('put');
        await syncFile(fd).catch(this.#onFatal);
        const syncedMs = monotonicMs();
        await close();
        await this.#publish(temporary, id);
        finished = true;
        this.meter.answered('put', size, monotonicMs() - startMs, syncedMs - startMs);
      },
      abort: async () => {
        if (finished) return;
        await close();
        if (await isRemoved(temporary)) return;
        // A finish that failed late has renamed it already.
        if (!replaces && this.isThere()) await this.remove(id);
      },
    };
  }

  /**
   * Writes a file and removes it. Throws what the file system says, or Refusal ServiceUnavailable.
   */
  async tryWriting(): Promise<void> {
    this.#mustBeThere();
    const name = path.join(this.#dir, temporaryFolder, 'trial');
    const { O_WRONLY, O_CREAT, O_TRUNC } = fs.constants;
    const fd = await openFile(name, O_WRONLY | O_CREAT | O_TRUNC);
    try {
      await writeFully(fd, Buffer.alloc(trialBytes), 0);
    } finally {
      await closeFile(fd);
      await rm(name, { force: true });
    }
  }

  /**
   * Opens an extent to be read. Throws IntegrityError when there is none, Refusal
   * ServiceUnavailable when the folder is not there.
   */
  async open(id: Buffer): Promise<ExtentSource> {
    let fd: number;
    try {
      fd = await openFile(this.#nameOf(id), fs.constants.O_RDONLY);
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.#mustBeThere();
      throw new IntegrityError(`extent ${id.toString('hex')} is missing`, {
        kind: 'missing',
        cause: error,
      });
    }
    return {
      // The file is open, so its size is in memory, and not worth a trip to the thread pool.
      sizeBytes: fs.fstatSync(fd).size,
      descriptor: fd,
      close: () => closeFile(fd),
    };
  }

  /**
   * Removes an extent; one that is absent is fine. Throws Refusal ServiceUnavailable when the
   * folder is not there: the extent may come back with it.
   */
  async remove(id: Buffer): Promise<void> {
    try {
      await unlink(this.#nameOf(id));
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.#mustBeThere();
    }
  }

  /** All finished extents, in no order. For repair and tests. */
  async *list(): AsyncIterable<{ id: Buffer; sizeBytes: number }> {
    for await (const id of this.#listIds()) {
      const { size } = await stat(this.#nameOf(id));
      yield { id, sizeBytes: size };
    }
  }

  async *#listIds(): AsyncIterable<Buffer> {
    for (const first of await readdir(this.#dir)) {
      if (first === temporaryFolder) continue;
      for (const second of await readdir(path.join(this.#dir, first))) {
        for (const name of await readdir(path.join(this.#dir, first, second))) {
          if (idPattern.test(name)) yield Buffer.from(name, 'hex');
        }
      }
    }
  }

  /** Whether any of a few other extents can be read. */
  async servesOthers(id: Buffer): Promise<boolean> {
    let left = othersMax;
    try {
      for await (const other of this.#listIds()) {
        if (other.equals(id)) continue;
        if (await isReadable(this.#nameOf(other))) return this.isThere();
        if (--left === 0) break;
      }
    } catch {
      // The folder itself cannot be read.
    }
    return false;
  }

  /**
   * Removes what a killed process left unfinished, and says how many files that were. Only at
   * start, while nobody writes.
   */
  async removeTemporary(): Promise<number> {
    const folder = path.join(this.#dir, temporaryFolder);
    const names = await readdir(folder);
    for (const name of names) await rm(path.join(folder, name), { force: true });
    return names.length;
  }

  #nameOf(id: Buffer): string {
    if (id.length !== extentIdBytes) throw new Error(`an extent id of ${id.length} bytes`);
    return extentFile(this.#dir, id);
  }

  async #publish(temporary: string, id: Buffer): Promise<void> {
    const name = this.#nameOf(id);
    const second = path.dirname(name);
    const first = path.dirname(second);
    try {
      await rename(temporary, name);
    } catch (error) {
      if (!isMissing(error)) throw error;
      this.#mustBeThere();
      this.#makeFolder(first, second);
      await rename(temporary, name);
    }
    const settled = this.#settled.get(first) === this.#made.begun(numberOf(first));
    await Promise.all([this.#folders.sync(second), settled ? null : this.#settle(first)]);
  }

  /**
   * Makes the two folders when they are first needed: all 65,537 at once would take 256 MiB. In one
   * step with its counting, so that no rename can use a folder that `#made` does not yet know.
   */
  #makeFolder(first: string, second: string): void {
    this.#made.count(numberOf(first), () => {
      for (const folder of [first, second]) makeFolder(folder);
    });
  }

  async #settle(first: string): Promise<void> {
    const made = this.#made.settled(numberOf(first));
    await Promise.all([this.#folders.sync(first), this.#folders.sync(this.#dir)]);
    if (made !== null) this.#settled.set(first, made);
  }
}

/** Of a folder of the first level. */
function numberOf(first: string): number {
  return Number.parseInt(path.basename(first), 16);
}

interface Round {
  running: Promise<void>;
  next: Promise<void> | null;
}

/**
 * Makes the entries of a folder durable: fsync of the folder (fsync(2): "also an explicit fsync()
 * on a file descriptor for the directory is needed"). `sync` resolves only after an fsync that
 * began after the call, so calls that come while one runs share the next one.
 */
export class FolderSync {
  readonly #rounds = new Map<string, Round>();
  readonly #onFatal: (error: unknown) => never;

  /** `onFatal` gets the error of an fsync; it must end the process. */
  constructor(onFatal: (error: unknown) => never) {
    this.#onFatal = onFatal;
  }

  sync(folder: string): Promise<void> {
    const round = this.#rounds.get(folder);
    if (!round) return this.#begin(folder);
    const begin = (): Promise<void> => this.#begin(folder);
    round.next ??= round.running.then(begin, begin);
    return round.next;
  }

  #begin(folder: string): Promise<void> {
    const round: Round = { running: this.#syncNow(folder), next: null };
    this.#rounds.set(folder, round);
    const end = (): void => {
      if (this.#rounds.get(folder) === round && !round.next) this.#rounds.delete(folder);
    };
    round.running.then(end, end);
    return round.running;
  }

  async #syncNow(folder: string): Promise<void> {
    const opened = await open(folder, 'r');
    try {
      await opened.sync().catch(this.#onFatal);
    } finally {
      await opened.close();
    }
  }
}
