// Whether a whole log is what its signed checkpoint says: each tile, each entry, the root, and that it
// begins with what a checkpoint said that was kept from before. From the root down, so that each hash
// is compared with one that is proven already, and what is damaged is named exactly. Memory does not
// grow with the log. Nothing is rebuilt from what is being verified and then called proof.
import { inParallel } from '../../core/in-parallel.ts';
import { parseLeaf } from '../leaf.ts';
import type { Checkpoint } from '../log/checkpoint.ts';
import { parseEntries } from '../log/entries.ts';
import {
  hashBytes,
  hashLeaf,
  hashRow,
  isConsistent,
  keepTiles,
  proveConsistency,
  rootOf,
  type TileReader,
  tileWidth,
  widthOfTile,
} from '../log/merkle.ts';
import { pathOfTile, type TileName } from '../log/tile-path.ts';
import type { LogSource } from './log-source.ts';
import {
  type Refused,
  refuse,
  type SignedCheckpoint,
  type Trust,
  verifyCheckpoint,
} from './signed-checkpoint.ts';

export interface LogVerification {
  trust: Trust;
  /** Checkpoints of the same log that the verifier kept from before, and verified then. */
  kept?: readonly Checkpoint[];
  /** Each thing that is wrong, as soon as it is known; a sentence without its full stop. */
  onFinding?: (finding: string) => void;
  /** How many entries were verified so far, of how many. */
  onProgress?: (entries: number, size: number) => void;
}

/** Files that are read at the same time; of entries each can be 16 MiB. */
const readsMax = 8;

/** Throws `SourceFailure` where the source cannot be read. */
export async function verifyLog(
  source: LogSource,
  options: LogVerification,
): Promise<SignedCheckpoint | Refused> {
  const { trust, kept = [] } = options;
  const note = await source.read('checkpoint');
  if (!note) return refuse('there is no file "checkpoint" there');
  const head = verifyCheckpoint(note.toString(), trust);
  if (!head.ok) return head;
  for (const old of kept) {
    const why = whyNotBefore(old, head);
    if (why !== null) return refuse(why);
  }
  const walk = new Walk(source, head, options);
  const findings = await walk.run();
  if (findings > 0) return refuse(`${findings} findings: it is not the log that was signed`);
  for (const old of kept) {
    if (await walk.beginsWith(old)) continue;
    return refuse(`the log was rewritten: its first ${old.size} entries are not those of before`);
  }
  return head;
}

/** What the two checkpoints alone show. */
function whyNotBefore(old: Checkpoint, head: Checkpoint): string | null {
  if (old.origin !== head.origin) {
    return `the kept checkpoint is of another log, ${old.origin}, not of ${head.origin}`;
  }
  if (old.size <= head.size) return null;
  return `the log was rolled back: it has ${head.size} entries, and had ${old.size} before`;
}

/** A row of leaves' hashes: proven ones, or a full tile that must lead to `expected`. */
type Row = { index: number } & ({ hashes: Uint8Array } | { expected: Uint8Array });

class Walk {
  /** Those of the tree that was signed; throws `Damage`. */
  readonly #tiles: TileReader;
  readonly #source: LogSource;
  readonly #head: Checkpoint;
  readonly #options: LogVerification;
  #findings = 0;
  #entries = 0;

  constructor(source: LogSource, head: Checkpoint, options: LogVerification) {
    this.#source = source;
    this.#head = head;
    this.#options = options;
    this.#tiles = { readTile: (level, index, width) => this.#readTile({ level, index, width }) };
  }

