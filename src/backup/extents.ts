// Which extents of the local store belong to a backup: pieces of entries
// `id 16 | size 4 | SHA-256 32`, integers big-endian, in order of id.

import { hash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { listWholeExtents } from '../catalog/extents.ts';
import { type OpenDatabase, openDatabase, type Reader } from '../core/database.ts';
import { IntegrityError } from '../core/errors.ts';
import { extentIdBytes } from '../core/ids.ts';
import { inParallel } from '../core/in-parallel.ts';
import { localStore } from '../core/manifest.ts';
import { extentFile } from '../tiering/stores/local-store.ts';
import { type PieceStore, pieceBytesMax } from './pieces.ts';
import type { BackupPlace } from './place.ts';

export const extentFolder = 'extent-files/';
const digestBytes = 32;
const entryBytes = extentIdBytes + 4 + digestBytes;
const entriesPerList = Math.floor(pieceBytesMax / entryBytes);

interface ListedExtent {
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

/** The extent that a name in a place stands for; null: none. */
function extentOf(placedName: string): Buffer | null {
  const found = /^extent-files\/([0-9a-f]{2})\/([0-9a-f]{30}\1)$/.exec(placedName);
  return found ? Buffer.from(found[2] as string, 'hex') : null;
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
// copied. Extents never change, so what an earlier backup in the place has is not read again. What
// is known is kept in a database file of its own, so that memory stays bounded however many there
// are. Invariant: an extent is listed only when the place has it in its length.

const copiesAtOnce = 4;

interface ExtentSource {
  place: BackupPlace;
  pieces: PieceStore;
  /** The folder of the local store. */
  storeFolder: string;
  mayLink: boolean;
  onProgress: (step: string, done: number) => void;
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

  /** `path`: a new file. `known`: lists of an earlier backup in the place. */
  static async open(
    path: string,
    source: ExtentSource,
    known: readonly string[],
  ): Promise<ExtentCopier> {
    const db = openDatabase(path, { readonly: false, cacheKib: 16 * 1024, isDerived: true });
    db.exec(`CREATE TABLE present (id BLOB PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID;
      CREATE TABLE digests (id BLOB PRIMARY KEY, size INTEGER NOT NULL, digest BLOB NOT NULL)
        WITHOUT ROWID; BEGIN;`);
    for await (const { name, sizeBytes, isLinked } of source.place.list(extentFolder)) {
      // It is copied to where its link was.
      if (isLinked && !source.mayLink) continue;
      const id = extentOf(name);
      if (id) await db.tx.run('INSERT OR REPLACE INTO present VALUES (?, ?)', id, sizeBytes);
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
   * known to be damaged. Gives ids, hex, of those that are neither in the data folder nor in
   * another store.
   */
  async copyAll(read: Reader): Promise<string[]> {
    const missing: string[] = [];
    for await (const found of listWholeExtents(read, localStore)) {
      await inParallel(found, copiesAtOnce, async ({ id, isElsewhere }) => {
        if (!(await this.#copy(id)) && !isElsewhere) missing.push(id.toString('hex'));
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

  #find(id: Buffer): Promise<{ size: number; digest: Buffer } | undefined> {
    return this.#db.tx.get('SELECT size, digest FROM digests WHERE id = ?', id);
  }

  /** False: it is not in the data folder. */
  async #copy(id: Buffer): Promise<boolean> {
    if (await this.#find(id)) return true;
    const { place, storeFolder, mayLink, onProgress } = this.#source;
    const file = extentFile(storeFolder, id);
    try {
      const bytes = await readFile(file);
      await place.take(placedExtent(id), file, { mayLink, bytes });
      const digest = hash('sha256', bytes, 'buffer');
      const sql = 'INSERT OR REPLACE INTO digests VALUES (?, ?, ?)';
      await this.#db.tx.run(sql, id, bytes.length, digest);
      onProgress('copying extents', ++this.#copied);
      this.copiedBytes += bytes.length;
      return true;
    } catch (error) {
      // Or it was deleted between the two steps: its object was deleted, and it was swept.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw error;
    }
  }
}

/**
 * Where an extent list cannot be read, nothing is known of its extents: they are read and written
 * again.
 */
async function takeKnown(
  { tx }: OpenDatabase,
  pieces: PieceStore,
  lists: readonly string[],
): Promise<void> {
  const sql = `INSERT OR REPLACE INTO digests SELECT id, ?, ? FROM present
    WHERE id = ? AND size = ?`;
  try {
    for await (const { id, sizeBytes, digest } of readExtentLists(pieces, lists)) {
      await tx.run(sql, sizeBytes, digest, id, sizeBytes);
    }
  } catch (error) {
    if (!(error instanceof IntegrityError)) throw error;
  }
}
