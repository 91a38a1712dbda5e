// Puts what a backup has into a data folder. Invariants: nothing reaches the folder that is not
// what was written; the database lies under another name until it can be served; and a folder with
// a mark of an unfinished restore is one that the next try may begin anew in.

import { hash } from 'node:crypto';
import { existsSync, readdirSync, rmSync } from 'node:fs';
import { open, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { WorkFailure } from '../core/command-failure.ts';
import {
  makeFolderDurably,
  syncPath,
  writeFileDurably,
  writeSynced,
} from '../core/durable-file.ts';
import { IntegrityError } from '../core/errors.ts';
import { inParallel } from '../core/in-parallel.ts';
import { extentFile, temporaryFolder } from '../tiering/stores/local-store.ts';
import { readExtentLists, readListed } from './extents.ts';
import type { Manifest, PiecedFile } from './manifest.ts';
import { type PieceSealer, PieceStore } from './pieces.ts';
import type { BackupPlace } from './place.ts';

export const unfinishedMark = 'restore-unfinished';
/** The files that a folder may have to which a backup is restored. */
const spared = new Set(['keys', 'lock.db']);
const writesAtOnce = 4;

/**
 * Makes a folder ready to be restored to. Throws `WorkFailure` when it has anything but root
 * keys; what an unfinished restore left is removed.
 */
export function beginIn(folder: string): void {
  makeFolderDurably(folder);
  const names = readdirSync(folder).filter((name) => !spared.has(name));
  if (names.length > 0 && (!names.includes(unfinishedMark) || names.includes('bursar.db'))) {
    throw new WorkFailure(`${folder} is not empty (${names.slice(0, 3).join(', ')})`);
  }
  const text = 'bursar restore was not finished here: run it again\n';
  writeFileDurably(join(folder, unfinishedMark), text, { mode: 0o600, ifExists: 'keep' });
  for (const name of names) {
    if (name !== unfinishedMark) rmSync(join(folder, name), { recursive: true, force: true });
  }
}

/** Whether a restore to the folder died before its database was complete. */
export function isUnfinished(folder: string): boolean {
  return existsSync(join(folder, unfinishedMark)) && !existsSync(join(folder, 'bursar.db'));
}

export interface PutDatabaseOptions {
  place: BackupPlace;
  sealer: PieceSealer;
  manifest: Manifest;
  /** The name of the database until it can be served. */
  databaseFile: string;
  onProgress: (step: string, done: number, total?: number) => void;
}

export interface PutBackOptions extends Omit<PutDatabaseOptions, 'databaseFile'> {
  folder: string;
  /** The folder of the local store. */
  storeFolder: string;
}

/**
 * Puts back everything but the database. Throws IntegrityError where the backup is not what was
 * written.
 */
export async function putBackBeside(options: PutBackOptions): Promise<void> {
  const { place, sealer, manifest, folder } = options;
  const pieces = PieceStore.open(place, sealer);
  for (const [name, file] of Object.entries(manifest.files)) {
    await writeFile(pieces, join(folder, name), file, () => {});
  }
  await putExtentsBack(options);
}

/** Puts back the database alone, in the place of what has its name. Throws IntegrityError. */
export async function putDatabaseBack(options: PutDatabaseOptions): Promise<void> {
  const { place, sealer, manifest, databaseFile, onProgress } = options;
  rmSync(databaseFile, { force: true });
  const pieces = PieceStore.open(place, sealer);
  await writeFile(pieces, databaseFile, manifest.database, (done, total) =>
    onProgress('putting the database back', done, total),
  );
}

async function writeFile(
  pieces: PieceStore,
  path: string,
  { lists, sizeBytes }: PiecedFile,
  onProgress: (bytesDone: number, bytesTotal: number) => void,
): Promise<void> {
  await using file = await open(path, 'wx', 0o600);
  let bytes = 0;
  for (const list of lists) {
    for (const name of await pieces.getNames(list)) {
      const plain = await pieces.get(name);
      await file.write(plain, 0, plain.length, bytes);
      bytes += plain.length;
      onProgress(bytes, sizeBytes);
    }
  }
  await file.sync();
  if (bytes !== sizeBytes) throw new IntegrityError(`${path} has ${bytes} bytes of ${sizeBytes}`);
}

/** Puts back the extents that the local store does not have yet. Throws IntegrityError. */
export async function putExtentsBack({
  place,
  sealer,
  manifest,
  storeFolder,
  onProgress,
}: Omit<PutBackOptions, 'folder'>): Promise<void> {
  if (!manifest.extents) return;
  const pieces = PieceStore.open(place, sealer);
  const { lists } = manifest.extents;
  const folders = new Set<string>();
  // By this folder a start knows that the disk of the store is there.
  makeFolderDurably(join(storeFolder, temporaryFolder));
  let done = 0;
  await inParallel(readExtentLists(pieces, lists), writesAtOnce, async (extent) => {
    const path = extentFile(storeFolder, extent.id);
    if (await isWhole(path, extent.digest)) return;
    const bytes = await readListed(place, extent);
    const folder = dirname(path);
    if (!folders.has(folder)) {
      makeFolderDurably(folder);
      folders.add(folder);
    }
    await writeSynced(path, { mode: 0o600 }, (file) => file.writeFile(bytes));
    onProgress('putting extents back', ++done);
  });
  for (const folder of folders) await syncPath(folder);
}

/** Whether a file is complete: one that was begun and not finished is not. */
async function isWhole(path: string, digest: Buffer): Promise<boolean> {
  try {
    return hash('sha256', await readFile(path), 'buffer').equals(digest);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
    throw error;
  }
}
