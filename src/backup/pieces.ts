// What a backup consists of: pieces, named by a keyed digest of their plaintext and sealed by
// AES-256-GCM (NIST SP 800-38D), docs/formats/backup.md. Invariants: what opens under a name is
// what was put there under it; two backups of the same content share its pieces; and who reads the
// place learns lengths alone. They are not compressed: the length of what several tenants' texts
// are squeezed into tells about them.
import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createSecretKey,
  hkdfSync,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { IntegrityError } from '../core/errors.ts';
import type { Keyring } from '../core/keyring.ts';
import type { BackupPlace } from './place.ts';

/** Plaintext of a piece, at most. The last one of a file has fewer. */
export const pieceBytesMax = 1024 * 1024;
/** magic 4 | epoch 2 | nonce 12 | tag 16 */
const headBytes = 34;
const magic = Buffer.from('BSP1');
const nonceBytes = 12;
const tagBytes = 16;

/** Bytes that a piece has in its place. */
export function sealedBytesOf(plainBytes: number): number {
  return plainBytes + headBytes;
}

export class PieceSealer {
  readonly #keyring: Keyring;
  readonly #keys = new Map<number, Record<'naming' | 'sealing' | 'manifest', KeyObject>>();

  constructor(keyring: Keyring) {
    this.#keyring = keyring;
  }

  /** The epoch that new pieces and manifests are made under. */
  get epoch(): number {
    return this.#keyring.currentEpoch;
  }

  /** 64 hexadecimal digits; of another epoch the same bytes have another name. */
  nameOf(plain: Uint8Array, epoch: number = this.epoch): string {
    return createHmac('sha256', this.#at(epoch).naming).update(plain).digest('hex');
  }

  seal(name: string, plain: Uint8Array): Buffer {
    return this.#seal(plain, this.epoch, associatedData(name));
  }

  /** Throws IntegrityError unless it is what was sealed under this name. */
  open(name: string, sealed: Uint8Array): Buffer {
    const { plain, epoch } = this.#open(`piece ${name}`, sealed, associatedData(name));
    if (this.nameOf(plain, epoch) === name) return plain;
    throw new IntegrityError(`piece ${name} is another one`);
  }

  /** Seals the object of a segment, which has a number for its name (docs/formats/backup.md). */
  sealSegment(name: string, plain: Uint8Array): Buffer {
    return this.#seal(plain, this.epoch, segmentData(name));
  }

  /** Throws IntegrityError unless it is what was sealed under this name. */
  openSegment(name: string, sealed: Uint8Array): Buffer {
    return this.#open(name, sealed, segmentData(name)).plain;
  }

  #seal(plain: Uint8Array, epoch: number, associated: Buffer): Buffer {
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv('aes-256-gcm', this.#at(epoch).sealing, nonce);
    cipher.setAAD(associated);
    const body = Buffer.concat([cipher.update(plain), cipher.final()]);
    const prefix = Buffer.of(epoch >> 8, epoch & 0xff);
    return Buffer.concat([magic, prefix, nonce, cipher.getAuthTag(), body]);
  }

  #open(what: string, sealed: Uint8Array, associated: Buffer): { plain: Buffer; epoch: number } {
    if (sealed.length < headBytes || !magic.equals(sealed.subarray(0, 4))) {
      throw new IntegrityError(`${what} is damaged`);
    }
    const epoch = ((sealed[4] as number) << 8) | (sealed[5] as number);
    const nonce = sealed.subarray(6, 6 + nonceBytes);
    const decipher = createDecipheriv('aes-256-gcm', this.#at(epoch).sealing, nonce, {
      authTagLength: tagBytes,
    });
    decipher.setAAD(associated);
    decipher.setAuthTag(sealed.subarray(6 + nonceBytes, headBytes));
    try {
      const body = decipher.update(sealed.subarray(headBytes));
      return { plain: Buffer.concat([body, decipher.final()]), epoch };
    } catch (cause) {
      throw new IntegrityError(`${what} is not what was written`, { cause });
    }
  }

  /** The MAC of a manifest's text, hex. Throws IntegrityError when the epoch is unknown. */
  macOf(text: string, epoch: number): string {
    return createHmac('sha256', this.#at(epoch).manifest).update(text).digest('hex');
  }

  #at(epoch: number) {
    let keys = this.#keys.get(epoch);
    if (!keys) {
      const root = this.#keyring.backupKey(epoch);
      keys = {
        naming: deriveKey(root, 'name'),
        sealing: deriveKey(root, 'seal'),
        manifest: deriveKey(root, 'manifest'),
      };
      this.#keys.set(epoch, keys);
    }
    return keys;
  }
}

function deriveKey(root: Buffer, purpose: string): KeyObject {
  const key = hkdfSync('sha256', root, '', `bursar/backup-${purpose}/v1`, 32);
  return createSecretKey(Buffer.from(key));
}

function associatedData(name: string): Buffer {
  return Buffer.from(`bursar/backup/v1\0${name}`);
}

function segmentData(name: string): Buffer {
  return Buffer.from(`bursar/shipped/v1\0${name}`);
}

// The pieces of a place, while a backup is made of them or read. Invariants: a piece that is there
// is not written again; one that is there in another length is; and what is read is what was
// written under its name.

export const pieceFolder = 'pieces/';
const nameBytes = 32;
/** Names in a list: as many as a piece has room for. */
const namesPerList = pieceBytesMax / nameBytes;
const fullName = /^pieces\/([0-9a-f]{2})\/(\1[0-9a-f]{62})$/;

export function placedPiece(name: string): string {
  return `${pieceFolder}${name.slice(0, 2)}/${name}`;
}

/** The piece that a name in a place stands for; null: none. */
function pieceOf(placedName: string): string | null {
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
