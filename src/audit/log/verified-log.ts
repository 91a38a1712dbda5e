// The log under a checkpoint, read from files that nobody needs to trust. Invariant: no hash and no
// entry leaves here that does not lead to the checkpoint's root: the tiles of the right edge are
// verified by the root itself, every other tile by its hash in the tile above, and entries by their
// tile of level 0. Specification: C2SP tlog-tiles.
import type { LogSource } from '../verify/log-source.ts';
import type { Checkpoint } from './checkpoint.ts';
import { parseEntries, renderEntries } from './entries.ts';
import {
  hashBytes,
  hashLeaf,
  hashRow,
  rootOf,
  type TileReader,
  tileWidth,
  widthOfTile,
} from './merkle.ts';
import { pathOfTile, type TileName } from './tile-path.ts';

/** What was read is not the log that was signed, or a part of it is missing. */
export class LogDamage extends Error {
  override readonly name = 'LogDamage';
}

export interface VerifiedFile {
  /** The hashes up to the tree's own size: a part of the full tile where only that was there. */
  bytes: Buffer;
  path: string;
  /** The source that had it. */
  source: LogSource;
}

/**
 * How many tiles above level 0 are kept: enough for one level of the largest log, and what is next
 * to it.
 */
const keptTilesMax = 64;

export class VerifiedLog implements TileReader {
  readonly head: Checkpoint;
  readonly #sources: readonly LogSource[];
  readonly #edge = new Map<string, VerifiedFile>();
  readonly #kept = new Map<string, Promise<VerifiedFile>>();

  private constructor(head: Checkpoint, sources: readonly LogSource[]) {
    this.head = head;
    this.#sources = sources;
  }

  /**
   * `head` must be verified. `copies` may have parts of the log too: they are asked before `log`,
   * and what they have is taken only if it is right. Throws `LogDamage`.
   */
  static async open(
    head: Checkpoint,
    log: LogSource,
    copies: readonly LogSource[] = [],
  ): Promise<VerifiedLog> {
    const opened = new VerifiedLog(head, [...copies, log]);
    await opened.#readEdge(log, copies);
    return opened;
  }

  /** Verified hashes of a tile, as proofs are made of. */
  async readTile(level: number, index: number, width: number): Promise<Buffer> {
    const { bytes } = await this.tile(level, index);
    if (bytes.length < width * hashBytes) {
      throw new RangeError(`tile ${level}/${index} has ${bytes.length} bytes`);
    }
    return bytes.subarray(0, width * hashBytes);
  }

  /** A tile as it is in this tree. Throws `LogDamage`. */
  tile(level: number, index: number): Promise<VerifiedFile> {
    const path = pathOfTile({ level, index, width: tileWidth });
    const edge = this.#edge.get(path);
    if (edge) return Promise.resolve(edge);
    const known = this.#kept.get(path);
    if (known) return known;
    const found = this.#readFull({ level, index, width: tileWidth });
    this.#kept.set(path, found);
    const [oldest] = this.#kept.keys();
    if (this.#kept.size > keptTilesMax && oldest !== undefined) this.#kept.delete(oldest);
    return found;
  }

  /** An entry bundle as it is in this tree. Throws `LogDamage`. */
  async bundle(index: number): Promise<VerifiedFile> {
    const { bytes: hashes } = await this.tile(0, index);
    const width = hashes.length / hashBytes;
    return await this.#find({ level: 'entries', index, width }, this.#sources, (bytes) => {
      const entries = parseEntries(bytes);
      return entries?.length === width && Buffer.concat(entries.map(hashLeaf)).equals(hashes);
    });
  }

  async #readFull(name: TileName & { level: number }): Promise<VerifiedFile> {
    const { level, index } = name;
    const above = await this.tile(level + 1, Math.floor(index / tileWidth));
    const at = (index % tileWidth) * hashBytes;
    const hash = above.bytes.subarray(at, at + hashBytes);
    if (hash.length < hashBytes) throw new RangeError(`the log has no ${pathOfTile(name)}`);
    return await this.#find(name, this.#sources, (bytes) => hashRow(bytes).equals(hash));
  }

  /** All tiles that are partial; together they are the root. */
  async #readEdge(log: LogSource, copies: readonly LogSource[]): Promise<void> {
    const { size, root } = this.head;
    for (let level = 0; tileWidth ** level <= size; level += 1) {
      const index = Math.floor(size / tileWidth ** (level + 1));
      const width = widthOfTile(level, index, size);
      if (width === 0) continue;
      const path = pathOfTile({ level, index, width: tileWidth });
      this.#edge.set(path, await this.#find({ level, index, width }, [log], () => true));
    }
    if (!(await rootOf(this, size)).equals(root)) {
      throw new LogDamage("the tiles at the tree's right edge do not lead to the signed root");
    }
    for (const file of this.#edge.values()) {
      for (const copy of copies) {
        if ((await copy.read(file.path))?.equals(file.bytes)) file.source = copy;
      }
    }
  }

  async #find(
    name: TileName,
    sources: readonly LogSource[],
    isRight: (bytes: Buffer) => boolean,
  ): Promise<VerifiedFile> {
    const path = pathOfTile(name);
    let found = 'missing';
    for (const source of sources) {
      const bytes = (await source.read(path)) ?? (await readFromFull(source, name));
      if (!bytes) continue;
      const isLength = name.level === 'entries' || bytes.length === name.width * hashBytes;
      if (isLength && isRight(bytes)) return { bytes, path, source };
      found = 'not what the checkpoint is of';
    }
    throw new LogDamage(`${path} is ${found}`);
  }
}

/** A log may have dropped a partial tile once there is the full one, which begins with it. */
async function readFromFull(source: LogSource, name: TileName): Promise<Buffer | undefined> {
  const { level, width } = name;
  if (width === tileWidth) return undefined;
  const full = await source.read(pathOfTile({ ...name, width: tileWidth }));
  if (!full || level !== 'entries') return full?.subarray(0, width * hashBytes);
  const entries = parseEntries(full);
  return entries && renderEntries(entries.slice(0, width));
}
