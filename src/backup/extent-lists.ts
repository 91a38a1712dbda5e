// Which extents of the local store belong to a backup: pieces of entries
// `id 16 | size 4 | SHA-256 32`, integers big-endian, in order of id.
import { IntegrityError } from '../core/errors.ts';
import { extentIdBytes } from '../core/ids.ts';
import type { PieceStore } from './piece-store.ts';
import { pieceBytesMax } from './pieces.ts';

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

/** The extent that a name in a place stands for; null: none. */
export function extentOf(placedName: string): Buffer | null {
  const found = /^extent-files\/([0-9a-f]{2})\/([0-9a-f]{30}\1)$/.exec(placedName);
  return found ? Buffer.from(found[2] as string, 'hex') : null;
}

/** Writes lists while they are filled. */
export class ExtentListWriter {
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
