// What one backup is of, docs/formats/backup.md: `backups/ID.json`, written when all else is there,
// so that a backup that was not finished is none. Invariant: what `readManifest` gives was written
// by a gateway with these keys under this very id, and each member has its type and is within its
// bounds.

import { timingSafeEqual } from 'node:crypto';
import { canonicalize } from '../core/canonical-json.ts';
import { IntegrityError } from '../core/errors.ts';
import { isCount } from '../core/json.ts';
import type { PieceSealer } from './pieces.ts';
import type { BackupPlace } from './place.ts';
import { isSealedKeys, type SealedKeys } from './sealed-keys.ts';

export const manifestFolder = 'backups/';
/**
 * Of a manifest whose extents have their plain names, and of one where some may have names by their
 * digests, which older releases do not know.
 */
const versions = { plain: 1, byDigest: 2 };
/** Some 600,000 lists: no backup has as many. */
const manifestBytesMax = 64 * 1024 * 1024;
const idPattern = /^\d{8}T\d{9}Z-[0-9a-f]{8}$/;
const pieceNamePattern = /^[0-9a-f]{64}$/;

/** A file as the pieces that it consists of, in order. */
export interface PiecedFile {
  sizeBytes: number;
  /** Names of pieces, each a list of up to 32,768 names of 32 bytes, in order. */
  lists: string[];
}

/** How far a stream of segments had gone. */
export interface Shipped {
  /** The name of the stream, which has the form of a backup's id. */
  stream: string;
  /** 0: none was written yet. */
  seq: number;
}

export interface Manifest {
  id: string;
  /** The version of Bursar that made it. */
  madeBy: string;
  /** When the copy of the database was begun, and when it was finished, in milliseconds. */
  timeMs: number;
  finishedMs: number;
  /** The instance of the data folder. */
  instance: string;
  schema: number;
  /** The number of records in its log. */
  records: number;
  /** The newest checkpoint that was signed, which that log extends; null: none was. */
  checkpoint: string | null;
  database: PiecedFile;
  /** Small files of the data folder, by name. */
  files: Record<string, PiecedFile>;
  /** Null: of the catalog only. */
  extents: {
    count: number;
    bytes: number;
    /** Names of pieces with up to 20,000 entries each, in order of the extents' ids. */
    lists: string[];
    /** Extents that the catalog names and the data folder did not have: how many. */
    missing: number;
    /** Whether some of them may have names by their digests. */
    byDigest?: boolean;
  } | null;
  /**
   * What was shipped when the copy was begun: the stream, and its last segment; null or absent:
   * nothing was. Later segments bring the copy to a later state, docs/formats/backup.md.
   */
  shipped?: Shipped | null;
  /** The root keys; null: they are not in it. */
  keys: SealedKeys | null;
  epoch: number;
}

export function manifestName(id: string): string {
  return `${manifestFolder}${id}.json`;
}

/** An id that sorts by time: `20261122T153012123Z-` and 8 random hexadecimal digits. */
export function newBackupId(timeMs: number, random: string): string {
  return `${new Date(timeMs).toISOString().replaceAll(/[-:.]/g, '')}-${random}`;
}

/** When the backup was begun, in milliseconds. */
export function timeOfBackup(id: string): number {
  const [, ...parts] = /^(....)(..)(..)T(..)(..)(..)(...)/.exec(id) ?? [];
  const [year = 0, month = 1, ...rest] = parts.map(Number);
  return Date.UTC(year, month - 1, ...rest);
}

export function isBackupId(text: string): boolean {
  return idPattern.test(text);
}

/** Two lines: the manifest, and its MAC. */
export function sealManifest(sealer: PieceSealer, manifest: Manifest): Buffer {
  const version = manifest.extents?.byDigest ? versions.byDigest : versions.plain;
  const text = canonicalize({ version, ...manifest });
  return Buffer.from(`${text}\n${sealer.macOf(text, manifest.epoch)}\n`);
}

/**
 * Reads the manifest without checking its MAC: to show it, and for its keys. Throws IntegrityError.
 */
export function parseManifest(id: string, bytes: Buffer): Manifest {
  return parse(id, bytes).manifest;
}

