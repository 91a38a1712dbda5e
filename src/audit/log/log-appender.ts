// The growing end of the tree: appended to by the ledger's thread, leaf by leaf, at about one node
// a leaf. Invariant: in memory is the right edge alone, at most 255 hashes of each level, and it is
// what the tables say once `flush` is committed; what is not must be discarded.
import type { Reader, Tx } from '../../core/database.ts';
import {
  emptyRoot,
  hashBytes,
  hashNode,
  hashRow,
  tileHeight,
  tileWidth,
  widthOfTile,
} from './merkle.ts';
import { readLogSize, storedTiles } from './stored-tiles.ts';

/** The hashes of one level that are not a full tile yet. */
interface Edge {
  /** Number of the tile. */
  index: number;
  width: number;
  row: Buffer;
  /** Root of the complete subtree of 2**bit hashes in the row, where the width has that bit. */
  peaks: Buffer[];
}

/** The edge of the tree as plain data. */
export interface SavedEdge {
  index: number;
  width: number;
  /** Base64. */
  row: string;
}

interface FullTile {
  level: number;
  index: number;
  root: Buffer;
  hashes: Buffer;
}

export class LogAppender {
  readonly #read: Reader;
  #size = 0;
  #edges: Edge[] = [];
  #full: FullTile[] = [];

  private constructor(read: Reader) {
    this.#read = read;
  }

  /**
   * Reads the edge. Throws when the tables do not fit each other: such a log is not to be signed.
   */
  static async open(read: Reader): Promise<LogAppender> {
    const appender = new LogAppender(read);
    await appender.discard();
    await appender.#verify();
    return appender;
  }

  /** Goes on from where another was when it saved its edge, with nothing to be written. */
  static resume(read: Reader, size: number, saved: readonly SavedEdge[]): LogAppender {
    const appender = new LogAppender(read);
    appender.#size = size;
    appender.#edges = saved.map(({ index, width, row: text }) => {
      const row = newRow();
      row.set(Buffer.from(text, 'base64'));
      return { index, width, row, peaks: peaksOf(row, width) };
    });
    return appender;
  }

  saveEdge(): SavedEdge[] {
    return this.#edges.map(({ index, width, row }) => {
      return { index, width, row: row.subarray(0, width * hashBytes).toString('base64') };
    });
  }

  /** Leaves. */
  get size(): number {
    return this.#size;
  }

  root(): Buffer {
    let root: Buffer | undefined;
    for (const { width, peaks } of this.#edges) {
      for (let bit = 0; bit < tileHeight; bit++) {
        if ((width & (1 << bit)) === 0) continue;
        const peak = peaks[bit] as Buffer;
        root = root ? hashNode(peak, root) : peak;
      }
    }
    return root ?? emptyRoot;
  }

  append(leafHash: Buffer): void {
    this.#size += 1;
    let hash = leafHash;
    for (let level = 0; ; level++) {
      this.#edges[level] ??= { index: 0, width: 0, row: newRow(), peaks: [] };
      const edge = this.#edges[level] as Edge;
      edge.row.set(hash, edge.width * hashBytes);
      let bit = 0;
      for (; (edge.width & (1 << bit)) !== 0; bit++)
        hash = hashNode(edge.peaks[bit] as Buffer, hash);
      if (bit < tileHeight) {
        edge.peaks[bit] = hash;
        edge.width += 1;
        return;
      }
      this.#full.push({ level, index: edge.index, root: hash, hashes: edge.row });
      this.#edges[level] = { index: edge.index + 1, width: 0, row: newRow(), peaks: [] };
    }
  }

  /** Writes the tiles that have become full, in the transaction of what they are made of. */
  async flush(tx: Tx): Promise<void> {
    if (this.#full.length === 0) return;
    for (const { level, index, root, hashes } of this.#full) {
      await tx.run('INSERT INTO log_tiles VALUES (?, ?, ?, ?)', level, index, root, hashes);
    }
    this.#full = [];
  }

  /** Forgets what was not committed: the tables are right. */
  async discard(): Promise<void> {
    const tiles = storedTiles(this.#read);
    const size = await readLogSize(this.#read);
    const edges: Edge[] = [];
    for (let level = 0; size >= tileWidth ** level; level++) {
      const index = Math.floor(size / tileWidth ** (level + 1));
      const width = widthOfTile(level, index, size);
      const row = newRow();
      if (width > 0) row.set(await tiles.readTile(level, index, width));
      edges.push({ index, width, row, peaks: peaksOf(row, width) });
    }
    this.#size = size;
    this.#edges = edges;
    this.#full = [];
  }

  /** What the edge has of full tiles are their roots: at most 255 tiles of each level. */
  async #verify(): Promise<void> {
    const tiles = storedTiles(this.#read);
    for (const [level, { index, width, row }] of this.#edges.entries()) {
      for (let i = 0; level > 0 && i < width; i++) {
        const below = index * tileWidth + i;
        const root = hashRow(await tiles.readTile(level - 1, below, tileWidth));
        if (root.equals(row.subarray(i * hashBytes, (i + 1) * hashBytes))) continue;
        throw new Error(`tile ${below} on level ${level - 1} of the log is not what it was`);
      }
    }
  }
}

function newRow(): Buffer {
  return Buffer.alloc(tileWidth * hashBytes);
}

/** The largest subtree is the leftmost. */
function peaksOf(row: Buffer, width: number): Buffer[] {
  const peaks: Buffer[] = [];
  let at = 0;
  for (let bit = tileHeight - 1; bit >= 0; bit--) {
    const count = 1 << bit;
    if ((width & count) === 0) continue;
    peaks[bit] = hashRow(row.subarray(at * hashBytes, (at + count) * hashBytes));
    at += count;
  }
  return peaks;
}
