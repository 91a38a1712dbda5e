// What the database keeps of records that went to the archive: where they are, their leaves, so
// that the public log needs no store, and their salts, without which nobody opens them. Invariants:
// a tile moves as a whole, in one transaction; the newest record never does; a record is in
// `records` or here, never in both.
import type { Reader, Tx } from '../../core/database.ts';
import { IntegrityError } from '../../core/errors.ts';
import { isManifest } from '../../core/manifest.ts';
import { type Leaf, renderLeaf, saltBytes } from '../leaf.ts';
import { hashBytes, tileWidth } from '../log/merkle.ts';

export const archiveSchema = `
CREATE TABLE record_packs (        -- old records, compressed and sealed, in an extent of a store
  first INTEGER PRIMARY KEY,       -- number of its first tile
  nonce BLOB NOT NULL,
  ends BLOB NOT NULL,              -- where each tile's part ends in it, 4 bytes each
  manifest BLOB NOT NULL
);

CREATE TABLE archived_tiles (      -- of 256 records each, that are in a pack
  idx INTEGER PRIMARY KEY,
  time_ms INTEGER NOT NULL,        -- of its first record
  leaves BLOB NOT NULL,            -- as audit/archive/archived-tiles.ts has them
  salts BLOB NOT NULL              -- 16 bytes each; zeros: the record was erased
);
`;

const pseudonymBytes = 16;
const ownerBytes = 2 * pseudonymBytes;
const erasedSalt = Buffer.alloc(saltBytes);

/** A leaf with the bytes of its commitment. */
export type KeptLeaf = Omit<Leaf, 'commitment'> & { commitment: Buffer };

export interface ArchivedTile {
  index: number;
  timeMs: number;
  leaves: Buffer;
  salts: Buffer;
}

/** The place of a tile's records. */
export interface PackedPart {
  /** The number of the first tile in the pack. */
  first: number;
  /** And how many it has. */
  tiles: number;
  nonce: Buffer;
  manifest: Buffer;
  /** The offset in the bytes that the manifest names. */
  begin: number;
  end: number;
}

export interface Pack {
  /** Number of its first tile. */
  first: number;
  nonce: Uint8Array;
  /** The offsets at which the parts of the tiles end. */
  ends: number[];
  manifest: Uint8Array;
}

/** Tiles that went to the archive: the log's first so many. */
export async function countArchivedTiles(read: Reader): Promise<number> {
  const last = await read.get<{ idx: number | null }>('SELECT max(idx) AS idx FROM archived_tiles');
  return (last?.idx ?? -1) + 1;
}

/** Tiles that are in a pack, whether they have left `records` or not: the log's first so many. */
export async function countPackedTiles(read: Reader): Promise<number> {
  const last = await read.get<{ first: number; ends: Buffer }>(
    'SELECT first, ends FROM record_packs ORDER BY first DESC LIMIT 1',
  );
  return last ? last.first + last.ends.length / 4 : 0;
}

/** Throws IntegrityError for a row that cannot be what was written. */
export async function readArchivedTile(
  read: Reader,
  index: number,
): Promise<ArchivedTile | undefined> {
  const tile = await read.get<ArchivedTile>(
    'SELECT idx AS "index", time_ms AS timeMs, leaves, salts FROM archived_tiles WHERE idx = ?',
    index,
  );
  const isSound =
    !tile ||
    (tile.salts instanceof Uint8Array &&
      tile.salts.length === tileWidth * saltBytes &&
      tile.leaves instanceof Uint8Array);
  if (isSound) return tile;
  throw new IntegrityError(`tile ${index} of the archived records is damaged`);
}

/** Where the tile with the number `i` in a pack is. */
export function partOf({ first, nonce, ends, manifest }: Pack, i: number): PackedPart {
  return {
    ...{ first, tiles: ends.length },
    nonce: Buffer.from(nonce),
    manifest: Buffer.from(manifest),
    begin: ends[i - 1] ?? 0,
    end: ends[i] as number,
  };
}