  /** Verifies everything; resolves with how much is wrong. */
  async run(): Promise<number> {
    const edge = keepTiles(this.#tiles);
    await this.#reporting(async () => {
      const root = await rootOf(edge, this.#head.size);
      if (!root.equals(this.#head.root)) {
        throw new Damage("the tiles at the tree's right edge do not lead to the signed root");
      }
      await inParallel(this.#rows(edge), readsMax, (row) =>
        this.#reporting(() => this.#verifyRow(row)),
      );
    });
    return this.#findings;
  }

  /** Is the log of before its beginning? */
  async beginsWith(old: Checkpoint): Promise<boolean> {
    let isSo = false;
    await this.#reporting(async () => {
      const proof = await proveConsistency(this.#tiles, old.size, this.#head.size);
      isSo = isConsistent(old, this.#head, proof);
    });
    return isSo;
  }

  async #reporting(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      if (!(error instanceof Damage)) throw error;
      this.#report(error.message);
    }
  }

  #report(finding: string): void {
    this.#findings += 1;
    this.#options.onFinding?.(finding);
  }

  /** From the log's first on: those under the right edge of each level, the highest level first. */
  async *#rows(edge: TileReader): AsyncGenerator<Row> {
    const { size } = this.#head;
    for (let level = topLevelOf(size); level >= 0; level -= 1) {
      const index = Math.floor(size / tileWidth ** (level + 1));
      const width = widthOfTile(level, index, size);
      if (width === 0) continue;
      yield* this.#rowsUnder(level, index, await edge.readTile(level, index, width));
    }
  }

  /** Of a tile whose hashes are proven. */
  async *#rowsUnder(level: number, index: number, hashes: Uint8Array): AsyncGenerator<Row> {
    if (level === 0) {
      yield { index, hashes };
      return;
    }
    for (let at = 0; at < hashes.length / hashBytes; at += 1) {
      const child = index * tileWidth + at;
      const expected = hashAt(hashes, at);
      if (level === 1) yield { index: child, expected };
      else {
        let below: Uint8Array | undefined;
        await this.#reporting(async () => {
          below = await this.#readProven(level - 1, child, expected);
        });
        if (below) yield* this.#rowsUnder(level - 1, child, below);
      }
    }
  }

  async #verifyRow(row: Row): Promise<void> {
    const { index } = row;
    const hashes = 'hashes' in row ? row.hashes : await this.#readProven(0, index, row.expected);
    const entries = await this.#readEntries({
      level: 'entries',
      index,
      width: hashes.length / hashBytes,
    });
    for (const [at, entry] of entries.entries()) {
      const number = index * tileWidth + at;
      if (!hashLeaf(entry).equals(hashAt(hashes, at))) this.#report(`entry ${number} was altered`);
      else if (!parseLeaf(entry)) this.#report(`entry ${number} is no leaf of a record`);
    }
    this.#entries += entries.length;
    this.#options.onProgress?.(this.#entries, this.#head.size);
  }

  /** A full tile that leads to the hash which the tile above it has. Throws `Damage`. */
  async #readProven(level: number, index: number, expected: Uint8Array): Promise<Uint8Array> {
    const name = { level, index, width: tileWidth };
    const hashes = await this.#readTile(name);
    if (hashRow(hashes).equals(expected)) return hashes;
    throw new Damage(`${pathOfTile(name)} was altered`);
  }

  /** Throws `Damage`. */
  async #readTile(name: TileName): Promise<Uint8Array> {
    const { path, bytes, width } = await this.#read(name);
    if (bytes.length === width * hashBytes) return bytes.subarray(0, name.width * hashBytes);
    throw new Damage(`${path} has ${bytes.length} bytes, not ${width * hashBytes}`);
  }

  /** Throws `Damage`. */
  async #readEntries(name: TileName): Promise<Uint8Array[]> {
    const { path, bytes, width } = await this.#read(name);
    const entries = parseEntries(bytes);
    if (entries?.length === width) return entries.slice(0, name.width);
    throw new Damage(
      `${path} ${entries ? `has ${entries.length} entries, not ${width}` : 'is cut'}`,
    );
  }

  /** The file, or, where a partial one was removed since then, the full one. Throws `Damage`. */
  async #read(name: TileName): Promise<{ path: string; bytes: Buffer; width: number }> {
    for (const width of new Set([name.width, tileWidth])) {
      const path = pathOfTile({ ...name, width });
      const bytes = await this.#source.read(path);
      if (bytes) return { path, bytes, width };
    }
    throw new Damage(`${pathOfTile(name)} is missing`);
  }
}

/** What is wrong with the log. */
class Damage extends Error {
  override readonly name = 'Damage';
}

function hashAt(hashes: Uint8Array, at: number): Uint8Array {
  return hashes.subarray(at * hashBytes, (at + 1) * hashBytes);
}

/** The level of the tile that has the tree's highest complete subtrees. */
function topLevelOf(size: number): number {
  let level = 0;
  while (tileWidth ** (level + 1) <= size) level += 1;
  return level;
}
