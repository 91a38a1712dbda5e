// Which extents of the local store belong to a backup: pieces of entries
// `id 16 | size 4 | SHA-256 32`, integers big-endian, in order of id.

import { hash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { listWholeExtents, type WholeExtent } from '../catalog/extents.ts';
import { nowMs } from '../core/clock.ts';
import { type OpenDatabase, openDatabase, type Reader } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import { extentIdBytes } from '../core/ids.ts';
import { inParallel } from '../core/in-parallel.ts';
import type { Keyring } from '../core/keyring.ts';
import { localStore } from '../core/manifest.ts';
import { extentFile } from '../tiering/stores/local-store.ts';
import { CopyTruth } from './copy-truth.ts';
import { type PieceStore, pieceBytesMax } from './pieces.ts';
import type { BackupPlace } from './place.ts';

export const extentFolder = 'extent-files/';
const digestBytes = 32;
const entryBytes = extentIdBytes + 4 + digestBytes;
const entriesPerList = Math.floor(pieceBytesMax / entryBytes);

export interface ListedExtent {
  id: Buffer;
  /** The length as it is stored. */
  sizeBytes: number;
  /** SHA-256. */
  digest: Buffer;
}

/** The name of an extent in a place: the folder is the id's last byte, which is random. */
export function placedExtent(id: Buffer): string {
  const name = id.toString('hex');
  return `${extentFolder}${name.slice(30)}/${name}`;
}

/** The name of one that differs from what has the plain name. */
function placedByDigest({ id, digest }: Pick<ListedExtent, 'id' | 'digest'>): string {
  return `${placedExtent(id)}-${markOf(digest)}`;
}

const markOf = (digest: Buffer): string => digest.toString('hex', 0, 8);

/** What a name in a place stands for; `mark`: the beginning of its digest. Null: no extent. */
function extentOf(placedName: string): { id: Buffer; mark: string } | null {
  const pattern = /^extent-files\/([0-9a-f]{2})\/([0-9a-f]{30}\1)(?:-([0-9a-f]{16}))?$/;
  const found = pattern.exec(placedName);
  return found && { id: Buffer.from(found[2] as string, 'hex'), mark: found[3] ?? '' };
}

/** The plain name of the extent that a name in a place stands for; null: it is none. */
export function plainNameOf(placedName: string): string | null {
  const found = extentOf(placedName);
  return found && placedExtent(found.id);
}

/** Reads an extent that a backup lists. Throws IntegrityError when the place does not have it. */
export async function readListed(place: BackupPlace, listed: ListedExtent): Promise<Buffer> {
  const isIt = (bytes: Buffer) => hash('sha256', bytes, 'buffer').equals(listed.digest);
  const name = placedExtent(listed.id);
  const plain = await place.read(name);
  if (plain && isIt(plain)) return plain;
  const other = await place.read(placedByDigest(listed));
  if (other && isIt(other)) return other;
  if (!plain) throw new IntegrityError(`${name} is missing`, { kind: 'missing' });
  const isCut = plain.length < listed.sizeBytes;
  throw new IntegrityError(`${name} is not what was written`, isCut ? { kind: 'length' } : {});
}

/** Writes lists while they are filled. */
class ExtentListWriter {
  readonly #pieces: PieceStore;
  readonly lists: string[] = [];
  #entries: Buffer[] = [];
  count = 0;
  bytes = 0;

  constructor(pieces: PieceStore) {
    this.#pieces = pieces;
  }

  async add({ id, sizeBytes, digest }: ListedExtent): Promise<void> {
    const entry = Buffer.alloc(entryBytes);
    id.copy(entry);
    entry.writeUInt32BE(sizeBytes, extentIdBytes);
    digest.copy(entry, extentIdBytes + 4);
    this.#entries.push(entry);
    this.count++;
    this.bytes += sizeBytes;
    if (this.#entries.length === entriesPerList) await this.#flush();
  }

  async end(): Promise<void> {
    if (this.#entries.length > 0) await this.#flush();
  }

  async #flush(): Promise<void> {
    this.lists.push(await this.#pieces.put(Buffer.concat(this.#entries)));
    this.#entries = [];
  }
}

/** Throws IntegrityError. */
export async function* readExtentLists(
  pieces: PieceStore,
  lists: readonly string[],
): AsyncGenerator<ListedExtent> {
  for (const list of lists) {
    const bytes = await pieces.get(list);
    if (bytes.length % entryBytes !== 0) throw new IntegrityError(`list ${list} is damaged`);
    for (let at = 0; at < bytes.length; at += entryBytes) {
      const sizeAt = at + extentIdBytes;
      yield {
        id: bytes.subarray(at, sizeAt),
        sizeBytes: bytes.readUInt32BE(sizeAt),
        digest: bytes.subarray(sizeAt + 4, at + entryBytes),
      };
    }
  }
}

// The local extents of a backup: which are there already, with their digests, and those that are
// copied. What an earlier backup in the place has is not read again, unless it is a copy of several
// that may have been made again since. What is known is kept in a database file of its own, so that
// memory stays bounded however many there are. Invariants: an extent is listed only when the place
// has it in its length; and a file that may be another backup's is never replaced by another one.

const copiesAtOnce = 4;

interface ExtentSource {
  place: BackupPlace;
  pieces: PieceStore;
  keyring: Keyring;
  /** The folder of the local store. */
  storeFolder: string;
  mayLink: boolean;
  onProgress: (step: string, done: number) => void;
}

/** What an earlier backup in the place has. */
export interface KnownExtents {
  lists: readonly string[];
  /** When it was begun, ms. */
  sinceMs: number;
}

interface Found {
  size: number;
  digest: Buffer;
  /** It was read after this time, ms. */
  sinceMs: number;
}

export class ExtentCopier {
  readonly #db: OpenDatabase;
  readonly #source: ExtentSource;
  #copied = 0;
  copiedBytes = 0;

  private constructor(db: OpenDatabase, source: ExtentSource) {
    this.#db = db;
    this.#source = source;
  }

  get copied(): number {
    return this.#copied;
  }

  /** `path`: a new file. */
  static async open(
    path: string,
    source: ExtentSource,
    known: KnownExtents,
  ): Promise<ExtentCopier> {
    const db = openDatabase(path, { readonly: false, cacheKib: 16 * 1024, isDerived: true });
    db.exec(`CREATE TABLE present (id BLOB, mark TEXT, size INTEGER NOT NULL,
        PRIMARY KEY (id, mark)) WITHOUT ROWID;
      CREATE TABLE digests (id BLOB PRIMARY KEY, size INTEGER NOT NULL, digest BLOB NOT NULL,
        since_ms INTEGER NOT NULL, is_marked INTEGER NOT NULL) WITHOUT ROWID; BEGIN;`);
    for await (const { name, sizeBytes, isLinked } of source.place.list(extentFolder)) {
      // It is copied to where its link was.
      if (isLinked && !source.mayLink) continue;
      const found = extentOf(name);
      if (!found) continue;
      const { id, mark } = found;
      await db.tx.run('INSERT OR REPLACE INTO present VALUES (?, ?, ?)', id, mark, sizeBytes);
    }
    await takeKnown(db, source.pieces, known);
    db.exec('COMMIT');
    return new ExtentCopier(db, source);
  }

  close(): void {
    this.#db.close();
  }

  /**
   * Copies those of a catalog's live extents that the place does not have, without those that are
   * damaged while another store has them. Gives ids, hex, of those that are neither in the data
   * folder nor in another store.
   */
  async copyAll(read: Reader): Promise<string[]> {
    const missing: string[] = [];
    const truth = new CopyTruth(read, this.#source.keyring);
    for await (const found of listWholeExtents(read, localStore)) {
      await inParallel(found, copiesAtOnce, async (extent) => {
        const { id, isElsewhere } = extent;
        if (!(await this.#copy(extent, truth)) && !isElsewhere) missing.push(id.toString('hex'));
      });
    }
    return missing;
  }

  /** Lists those of a catalog's live extents that the place has. */
  async writeLists(read: Reader): Promise<ExtentListWriter> {
    const writer = new ExtentListWriter(this.#source.pieces);
    for await (const extents of listWholeExtents(read, localStore)) {
      for (const { id } of extents) {
        const found = await this.#find(id);
        if (found) await writer.add({ id, sizeBytes: found.size, digest: found.digest });
      }
    }
    await writer.end();
    return writer;
  }

  /** Whether any that is listed may have a name by its digest. */
  async hasMarked(): Promise<boolean> {
    const sql = 'SELECT 1 FROM digests WHERE is_marked = 1 LIMIT 1';
    return (await this.#db.tx.get(sql)) !== undefined;
  }

  #find(id: Buffer): Promise<Found | undefined> {
    const sql = 'SELECT size, digest, since_ms AS sinceMs FROM digests WHERE id = ?';
    return this.#db.tx.get(sql, id);
  }

  /** False: the data folder has nothing that is worth to be kept. */
  async #copy(extent: WholeExtent, truth: CopyTruth): Promise<boolean> {
    const { id, changedMs } = extent;
    const known = await this.#find(id);
    if (known && (changedMs === null || changedMs < known.sinceMs)) return true;
    await this.#db.tx.run('DELETE FROM digests WHERE id = ?', id);
    try {
      return await this.#read(extent, truth);
    } catch (error) {
      // Or it was deleted between the two steps: its object was deleted, and it was swept.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw error;
    }
  }

  async #read(extent: WholeExtent, truth: CopyTruth): Promise<boolean> {
    const { id, changedMs, isElsewhere } = extent;
    const { place, storeFolder, mayLink, onProgress } = this.#source;
    const sinceMs = nowMs();
    const path = extentFile(storeFolder, id);
    // It stays open, so that no other file can have its number meanwhile.
    await using file = await open(path, 'r');
    const bytes = await file.readFile();
    const digest = hash('sha256', bytes, 'buffer');
    const before = await place.read(placedExtent(id));
    if (changedMs !== null && !(await truth.isOf(id, bytes))) {
      if (before && (await truth.isOf(id, before))) {
        const found = { sizeBytes: before.length, digest: hash('sha256', before, 'buffer') };
        await this.#note(id, { ...found, sinceMs, isMarked: false });
        return true;
      }
      if (isElsewhere) return false;
    }
    // What has the plain name may be what an earlier backup lists.
    const isMarked = before !== undefined && !before.equals(bytes);
    const name = isMarked ? placedByDigest({ id, digest }) : placedExtent(id);
    await place.take(name, path, { mayLink, bytes, file });
    await this.#note(id, { sizeBytes: bytes.length, digest, sinceMs, isMarked });
    onProgress('copying extents', ++this.#copied);
    this.copiedBytes += bytes.length;
    return true;
  }

  async #note(
    id: Buffer,
    found: { sizeBytes: number; digest: Buffer; sinceMs: number; isMarked: boolean },
  ): Promise<void> {
    const { sizeBytes, digest, sinceMs, isMarked } = found;
    const sql = 'INSERT OR REPLACE INTO digests VALUES (?, ?, ?, ?, ?)';
    await this.#db.tx.run(sql, id, sizeBytes, digest, sinceMs, isMarked ? 1 : 0);
  }
}

/**
 * Where an extent list cannot be read, nothing is known of its extents: they are read and compared
 * again. The same holds where others are there under names by their digests, and not this one.
 */
async function takeKnown(
  { tx }: OpenDatabase,
  pieces: PieceStore,
  { lists, sinceMs }: KnownExtents,
): Promise<void> {
  const sql = `INSERT OR REPLACE INTO digests SELECT id, ?, ?, ?, mark <> '' FROM present AS p
    WHERE id = ? AND size = ? AND (mark = ?
      OR mark = '' AND NOT EXISTS (SELECT 1 FROM present WHERE id = p.id AND mark <> ''))`;
  try {
    for await (const { id, sizeBytes, digest } of readExtentLists(pieces, lists)) {
      await tx.run(sql, sizeBytes, digest, sinceMs, id, sizeBytes, markOf(digest));
    }
  } catch (error) {
    if (!(error instanceof IntegrityError)) throw error;
  }
}