/** Throws IntegrityError. */
export function openManifest(sealer: PieceSealer, id: string, bytes: Buffer): Manifest {
  const { manifest, text, mac } = parse(id, bytes);
  const expected = Buffer.from(sealer.macOf(text, manifest.epoch), 'hex');
  if (timingSafeEqual(expected, Buffer.from(mac, 'hex'))) return manifest;
  throw new IntegrityError(`backup ${id} was not made with these keys, or was altered`);
}

/** Undefined: there is no such backup. Throws IntegrityError. */
export async function readManifest(
  place: BackupPlace,
  sealer: PieceSealer,
  id: string,
): Promise<Manifest | undefined> {
  const bytes = await place.read(manifestName(id));
  return bytes && openManifest(sealer, id, bytes);
}

/** Ids of all that is called a backup, the oldest first. */
export async function listBackupIds(place: BackupPlace): Promise<string[]> {
  const ids: string[] = [];
  for await (const { name } of place.list(manifestFolder)) {
    const id = name.slice(manifestFolder.length).replace(/\.json$/, '');
    if (isBackupId(id) && name === manifestName(id)) ids.push(id);
  }
  return ids.sort();
}

function parse(id: string, bytes: Buffer): { manifest: Manifest; text: string; mac: string } {
  const damaged = new IntegrityError(`the manifest of backup ${id} is damaged`);
  if (bytes.length > manifestBytesMax) throw damaged;
  const [text = '', mac = '', end, ...rest] = bytes.toString().split('\n');
  let inner: Record<string, unknown>;
  try {
    inner = Object(JSON.parse(text));
  } catch {
    throw damaged;
  }
  // Anybody who can write to the place can have written it, so only a number is shown.
  const isOurs = Object.values(versions).includes(inner.version as number);
  if (isCount(inner.version) && !isOurs) {
    throw new IntegrityError(`backup ${id} has version ${inner.version}, which is another`);
  }
  const isWhole =
    end === '' &&
    rest.length === 0 &&
    pieceNamePattern.test(mac) &&
    isOurs &&
    inner.id === id &&
    isManifest(inner);
  if (!isWhole) throw damaged;
  const { version: _, ...manifest } = inner;
  return { manifest: manifest as unknown as Manifest, text, mac };
}

function isManifest(value: Record<string, unknown>): boolean {
  const { madeBy, instance, checkpoint, database, files, extents, keys, epoch } = value;
  const { timeMs, finishedMs, schema, records } = value;
  return (
    [schema, records, epoch].every(isCount) &&
    [timeMs, finishedMs].every(isTime) &&
    typeof madeBy === 'string' &&
    /^[\w.+-]{1,64}$/.test(madeBy) &&
    typeof instance === 'string' &&
    /^[0-9a-f]{32}$/.test(instance) &&
    (checkpoint === null || typeof checkpoint === 'string') &&
    isPiecedFile(database) &&
    typeof files === 'object' &&
    files !== null &&
    Object.entries(files).every(([name, file]) => isFileName(name) && isPiecedFile(file)) &&
    (extents === null || isExtents(extents)) &&
    (value.shipped === undefined || value.shipped === null || isShipped(value.shipped)) &&
    (keys === null || isSealedKeys(keys))
  );
}

function isExtents(value: unknown): boolean {
  const { count, bytes, missing, lists, byDigest } = Object(value) as Record<string, unknown>;
  const isFlag = byDigest === undefined || typeof byDigest === 'boolean';
  return [count, bytes, missing].every(isCount) && isNames(lists) && isFlag;
}

export function isShipped(value: unknown): value is Shipped {
  const { stream, seq } = Object(value) as Record<string, unknown>;
  return typeof stream === 'string' && isBackupId(stream) && isCount(seq);
}

function isPiecedFile(value: unknown): value is PiecedFile {
  const { sizeBytes, lists } = Object(value) as Record<string, unknown>;
  return isCount(sizeBytes) && isNames(lists);
}

function isNames(value: unknown): boolean {
  return (
    Array.isArray(value) &&
    value.every((one) => typeof one === 'string' && pieceNamePattern.test(one))
  );
}

/** The last time that a Date can hold. */
const timeMsMax = 8.64e15;

function isTime(value: unknown): boolean {
  return isCount(value) && (value as number) <= timeMsMax;
}

/** Files that a backup has as they are. All others of the data folder are restored otherwise. */
export const keptFiles = ['log-keys.json', 'credentials'] as const;

function isFileName(name: string): boolean {
  return (keptFiles as readonly string[]).includes(name);
}
