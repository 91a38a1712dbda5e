// What an attacker does who can write to the stores or to the database, behind the gateway's back.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type OpenDatabase, openDatabase, type SqlValue } from '#bursar/core/database.js';
import { chunkBytes, tagBytes } from '#bursar/core/limits.js';
import { decodeManifest, type ExtentRun } from '#bursar/core/manifest.js';
import { sealedBytes } from '#bursar/tiering/chunk-format.js';

/** The stored form of extents: what the gateway itself wrote, byte for byte. */
export class StoredExtents {
  readonly #fileOf: (hex: string) => string;

  private constructor(fileOf: (hex: string) => string) {
    this.#fileOf = fileOf;
  }

  /** Of the local store of a data folder. */
  static ofDataFolder(dataDir: string): StoredExtents {
    return new StoredExtents((hex) =>
      join(dataDir, 'extents', hex.slice(28, 30), hex.slice(30), hex),
    );
  }

  /** Of an S3 store, where the backend keeps objects as plain files of this folder. */
  static ofBackendFolder(prefixDir: string): StoredExtents {
    return new StoredExtents((hex) => join(prefixDir, 'extents', hex.slice(30), hex));
  }

  read(id: Buffer): Buffer {
    return readFileSync(this.#fileOf(id.toString('hex')));
  }

  write(id: Buffer, sealed: Buffer): void {
    const file = this.#fileOf(id.toString('hex'));
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, sealed);
  }

  remove(id: Buffer): void {
    rmSync(this.#fileOf(id.toString('hex')));
  }

  /** Changes what is stored in place. */
  edit(id: Buffer, change: (sealed: Buffer) => Buffer): void {
    this.write(id, change(this.read(id)));
  }
}

/**
 * The sealed chunks of `source` in the place of those of `target`, which has as many bytes. What a
 * store has behind the chunks stays, so that nothing but their tags can tell.
 */
export function withChunksOf(target: Buffer, source: Buffer, extentBytes: number): Buffer {
  source.copy(target, 0, 0, sealedBytes(extentBytes));
  return target;
}

/** The database, written to by another process than the gateway's. */
export class CatalogEditor {
  readonly #db: OpenDatabase;

  constructor(dataDir: string) {
    this.#db = openDatabase(join(dataDir, 'bursar.db'), { readonly: false, cacheKib: 1024 });
  }

  /** Gives how many rows were changed. */
  async run(sql: string, ...values: SqlValue[]): Promise<number> {
    return (await this.#db.tx.run(sql, ...values)).changes;
  }

  get<R>(sql: string, ...values: SqlValue[]): Promise<R | undefined> {
    return this.#db.tx.get<R>(sql, ...values);
  }

  /** The runs of the current version of an object. */
  async runsOf(bucket: string, key: string): Promise<ExtentRun[]> {
    const row = await this.get<{ manifest: Uint8Array }>(
      `SELECT manifest FROM versions WHERE key = ?
         AND bucket_id = (SELECT id FROM buckets WHERE name = ?)`,
      key,
      bucket,
    );
    if (!row) throw new Error(`there is no ${bucket}/${key}`);
    return decodeManifest(row.manifest);
  }

  close(): void {
    this.#db.close();
  }
}

/** Chunk `index` with its tag, as a view of the sealed extent. */
export function chunkOf(sealed: Buffer, index: number): Buffer {
  const sealedChunkBytes = chunkBytes + tagBytes;
  return sealed.subarray(index * sealedChunkBytes, (index + 1) * sealedChunkBytes);
}

export function flipBit(sealed: Buffer, position: number): Buffer {
  sealed[position] = (sealed[position] as number) ^ 0x10;
  return sealed;
}

/** Exchanges two whole chunks with their tags. */
export function swapChunks(sealed: Buffer, a: number, b: number): Buffer {
  const first = Buffer.from(chunkOf(sealed, a));
  chunkOf(sealed, b).copy(chunkOf(sealed, a));
  first.copy(chunkOf(sealed, b));
  return sealed;
}
