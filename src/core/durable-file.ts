// Files that must be whole or absent after a power cut: a temporary file is written and fsynced,
// takes its name in one step, and the folder is fsynced so that the name survives as well.
// Invariant: no reader ever sees a part of such a file, nor one with a wider mode than asked for.
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { type FileHandle, open, rename, unlink } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { atEnd } from './closing.ts';

export interface DurableFileOptions {
  mode: number;
  /**
   * `replace` swaps an existing file in one step; `keep` leaves the one that was there first;
   * `refuse` does so too, and throws EEXIST.
   */
  ifExists: 'replace' | 'keep' | 'refuse';
}

/**
 * Writes `content` to `path` durably. Throws the system's error; the old file then still stands.
 */
export function writeFileDurably(
  path: string,
  content: string | Uint8Array,
  options: DurableFileOptions,
): void {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  const file = openSync(temporary, 'wx', options.mode);
  try {
    try {
      writeFileSync(file, content);
      fsyncSync(file);
    } finally {
      closeSync(file);
    }
    const { ifExists } = options;
    if (ifExists === 'replace') renameSync(temporary, path);
    else if (ifExists === 'refuse') linkSync(temporary, path);
    else linkUnlessExists(temporary, path);
  } catch (error) {
    unlinkSync(temporary);
    throw error;
  }
  if (options.ifExists !== 'replace') unlinkSync(temporary);
  fsyncFolder(dirname(path));
}

/**
 * `writeFileDurably` with `replace`, while others have their turns, for files that have one writer:
 * what a crash leaves is overwritten by the next. Rejects with the system's error; the old file
 * then still stands.
 */
export function replaceFileDurably(
  path: string,
  content: string | Uint8Array,
  options: Pick<DurableFileOptions, 'mode'>,
): Promise<void> {
  return streamFileDurably(path, options, (append) => append(content));
}

/** The same for a file that `write` gives piece by piece. Rejects with what that throws, too. */
export async function streamFileDurably(
  path: string,
  { mode }: Pick<DurableFileOptions, 'mode'>,
  write: (append: (content: string | Uint8Array) => Promise<void>) => Promise<void>,
): Promise<void> {
  const temporary = `${path}.tmp`;
  try {
    await writeSynced(temporary, { mode }, (file) => write((content) => file.appendFile(content)));
    await rename(temporary, path);
  } catch (error) {
    await unlink(temporary);
    throw error;
  }
  await syncPath(dirname(path));
}

/** Makes a file whose content, but not yet its name, has reached the disk. */
export async function writeSynced(
  path: string,
  { flags = 'w', mode }: { flags?: 'w' | 'wx'; mode: number },
  write: (file: FileHandle) => Promise<void>,
): Promise<void> {
  await using file = await open(path, flags, mode);
  await write(file);
  await file.sync();
}

/** Brings what a file holds, or which names a folder has, to the disk. */
export async function syncPath(path: string): Promise<void> {
  await using opened = await open(path, 'r');
  await opened.sync();
}

/** Gives a file that is durable itself another name in its folder. */
export function renameDurably(from: string, to: string): void {
  renameSync(from, to);
  fsyncFolder(dirname(to));
}

/** Makes a folder (and those above it) that only its owner may enter, durably. */
export function makeFolderDurably(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o700 });
  if (first === undefined) return;
  // Each new folder is an entry of the one above it, from `path` up to the first that was new.
  const top = dirname(resolve(first));
  let folder = resolve(path);
  do {
    folder = dirname(folder);
    fsyncFolder(folder);
  } while (folder !== top);
}

/** A link, unlike a rename, fails when the name is taken: the first writer wins. */
function linkUnlessExists(temporary: string, path: string): void {
  try {
    linkSync(temporary, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

function fsyncFolder(path: string): void {
  const folder = openSync(path, 'r');
  using _folder = atEnd(() => closeSync(folder));
  fsyncSync(folder);
}
