// Makes a backup while the gateway serves: a consistent copy of the database, as pieces; the local
// extents that it names; what is small beside them. Invariants: the manifest is written last, when
// all that it names is durable and the lock of the place is still ours; nothing that an earlier
// backup needs is changed; what is there already is not written again.

import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, statfsSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { readLogSize } from '../audit/log/stored-tiles.ts';
import { readInstance } from '../catalog/stores.ts';
import { nowMs } from '../core/clock.ts';
import { afterwards, atEnd } from '../core/closing.ts';
import { WorkFailure } from '../core/command-failure.ts';
import {
  checkpointPassively,
  copyWhileServed,
  openDatabase,
  type Reader,
} from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import { readVersion } from '../core/version.ts';
import { ExtentCopier, type KnownExtents } from './extents.ts';
import {
  keptFiles,
  listBackupIds,
  type Manifest,
  manifestName,
  newBackupId,
  type PiecedFile,
  readManifest,
  type Shipped,
  sealManifest,
  timeOfBackup,
} from './manifest.ts';
import { PieceSealer, PieceStore, pieceBytesMax, type WrittenPieces } from './pieces.ts';
import type { BackupPlace, PlaceLock } from './place.ts';
import type { SealedKeys } from './sealed-keys.ts';
import { readKeptStream } from './shipping/stream-file.ts';
import { WalFollower } from './shipping/wal-follower.ts';

/** What a backup needs of a data folder. */
export interface BackedFolder {
  path: string;
  databaseFile: string;
  storeFolder: string;
  keptCheckpointFile: string;
}

export interface CreateOptions {
  folder: BackedFolder;
  keyring: Keyring;
  place: BackupPlace;
  /**
   * Where the copy of the database is kept until it is in the place, unless the place has a folder
   * for that.
   */
  workFolder: string;
  /** `link`: as a hard link where the file system can. `none`: the catalog only. */
  extents: 'link' | 'copy' | 'none';
  /** How fast the database is copied, in bytes a second. */
  bytesPerSecond: number;
  /** Seals the root keys for the backup of this id; null: they stay out of it. */
  sealKeys: ((id: string) => SealedKeys) | null;
  onProgress: (step: string, done: number, total?: number) => void;
}

export interface CreateReport {
  manifest: Manifest;
  /** The pieces that the place did not have before. */
  written: WrittenPieces;
  copiedExtents: number;
  copiedBytes: number;
  /** Extents that the catalog names and the folder does not have, hex. */
  missing: string[];
}

/**
 * An extent that disappears between two looks belonged to an object that was deleted: then it looks
 * again.
 */
const looksMax = 4;
/** Half of what the writer lets the log grow to by itself. */
const relievedBytesMin = 64 * 1024 * 1024;
const spareBytes = 64 * 1024 * 1024;

/** Throws `WorkFailure`, or the error of the system or store. */
export async function createBackup(options: CreateOptions): Promise<CreateReport> {
  const lock = await options.place.lock();
  await using _lock = afterwards(() => lock.release());
  return await create(options, lock);
}

async function create(options: CreateOptions, lock: PlaceLock): Promise<CreateReport> {
  const { folder, keyring, place, onProgress } = options;
  const sealer = new PieceSealer(keyring);
  const work = place.workFolder ?? options.workFolder;
  const id = newBackupId(nowMs(), randomBytes(4).toString('hex'));
  onProgress('looking at what is there', 0);
  const pieces = await PieceStore.list(place, sealer);
  const extents = { place, pieces, keyring, storeFolder: folder.storeFolder, onProgress };
  const copier = await ExtentCopier.open(
    join(work, 'extents.db'),
    { ...extents, mayLink: options.extents === 'link' },
    options.extents === 'none' ? nothingKnown : await readKnown(place, sealer),
  );
  using _copier = atEnd(() => copier.close());
  const copied = await copyDatabase(options, { id, copier, work });
  using db = openDatabase(copied.file, { readonly: true, cacheKib: 16 * 1024 });
  const told = await describe(db.tx, { copier, options, missing: copied.missing.length });
  const files: Record<string, PiecedFile> = {};
  for (const name of keptFiles) {
    const file = join(folder.path, name);
    if (existsSync(file)) files[name] = await putFile(pieces, file, () => {});
  }
  const database = await putFile(pieces, copied.file, (done, total) =>
    onProgress('writing the copy of the database', done, total),
  );
  const manifest: Manifest = {
    id,
    madeBy: readVersion(),
    timeMs: copied.timeMs,
    finishedMs: nowMs(),
    ...told,
    schema: db.userVersion(),
    checkpoint: copied.checkpoint,
    shipped: copied.shipped,
    database,
    files,
    keys: options.sealKeys?.(id) ?? null,
    epoch: sealer.epoch,
  };
  await place.settle();
  await lock.confirm();
  await place.write(manifestName(id), sealManifest(sealer, manifest));
  await place.settle();
  const { written } = pieces;
  const { copied: copiedExtents, copiedBytes } = copier;
  return { manifest, written, copiedExtents, copiedBytes, missing: copied.missing };
}