/** undefined: no pack has the tile. Throws IntegrityError as well. */
export async function findPart(read: Reader, tile: number): Promise<PackedPart | undefined> {
  const pack = await read.get<{ first: number; nonce: Buffer; ends: Buffer; manifest: Buffer }>(
    'SELECT * FROM record_packs WHERE first <= ? ORDER BY first DESC LIMIT 1',
    tile,
  );
  if (!pack) return undefined;
  const { first, nonce, ends, manifest } = pack;
  if (!(ends instanceof Uint8Array && ends.length % 4 === 0 && isManifest(manifest))) {
    throw new IntegrityError(`the pack of tile ${tile} of the archived records is damaged`);
  }
  const at = 4 * (tile - first);
  if (at >= ends.length) return undefined;
  const begin = at === 0 ? 0 : ends.readUInt32BE(at - 4);
  const tiles = ends.length / 4;
  return { first, tiles, nonce, manifest, begin, end: ends.readUInt32BE(at) };
}

/** Enters a pack. It must go on where the one before it ended. */
export async function enterPack(tx: Tx, { first, nonce, ends, manifest }: Pack): Promise<void> {
  const packed = await countPackedTiles(tx);
  if (first !== packed) throw new Error(`a pack from tile ${first} on, behind ${packed} tiles`);
  const encoded = Buffer.alloc(4 * ends.length);
  for (const [i, end] of ends.entries()) encoded.writeUInt32BE(end, 4 * i);
  await tx.run('INSERT INTO record_packs VALUES (?, ?, ?, ?)', first, nonce, encoded, manifest);
}

/**
 * Takes the tiles from `index` on, whose records are all in the database yet, out of the last pack.
 * Gives its manifest where nothing of it is left, and null where earlier tiles are in it.
 */
export async function unpackTiles(tx: Tx, index: number): Promise<Uint8Array | null> {
  const pack = await tx.get<{ first: number; tiles: number; manifest: Buffer }>(
    `SELECT first, length(ends) / 4 AS tiles, manifest FROM record_packs
       ORDER BY first DESC LIMIT 1`,
  );
  const archived = await countArchivedTiles(tx);
  if (!pack || index < pack.first || index >= pack.first + pack.tiles || index !== archived) {
    throw new Error(`tile ${index} is not the next of ${archived} to leave the last pack`);
  }
  const { first, manifest } = pack;
  if (index === first) {
    await tx.run('DELETE FROM record_packs WHERE first = ?', first);
    return manifest;
  }
  const endsBytes = 4 * (index - first);
  await tx.run(
    'UPDATE record_packs SET ends = substr(ends, 1, ?) WHERE first = ?',
    endsBytes,
    first,
  );
  return null;
}

/**
 * Takes the records of the next tile out of the database. They must be in a pack, and there must be
 * a newer one. Gives how many there were.
 */
export async function archiveTile(tx: Tx, index: number): Promise<number> {
  const archived = await countArchivedTiles(tx);
  const packed = await countPackedTiles(tx);
  if (index !== archived || index >= packed) {
    throw new Error(
      `tile ${index} is not the next of ${archived} in the archive, ${packed} packed`,
    );
  }
  const from = index * tileWidth;
  const to = from + tileWidth;
  const rows = await tx.all<KeptLeaf & { timeMs: number; salt: Buffer | null }>(
    `SELECT own.pseudonym AS tenant, other.pseudonym AS bucketTenant, commitment, salt,
         time_ms AS timeMs
       FROM records
       JOIN log_tenants AS own ON own.tenant = records.tenant
       LEFT JOIN log_tenants AS other ON other.tenant = records.bucket_tenant
       WHERE idx >= ? AND idx < ? ORDER BY idx`,
    from,
    to,
  );
  const [first] = rows;
  const newer = await tx.get('SELECT 1 FROM records WHERE idx >= ? LIMIT 1', to);
  if (!first || rows.length !== tileWidth || !newer) {
    throw new Error(`tile ${index} has ${rows.length} records and ${newer ? 'a' : 'no'} newer one`);
  }
  await tx.run(
    'INSERT INTO archived_tiles VALUES (?, ?, ?, ?)',
    index,
    first.timeMs,
    encodeLeaves(rows),
    Buffer.concat(rows.map(({ salt }) => salt ?? erasedSalt)),
  );
  await tx.run('DELETE FROM evidence WHERE idx >= ? AND idx < ?', from, to);
  return (await tx.run('DELETE FROM records WHERE idx >= ? AND idx < ?', from, to)).changes;
}

