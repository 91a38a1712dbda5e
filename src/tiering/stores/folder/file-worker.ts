// A thread that does what a folder store asks of the file system, one call at a time. The calls
// block: a disk that hangs keeps this thread and no other. Invariant: under its own name a file is
// whole and durable, and it takes that name only while somebody waits for it.
import fs from 'node:fs';
import { dirname } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';
import { systemCode } from '../../../core/errors.ts';
import {
  type CallReply,
  type CallResults,
  type FileCall,
  type FolderEntry,
  type OpenedFile,
  type PutCall,
  scratchBytes,
  words,
  wordsBytes,
} from './file-calls.ts';

const { memory } = workerData as { memory: SharedArrayBuffer };
const shared = new Int32Array(memory, 0, wordsBytes / Int32Array.BYTES_PER_ELEMENT);
const scratch = new Uint8Array(memory, wordsBytes, scratchBytes);
/** How many chunks of 256 KiB are written before the thread says that something has moved. */
const piecesPerWrite = 4;
/** Folders whose own entries this thread has found to be durable, or made so. */
const settled = new Set<string>();

parentPort?.on('message', (call: FileCall) => {
  parentPort?.postMessage(answer(call));
});

function answer(call: FileCall): CallReply {
  try {
    return { result: run(call) };
  } catch (error) {
    return { message: (error as Error).message, code: systemCode(error) };
  }
}

function run(call: FileCall): CallResults[keyof CallResults] {
  switch (call.do) {
    case 'put':
      return put(call);
    case 'open':
      return orNull(() => open(call.file));
    case 'read':
      return fs.readSync(call.descriptor, scratch, 0, call.length, call.position);
    case 'close':
      fs.closeSync(call.descriptor);
      return null;
    case 'take':
      return orNull(() => new Uint8Array(fs.readFileSync(call.file)));
    case 'remove':
      return orNull(() => remove(call.file));
    case 'list':
      // A name that begins with that of a file and a slash is none, as in S3.
      return orNull(() => list(call.folder), ['ENOENT', 'ENOTDIR']);
    case 'make':
      makeFolder(call.folder);
      return null;
    case 'clear':
      clear(call.folder, call.beforeMs);
      return null;
    case 'room': {
      const { bavail, bsize } = fs.statfsSync(call.folder);
      return bavail * bsize;
    }
  }
}

function open(file: string): OpenedFile {
  const descriptor = fs.openSync(file, fs.constants.O_RDONLY);
  return { descriptor, sizeBytes: fs.fstatSync(descriptor).size };
}

function put({ root, temporary, file, pieces, ifAbsent }: PutCall): 'stored' | 'exists' {
  const descriptor = fs.openSync(temporary, 'wx', 0o600);
  try {
    try {
      write(descriptor, pieces);
      // A failed fsync is never tried again: the file is given up, and so is what it was for.
      fs.fsyncSync(descriptor);
    } finally {
      fs.closeSync(descriptor);
    }
    moved();
    if (Atomics.load(shared, words.abandoned) === 1) throw new Error('nobody waits for it');
    const outcome = publish({ root, temporary, file, ifAbsent });
    settle(root, dirname(file));
    sync(dirname(file));
    return outcome;
  } finally {
    fs.rmSync(temporary, { force: true });
  }
}

function write(descriptor: number, pieces: readonly Uint8Array[]): void {
  for (let i = 0; i < pieces.length; i += piecesPerWrite) {
    let rest = pieces.slice(i, i + piecesPerWrite).filter((piece) => piece.length > 0);
    while (rest.length > 0) {
      rest = behind(rest, fs.writevSync(descriptor, rest));
      moved();
    }
  }
}

/** What is left of the pieces behind so many bytes. */
function behind(pieces: readonly Uint8Array[], bytes: number): Uint8Array[] {
  let left = bytes;
  let first = 0;
  while (first < pieces.length && left >= (pieces[first] as Uint8Array).length) {
    left -= (pieces[first++] as Uint8Array).length;
  }
  const rest = pieces.slice(first);
  if (left > 0) rest[0] = (rest[0] as Uint8Array).subarray(left);
  return rest;
}

/** Gives the file its name, in a folder that is made if need be. */
function publish(call: Omit<PutCall, 'do' | 'pieces'>): 'stored' | 'exists' {
  try {
    return takeName(call);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
    const { root, file } = call;
    // On a disk that is not mounted nothing is made: the mark of the owner is not there.
    if (!fs.existsSync(`${root}/owner`)) throw error;
    for (const folder of foldersBetween(root, dirname(file)).reverse()) makeFolder(folder);
    return takeName(call);
  }
}

/** A link, unlike a rename, fails when the name is taken: the first writer wins. */
function takeName(call: Omit<PutCall, 'do' | 'pieces' | 'root'>): 'stored' | 'exists' {
  const { temporary, file, ifAbsent } = call;
  if (!ifAbsent) {
    fs.renameSync(temporary, file);
    return 'stored';
  }
  try {
    fs.linkSync(temporary, file);
    return 'stored';
  } catch (error) {
    if (systemCode(error) === 'EEXIST') return 'exists';
    throw error;
  }
}

/** The folder and those above it, up to the root, which is not among them; the lowest is first. */
function foldersBetween(root: string, folder: string): string[] {
  const folders = [];
  for (let one = folder; one !== root && one.startsWith(root); one = dirname(one))
    folders.push(one);
  return folders;
}

/** Makes the entries of a folder, and of those above it, durable, whoever has made them. */
function settle(root: string, folder: string): void {
  if (settled.has(folder)) return;
  for (const one of foldersBetween(root, folder)) sync(dirname(one));
  settled.add(folder);
}

function sync(folder: string): void {
  const descriptor = fs.openSync(folder, fs.constants.O_RDONLY);
  try {
    fs.fsyncSync(descriptor);
  } finally {
    fs.closeSync(descriptor);
  }
  moved();
}

function makeFolder(folder: string): void {
  try {
    fs.mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    if (systemCode(error) !== 'EEXIST') throw error;
  }
}

function remove(file: string): null {
  fs.unlinkSync(file);
  return null;
}

function list(folder: string): FolderEntry[] {
  return fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry): FolderEntry[] => {
    const { name } = entry;
    const isFolder = entry.isDirectory();
    if (isFolder) return [{ name, isFolder, sizeBytes: 0 }];
    moved();
    // It may have been removed meanwhile.
    const found = fs.statSync(`${folder}/${name}`, { throwIfNoEntry: false });
    return found?.isFile() ? [{ name, isFolder, sizeBytes: found.size }] : [];
  });
}

function clear(folder: string, beforeMs: number): void {
  for (const name of fs.readdirSync(folder)) {
    const found = fs.statSync(`${folder}/${name}`, { throwIfNoEntry: false });
    if (found && found.mtimeMs < beforeMs) fs.rmSync(`${folder}/${name}`, { force: true });
  }
}

/** Null: there is nothing, as the system says by one of these codes. */
function orNull<T>(read: () => T, absent: readonly string[] = ['ENOENT']): T | null {
  try {
    return read();
  } catch (error) {
    if (absent.includes(systemCode(error) ?? '')) return null;
    throw error;
  }
}

function moved(): void {
  Atomics.add(shared, words.moved, 1);
}