interface Copied {
  file: string;
  timeMs: number;
  checkpoint: string | null;
  shipped: Shipped | null;
  missing: string[];
}

/**
 * Copies the extents first, so that few are left for the moment of the copy of the database: those
 * must not be swept before they are copied.
 */
async function copyDatabase(
  options: CreateOptions,
  { id, copier, work }: { id: string; copier: ExtentCopier; work: string },
): Promise<Copied> {
  const { folder, extents, bytesPerSecond, onProgress } = options;
  if (extents !== 'none') await withReader(folder.databaseFile, (read) => copier.copyAll(read));
  let before: string[] = [];
  for (let look = 0; ; look++) {
    requireRoom(work, folder.databaseFile);
    const { keptCheckpointFile: kept } = folder;
    // The checkpoint is read first: the log in the copy extends it, and the copy includes what was
    // shipped.
    const checkpoint = existsSync(kept) ? readFileSync(kept, 'utf8') : null;
    const shipped = readKeptStream(folder.path, options.place.name);
    const timeMs = nowMs();
    const file = join(work, `${id}.${look}.db`);
    await copyWhileServed(folder.databaseFile, file, {
      bytesPerSecond,
      onProgress: (done, total) => onProgress('copying the database', done, total),
    });
    relieve(folder.databaseFile);
    const missing = extents === 'none' ? [] : await withReader(file, (r) => copier.copyAll(r));
    // An extent that two copies of the database name is lost; one that only the first names was
    // deleted.
    const isSame = missing.every((one) => before.includes(one));
    if (missing.length === 0 || (look > 0 && isSame)) {
      return { file, timeMs, checkpoint, shipped, missing };
    }
    if (look === looksMax) {
      throw new WorkFailure('extents go sooner than they are copied: is --sweep-grace too short?');
    }
    before = missing;
  }
}

/** After a long copy the writer would have to move all of SQLite's log into the database file. */
function relieve(databaseFile: string): void {
  const log = new WalFollower(`${databaseFile}-wal`);
  using _log = atEnd(() => log.close());
  log.advance();
  // A short one goes on as it is: who follows it can lose it only where a long one begins anew.
  if (log.committedBytes > relievedBytesMin) checkpointPassively(databaseFile);
}

async function withReader<T>(path: string, work: (read: Reader) => Promise<T>): Promise<T> {
  using db = openDatabase(path, { readonly: true, cacheKib: 16 * 1024 });
  return await work(db.tx);
}

function requireRoom(folder: string, databaseFile: string): void {
  const needed = statSync(databaseFile).size + spareBytes;
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize >= needed) return;
  const mib = (bytes: number) => `${Math.ceil(bytes / 1024 / 1024)} MiB`;
  throw new WorkFailure(
    `the database is copied to ${folder} first, which takes ${mib(needed)}, and there ` +
      `${mib(bavail * bsize)} are free`,
  );
}

const nothingKnown: KnownExtents = { lists: [], sinceMs: 0 };

/** What the newest whole backup knows of the extents in the place. */
async function readKnown(place: BackupPlace, sealer: PieceSealer): Promise<KnownExtents> {
  for (const id of (await listBackupIds(place)).reverse()) {
    try {
      const manifest = await readManifest(place, sealer, id);
      if (manifest?.extents) return { lists: manifest.extents.lists, sinceMs: timeOfBackup(id) };
    } catch (error) {
      if (!(error instanceof IntegrityError)) throw error;
    }
  }
  return nothingKnown;
}

async function describe(
  read: Reader,
  { copier, options, missing }: { copier: ExtentCopier; options: CreateOptions; missing: number },
): Promise<Pick<Manifest, 'instance' | 'schema' | 'records' | 'extents'>> {
  const told = { instance: await readInstance(read), schema: 0, records: await readLogSize(read) };
  if (options.extents === 'none') return { ...told, extents: null };
  const { lists, count, bytes } = await copier.writeLists(read);
  const marked = (await copier.hasMarked()) ? { byDigest: true } : {};
  return { ...told, extents: { count, bytes, lists, missing, ...marked } };
}

async function putFile(
  pieces: PieceStore,
  path: string,
  onProgress: (bytesDone: number, bytesTotal: number) => void,
): Promise<PiecedFile> {
  const { size: sizeBytes } = statSync(path);
  await using file = await open(path, 'r');
  const names: string[] = [];
  for (let at = 0; at < sizeBytes; ) {
    const buffer = Buffer.allocUnsafe(Math.min(pieceBytesMax, sizeBytes - at));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, at);
    if (bytesRead !== buffer.length) throw new Error(`${path} became shorter while it was read`);
    names.push(await pieces.put(buffer));
    at += bytesRead;
    onProgress(at, sizeBytes);
  }
  return { sizeBytes, lists: await pieces.putNames(names) };
}