/**
 * Erases a record that is in the archive: nobody opens it from then on. False: it is not there, or
 * was erased already.
 */
export async function eraseArchived(tx: Tx, index: number): Promise<boolean> {
  const tile = await readArchivedTile(tx, Math.floor(index / tileWidth));
  if (!tile || saltOf(tile, index) === null) return false;
  const salts = Buffer.from(tile.salts);
  erasedSalt.copy(salts, (index % tileWidth) * saltBytes);
  await tx.run('UPDATE archived_tiles SET salts = ? WHERE idx = ?', salts, tile.index);
  return true;
}

/** null: the record was erased. */
export function saltOf({ salts }: Pick<ArchivedTile, 'salts'>, index: number): Buffer | null {
  const at = (index % tileWidth) * saltBytes;
  const salt = salts.subarray(at, at + saltBytes);
  return salt.equals(erasedSalt) ? null : salt;
}

/** The first `width` entries of an archived tile; undefined: it is not in the archive. */
export async function readArchivedEntries(
  read: Reader,
  index: number,
  width: number,
): Promise<Buffer[] | undefined> {
  const tile = await readArchivedTile(read, index);
  return (
    tile &&
    decodeLeaves(tile.leaves)
      .slice(0, width)
      .map((leaf) => {
        return renderLeaf({ ...leaf, commitment: leaf.commitment.toString('base64url') });
      })
  );
}

/**
 * The leaves of a tile: how many kinds of owner they have (2 bytes), these (the pseudonym of who
 * asked and of the bucket's tenant, 16 bytes each, zeros for none), for each leaf which (1 byte),
 * and for each leaf its commitment.
 */
export function encodeLeaves(leaves: readonly KeptLeaf[]): Buffer {
  const owners = new Map<string, number>();
  const which = Buffer.alloc(leaves.length);
  for (const [i, { tenant, bucketTenant }] of leaves.entries()) {
    const owner = `${tenant}${bucketTenant ?? noPseudonym}`;
    const known = owners.get(owner) ?? owners.size;
    owners.set(owner, known);
    which[i] = known;
  }
  const count = Buffer.alloc(2);
  count.writeUInt16BE(owners.size);
  const pseudonyms = Array.from(owners.keys(), (owner) =>
    Buffer.concat([
      Buffer.from(owner.slice(0, noPseudonym.length), 'base64url'),
      Buffer.from(owner.slice(noPseudonym.length), 'base64url'),
    ]),
  );
  return Buffer.concat([count, ...pseudonyms, which, ...leaves.map((one) => one.commitment)]);
}

/** Throws IntegrityError when it is of another form. */
export function decodeLeaves(encoded: Buffer): KeptLeaf[] {
  const owners = encoded.length < 2 ? 0 : encoded.readUInt16BE(0);
  const whichAt = 2 + owners * ownerBytes;
  const count = (encoded.length - whichAt) / (1 + hashBytes);
  if (count !== tileWidth) throw new IntegrityError(`leaves of ${encoded.length} bytes`);
  return Array.from({ length: count }, (_, i) => {
    const owner = encoded[whichAt + i] as number;
    if (owner >= owners) throw new IntegrityError(`a leaf of owner ${owner} of ${owners}`);
    const at = 2 + owner * ownerBytes;
    const tenant = encoded.toString('base64url', at, at + pseudonymBytes);
    const other = encoded.toString('base64url', at + pseudonymBytes, at + ownerBytes);
    const commitmentAt = whichAt + count + i * hashBytes;
    return {
      tenant,
      bucketTenant: other === noPseudonym ? null : other,
      commitment: encoded.subarray(commitmentAt, commitmentAt + hashBytes),
    };
  });
}

const noPseudonym = Buffer.alloc(pseudonymBytes).toString('base64url');
