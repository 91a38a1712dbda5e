// The pieces of a place, while a backup is made of them or read. Invariants: a piece that is there
// is not written again; one that is there in another length is; and what is read is what was
// written under its name.
import { IntegrityError } from '../core/errors.ts';
import { type PieceSealer, pieceBytesMax, sealedBytesOf } from './pieces.ts';
import type { BackupPlace } from './place.ts';

export const pieceFolder = 'pieces/';
const nameBytes = 32;
/** Names in a list: as many as a piece has room for. */
const namesPerList = pieceBytesMax / nameBytes;
const fullName = /^pieces\/([0-9a-f]{2})\/(\1[0-9a-f]{62})$/;

export function placedPiece(name: string): string {
  return `${pieceFolder}${name.slice(0, 2)}/${name}`;
}

/** The piece that a name in a place stands for; null: none. */
export function pieceOf(placedName: string): string | null {
  return fullName.exec(placedName)?.[2] ?? null;
}

export interface WrittenPieces {
  count: number;
  bytes: number;
}

export class PieceStore {
  readonly #place: BackupPlace;
  readonly #sealer: PieceSealer;
  /** The pieces that are there: their sizes by name. */
  readonly #sizes: Map<string, number>;
  /** The pieces that were not there before. */
  readonly written: WrittenPieces = { count: 0, bytes: 0 };

  private constructor(place: BackupPlace, sealer: PieceSealer, sizes: Map<string, number>) {
    this.#place = place;
    this.#sealer = sealer;
    this.#sizes = sizes;
  }

  /** Opens the pieces for writing. The caller holds the place's lock. */
  static async list(place: BackupPlace, sealer: PieceSealer): Promise<PieceStore> {
    const sizes = new Map<string, number>();
    for await (const { name, sizeBytes } of place.list(pieceFolder)) {
      const piece = pieceOf(name);
      if (piece) sizes.set(piece, sizeBytes);
    }
    return new PieceStore(place, sealer, sizes);
  }

  /** Opens the pieces for reading. */
  static open(place: BackupPlace, sealer: PieceSealer): PieceStore {
    return new PieceStore(place, sealer, new Map());
  }

  /** Gives its name. */
  async put(plain: Uint8Array): Promise<string> {
    const name = this.#sealer.nameOf(plain);
    const sizeBytes = sealedBytesOf(plain.length);
    if (this.#sizes.get(name) === sizeBytes) return name;
    await this.#place.write(placedPiece(name), this.#sealer.seal(name, plain));
    this.#sizes.set(name, sizeBytes);
    this.written.count++;
    this.written.bytes += sizeBytes;
    return name;
  }

  /** Throws IntegrityError when it is missing, or not what was written. */
  async get(name: string): Promise<Buffer> {
    const sealed = await this.#place.read(placedPiece(name));
    if (!sealed) throw new IntegrityError(`piece ${name} is missing`, { kind: 'missing' });
    return this.#sealer.open(name, sealed);
  }

  /** Puts names of pieces into lists. Gives the names of those. */
  async putNames(names: readonly string[]): Promise<string[]> {
    const lists: string[] = [];
    for (let at = 0; at < names.length; at += namesPerList) {
      lists.push(await this.put(Buffer.from(names.slice(at, at + namesPerList).join(''), 'hex')));
    }
    return lists;
  }

  /** The names in a list. */
  async getNames(list: string): Promise<string[]> {
    const bytes = await this.get(list);
    const names: string[] = [];
    if (bytes.length % nameBytes !== 0) throw new IntegrityError(`list ${list} is damaged`);
    for (let at = 0; at < bytes.length; at += nameBytes) {
      names.push(bytes.toString('hex', at, at + nameBytes));
    }
    return names;
  }
}
