// Backups in a folder. Files are written under another name, synced and renamed; the lock is the
// operating system's, so that a killed process leaves none behind.

import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { type FileHandle, link, opendir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { WorkFailure } from '../core/command-failure.ts';
import { acquireLock } from '../core/database.ts';
import {
  makeFolderDurably,
  syncPath,
  writeFileDurably,
  writeSynced,
} from '../core/durable-file.ts';
import {
  type BackupPlace,
  markerName,
  markerText,
  type PlacedFile,
  type PlaceLock,
  type TakenFile,
} from './place.ts';

const incoming = 'incoming';
/** Numbers of files may be larger than others are exact. */
const identity = { bigint: true } as const;
const namePattern = /^[A-Za-z0-9.-]+(?:\/[A-Za-z0-9.-]+)*$/;

/** `mayMake`: a folder that is not there, or empty, becomes a place. Throws `WorkFailure`. */
export function openFolderPlace(folder: string, { mayMake }: { mayMake: boolean }): FolderPlace {
  const marker = join(folder, markerName);
  if (!existsSync(marker)) {
    if (!mayMake) throw new WorkFailure(`${folder} has no backups`);
    if (existsSync(folder) && readdirSync(folder).length > 0) {
      throw new WorkFailure(`${folder} is not empty, and no place of backups`);
    }
    makeFolderDurably(folder);
    writeFileDurably(marker, markerText, { mode: 0o600, ifExists: 'keep' });
  }
  return new FolderPlace(resolve(folder));
}

export class FolderPlace implements BackupPlace {
  readonly name: string;
  readonly workFolder: string;
  /** Folders whose entries are not durable yet. */
  readonly #touched = new Set<string>();
  readonly #made = new Set<string>();
  #isLocked = false;

  constructor(folder: string) {
    this.name = folder;
    this.workFolder = join(folder, incoming);
  }

  async read(name: string): Promise<Buffer | undefined> {
    try {
      return await readFile(this.#at(name));
    } catch (error) {
      if (isMissing(error)) return undefined;
      throw error;
    }
  }

  async write(name: string, bytes: Buffer): Promise<void> {
    const temporary = this.#isLocked ? this.#temporary() : this.#beside(name);
    await writeSynced(temporary, { mode: 0o600 }, (file) => file.writeFile(bytes));
    await this.#publish(temporary, name);
  }

  async take(name: string, path: string, { mayLink, bytes, file }: TakenFile): Promise<void> {
    const temporary = this.#temporary();
    if (!mayLink || !(await isLinked({ path, file }, temporary))) {
      await writeSynced(temporary, { mode: 0o600 }, (copy) => copy.writeFile(bytes));
    }
    await this.#publish(temporary, name);
  }

  async *list(prefix: string): AsyncIterable<PlacedFile> {
    const folder = this.#at(prefix.replace(/\/$/, ''));
    let entries: Awaited<ReturnType<typeof opendir>>;
    try {
      entries = await opendir(folder);
    } catch (error) {
      if (isMissing(error)) return;
      throw error;
    }
    for await (const entry of entries) {
      const name = `${prefix}${entry.name}`;
      if (entry.isDirectory()) yield* this.list(`${name}/`);
      else if (entry.isFile()) {
        const found = await stat(this.#at(name)).catch(() => undefined);
        if (found) yield { name, sizeBytes: found.size, isLinked: found.nlink > 1 };
      }
    }
  }

  async remove(name: string): Promise<void> {
    const path = this.#at(name);
    await rm(path, { force: true });
    this.#touched.add(dirname(path));
  }

  async settle(): Promise<void> {
    for (const folder of this.#touched) {
      if (existsSync(folder)) await syncPath(folder);
    }
    this.#touched.clear();
  }

  async lock(): Promise<PlaceLock> {
    const release = acquireLock(join(this.name, 'lock.db'));
    if (!release) throw new WorkFailure(`another process works in ${this.name}`);
    // A temporary file that a killed process left behind.
    rmSync(this.workFolder, { recursive: true, force: true });
    mkdirSync(this.workFolder, { mode: 0o700 });
    this.#isLocked = true;
    return {
      confirm: async () => {},
      release: async () => {
        this.#isLocked = false;
        rmSync(this.workFolder, { recursive: true, force: true });
        release();
      },
    };
  }

  async close(): Promise<void> {}

  #at(name: string): string {
    if (!namePattern.test(name) || name.includes('..')) throw new Error(`a name ${name}`);
    return join(this.name, name);
  }

  /**
   * A name beside the final one; the folder of unfinished files belongs to the holder of the lock.
   */
  #beside(name: string): string {
    const path = this.#at(name);
    this.#makeFolder(dirname(path));
    return `${path}.tmp`;
  }

  #temporary(): string {
    return join(this.workFolder, randomBytes(8).toString('hex'));
  }

  async #publish(temporary: string, name: string): Promise<void> {
    const path = this.#at(name);
    this.#makeFolder(dirname(path));
    await rename(temporary, path);
    this.#touched.add(dirname(path));
  }

  #makeFolder(folder: string): void {
    if (this.#made.has(folder) || folder === this.name) return;
    this.#makeFolder(dirname(folder));
    if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 });
    this.#made.add(folder);
    this.#touched.add(dirname(folder));
  }
}

/**
 * Makes a link. False: the file is on another disk, the disk has no links, or another file has the
 * name by now, as of a copy that was made again.
 */
async function isLinked(
  { path, file }: { path: string; file: FileHandle },
  to: string,
): Promise<boolean> {
  try {
    await link(path, to);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const reasons = ['EXDEV', 'EPERM', 'EMLINK', 'ENOTSUP', 'ENOENT'];
    if (code !== undefined && reasons.includes(code)) return false;
    throw error;
  }
  const [opened, linked] = await Promise.all([file.stat(identity), stat(to, identity)]);
  if (opened.ino === linked.ino && opened.dev === linked.dev) return true;
  await rm(to);
  return false;
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
