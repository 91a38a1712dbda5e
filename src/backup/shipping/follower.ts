// A copy of a database on another machine that follows what is shipped: `DIR/standby/`. Invariants:
// at each moment, also after a kill, what `state.json` names together with `next.json`, if that is
// there, is a whole state of the database, without a look at the place; and a new beginning takes
// the place of the old one only when it is whole.

import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { type FileHandle, open, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { WorkFailure } from '../../core/command-failure.ts';
import { replaceFileDurably, streamFileDurably } from '../../core/durable-file.ts';
import { IntegrityError } from '../../core/errors.ts';
import { listBackupIds, type Manifest, readManifest } from '../manifest.ts';
import type { PieceSealer } from '../pieces.ts';
import type { BackupPlace } from '../place.ts';
import { putBackBeside, putExtentsBack } from '../put-back.ts';
import {
  decodePages,
  encodedPageBytes,
  encodePages,
  type ReadSegment,
  readPages,
  type SegmentHead,
} from './segment.ts';
import { type Position, putNewestBack, readStream, writePages } from './stream-reader.ts';

export const standbyFolder = 'standby';
const version = 1;
/** A segment that is to be written over the copy: what it is, when its pages are all there. */
const nextName = 'next.json';
const pagesName = 'next-pages';
const pagesAtOnce = 64;
const copyPattern = /^\d{8}T[\w-]+$/;

/** The state of a standby's copy. */
export interface Followed {
  /** The folder in `standby/` that has the database and the small files beside it. */
  copy: string;
  /** The newest backup that it has the extents of. */
  backup: string;
  /** Null: the backup is of no stream, or nothing covers it yet. */
  position: Position | null;
  /** Everything that was committed before this moment is in the copy; in milliseconds. */
  timeMs: number;
  /** The number of records in the log, at least. */
  records: number;
}

export interface FollowerOptions {
  /** The data folder of the standby. */
  folder: string;
  storeFolder: string;
  place: BackupPlace;
  sealer: PieceSealer;
  onProgress: (step: string, done: number, total?: number) => void;
}

/** Whether the folder is a standby's that was not promoted. */
export function isStandby(folder: string): boolean {
  return existsSync(join(folder, standbyFolder)) && !existsSync(join(folder, 'bursar.db'));
}

export function copyFile(folder: string, { copy }: Followed): string {
  return join(folder, standbyFolder, copy, 'bursar.db');
}

/** Null: there is none. Throws `WorkFailure` when it is damaged. */
export function readFollowed(folder: string): Followed | null {
  const path = join(folder, standbyFolder, 'state.json');
  if (!existsSync(path)) return null;
  try {
    const { version: written, ...state } = JSON.parse(readFileSync(path, 'utf8'));
    if (written === version && copyPattern.test(state.copy)) return state;
  } catch {
    // The failure below says it.
  }
  throw damaged(folder, path);
}

function damaged(folder: string, path: string): WorkFailure {
  const way = `remove ${join(folder, standbyFolder)}, and follow anew`;
  return new WorkFailure(`${path} is damaged: ${way}`);
}

export class Follower {
  readonly #options: FollowerOptions;
  readonly #path: string;
  #state: Followed | null;
  /** Segments up to this one are there, or were. */
  #shippedSeq = 0;

  private constructor(options: FollowerOptions, state: Followed | null) {
    this.#options = options;
    this.#path = join(options.folder, standbyFolder);
    this.#state = state;
  }

  /** Finishes without a place. */
  static async finish(folder: string): Promise<void> {
    const state = readFollowed(folder);
    if (state) await finishNext(folder, state);
  }

  /**
   * Opens a copy, and finishes what a killed process has begun. Throws `WorkFailure`, or the
   * system's error.
   */
  static async open(options: FollowerOptions): Promise<Follower> {
    const follower = new Follower(options, readFollowed(options.folder));
    mkdirSync(follower.#path, { recursive: true, mode: 0o700 });
    await follower.#finish();
    return follower;
  }

  get state(): Followed | null {
    return this.#state;
  }

  /**
   * Applies what was shipped since. Throws IntegrityError where a part of that is missing, or does
   * not follow, or what the place throws.
   */
  async follow(): Promise<void> {
    const position = this.#state?.position;
    if (!position) return;
    const { place, sealer } = this.#options;
    for await (const segment of readStream(place, sealer, position)) {
      await this.#keep(segment);
      await this.#finish();
    }
    const { stream, seq } = this.#state?.position ?? position;
    if (seq < this.#shippedSeq) {
      throw new IntegrityError(`segment ${seq + 1} of ${stream} is not there any more`);
    }
  }

  /**
   * Looks at the newest backup: takes the extents that are new in it, and begins with it where the
   * copy does not become what it is. Throws `WorkFailure` when there is none, or what the place
   * throws.
   */
  async lookForBackups({ isLost }: { isLost: boolean }): Promise<void> {
    const { place, sealer, storeFolder, onProgress } = this.#options;
    const id = (await listBackupIds(place)).at(-1);
    if (id === undefined) throw new WorkFailure(`${place.name} has no backups`);
    const state = this.#state;
    if (state?.backup === id && state.position && !isLost) return;
    const manifest = await readManifest(place, sealer, id);
    if (!manifest) throw new IntegrityError(`the manifest of backup ${id} is missing`);
    const { shipped } = manifest;
    if (!isLost && state?.position && state.position.stream === shipped?.stream) {
      this.#shippedSeq = shipped.seq;
      await putExtentsBack({ place, sealer, manifest, storeFolder, onProgress });
      await this.#write({ ...state, backup: id });
    } else if (isLost || state?.backup !== id || (await isCovered(place, sealer, manifest))) {
      await this.#begin(manifest);
    }
  }

  async #begin(manifest: Manifest): Promise<void> {
    const { place, sealer, storeFolder, onProgress } = this.#options;
    const copy = `${manifest.id}-${randomBytes(4).toString('hex')}`;
    const folder = join(this.#path, copy);
    for (const name of readdirSync(this.#path)) {
      if (name !== this.#state?.copy && copyPattern.test(name)) this.#remove(name);
    }
    mkdirSync(folder, { mode: 0o700 });
    const source = { place, sealer, manifest, onProgress };
    await putBackBeside({ ...source, folder, storeFolder });
    const reached = await putNewestBack({ ...source, databaseFile: join(folder, 'bursar.db') });
    const before = this.#state?.copy;
    this.#shippedSeq = 0;
    await this.#write({
      copy,
      backup: manifest.id,
      position: reached && { stream: reached.stream, seq: reached.seq, digest: reached.digest },
      timeMs: reached?.timeMs ?? manifest.timeMs,
      records: reached?.records ?? manifest.records,
    });
    this.#remove(nextName);
    if (before !== undefined) this.#remove(before);
  }

  /** Keeps the whole segment on the disk before any of it is written over the copy. */
  async #keep(segment: ReadSegment): Promise<void> {
    const { place, sealer } = this.#options;
    const { head, digest } = segment;
    await streamFileDurably(join(this.#path, pagesName), { mode: 0o600 }, async (append) => {
      for await (const pages of readPages(place, sealer, segment)) await append(encodePages(pages));
    });
    const text = `${JSON.stringify({ head, digest, copy: this.#state?.copy })}\n`;
    await replaceFileDurably(join(this.#path, nextName), text, { mode: 0o600 });
  }

  async #finish(): Promise<void> {
    if (this.#state) this.#state = await finishNext(this.#options.folder, this.#state);
  }

  async #write(state: Followed): Promise<void> {
    await writeState(this.#options.folder, state);
    this.#state = state;
  }

  #remove(name: string): void {
    rmSync(join(this.#path, name), { recursive: true, force: true });
  }
}

/** Returns whether there is by now a segment that can be put on the backup. */
async function isCovered(
  place: BackupPlace,
  sealer: PieceSealer,
  { id, shipped }: Manifest,
): Promise<boolean> {
  if (!shipped) return false;
  for await (const { head } of readStream(place, sealer, { ...shipped, digest: null })) {
    if (head.covers.includes(id)) return true;
  }
  return false;
}

/** Writes a kept segment over the copy. It can be repeated. */
async function finishNext(folder: string, state: Followed): Promise<Followed> {
  const path = join(folder, standbyFolder, nextName);
  if (!existsSync(path)) return state;
  const { head, digest, copy } = await readNext(folder, path);
  let next = state;
  // A kept segment may be for a copy that is not there any more.
  if (copy === state.copy) {
    const { stream, seq, timeMs, records } = head;
    await using pages = await open(join(folder, standbyFolder, pagesName), 'r');
    await using database = await open(copyFile(folder, state), 'r+');
    await writeOver(database, pages, head);
    await database.datasync();
    next = { ...state, position: { stream, seq, digest }, timeMs, records };
    await writeState(folder, next);
  }
  rmSync(path);
  return next;
}

interface Next {
  head: SegmentHead;
  digest: string;
  /** The copy that it is to be written over. */
  copy: string;
}

async function readNext(folder: string, path: string): Promise<Next> {
  try {
    return JSON.parse(await readFile(path, 'utf8'));
  } catch {
    throw damaged(folder, path);
  }
}

async function writeOver(database: FileHandle, kept: FileHandle, head: SegmentHead): Promise<void> {
  const block = Buffer.alloc(pagesAtOnce * encodedPageBytes(head));
  for (let offset = 0; ; ) {
    const { bytesRead } = await kept.read(block, 0, block.length, offset);
    if (bytesRead === 0) break;
    await writePages(database, decodePages(block.subarray(0, bytesRead), head));
    offset += bytesRead;
  }
  await database.truncate(head.pageBytes * head.pageCount);
}

async function writeState(folder: string, state: Followed): Promise<void> {
  const text = `${JSON.stringify({ version, ...state })}\n`;
  await replaceFileDurably(join(folder, standbyFolder, 'state.json'), text, { mode: 0o600 });
}
