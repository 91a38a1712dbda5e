// The log as the database has it (C2SP tlog-tiles): full tiles are rows of `log_tiles`; what is not
// a full tile yet is computed, on level 0 of the records, above of the roots of the tiles below.
// Any thread may read. Invariant: what was once read of a tile is never another.
import type { Reader } from '../../core/database.ts';
import { readArchivedEntries } from '../archive/archived-tiles.ts';
import { renderLeaf } from '../leaf.ts';
import { hashBytes, hashLeaf, type TileReader, tileWidth } from './merkle.ts';

export const logSchema = `
CREATE TABLE log_tenants (         -- what tenants are called in the public log, for ever
  tenant TEXT PRIMARY KEY,
  pseudonym TEXT NOT NULL UNIQUE   -- 16 random bytes, base64url
) WITHOUT ROWID;

CREATE TABLE log_tiles (           -- of the tree above the records: full tiles only
  level INTEGER NOT NULL,
  idx INTEGER NOT NULL,
  root BLOB NOT NULL,              -- the tile's own: one of the hashes of the level above
  hashes BLOB NOT NULL,            -- 256, one after the other
  PRIMARY KEY (level, idx)
) WITHOUT ROWID;
`;

/** Leaves of the log: each record is one, there are no gaps. */
export async function readLogSize(read: Reader): Promise<number> {
  const newest = await read.get<{ idx: number | null }>('SELECT max(idx) AS idx FROM records');
  return (newest?.idx ?? -1) + 1;
}

/** Throws for a tile that has not so many hashes yet. */
export function storedTiles(read: Reader): TileReader {
  return {
    readTile: async (level, index, width) => {
      const sql = 'SELECT hashes FROM log_tiles WHERE level = ? AND idx = ?';
      const full = await read.get<{ hashes: Buffer }>(sql, level, index);
      if (full) return full.hashes.subarray(0, width * hashBytes);
      const hashes =
        level === 0
          ? (await readEntries(read, index, width)).map(hashLeaf)
          : await readRoots(read, level - 1, tileWidth * index, width);
      if (hashes.length < width || width === tileWidth) {
        throw new Error(`the log has no tile ${index} of ${width} hashes on level ${level}`);
      }
      return Buffer.concat(hashes);
    },
  };
}

/** The first `width` entries of an entry bundle. Throws when it has not so many yet. */
export async function readEntries(read: Reader, index: number, width: number): Promise<Buffer[]> {
  const sql = `SELECT own.pseudonym AS tenant, other.pseudonym AS bucketTenant, commitment
    FROM records
    JOIN log_tenants AS own ON own.tenant = records.tenant
    LEFT JOIN log_tenants AS other ON other.tenant = records.bucket_tenant
    WHERE idx >= ? AND idx < ? ORDER BY idx`;
  const from = index * tileWidth;
  const rows = await read.all<{ tenant: string; bucketTenant: string | null; commitment: Buffer }>(
    sql,
    from,
    from + width,
  );
  const archived = rows.length > 0 ? undefined : await readArchivedEntries(read, index, width);
  if (archived) return archived;
  if (rows.length < width) throw new Error(`the log has no ${width} entries from ${from} on`);
  return rows.map(({ commitment, ...leaf }) =>
    renderLeaf({ ...leaf, commitment: commitment.toString('base64url') }),
  );
}

async function readRoots(
  read: Reader,
  level: number,
  from: number,
  count: number,
): Promise<Buffer[]> {
  const sql = 'SELECT root FROM log_tiles WHERE level = ? AND idx >= ? AND idx < ? ORDER BY idx';
  const rows = await read.all<{ root: Buffer }>(sql, level, from, from + count);
  return rows.map(({ root }) => root);
}
