// Proves that a run of leaves, all of them, is in a tree: with the hashes of the complete subtrees
// before it and behind it, leaf after leaf leads to the root. So whoever has the run knows that no
// leaf of it is missing. The subtrees are those of RFC 6962 section 2.1; memory does not grow with
// the run.
import { emptyRoot, hashComplete, hashNode, keepTiles, type TileReader } from './merkle.ts';

export interface LeafRange {
  /** `from` inclusive, `to` exclusive. */
  from: number;
  to: number;
  /** Leaves of the tree. */
  size: number;
}

export interface RangeProof {
  /** The hashes of the complete subtrees that the leaves before the run make, from the first on. */
  before: Buffer[];
  /** The hashes of those that the leaves behind it make. */
  after: Buffer[];
}

/** Throws for a range that the tree has not. */
export async function proveRange(tiles: TileReader, range: LeafRange): Promise<RangeProof> {
  const { from, to, size } = range;
  if (!(from >= 0 && from <= to && to <= size)) throw new RangeError(`${from}-${to} of ${size}`);
  const kept = keepTiles(tiles);
  const hashes = async (subtrees: readonly Subtree[]): Promise<Buffer[]> => {
    const found: Buffer[] = [];
    for (const subtree of subtrees) found.push(await hashComplete(kept, { ...subtree, size }));
    return found;
  };
  return {
    before: await hashes(subtreesOf(0, from)),
    after: await hashes(subtreesOf(to, size)),
  };
}

/** Takes the leaves of a run, one after the other, and says to which root they lead. */
export class RangeRoot {
  readonly #range: LeafRange;
  readonly #after: readonly Uint8Array[];
  /** Complete subtrees, the larger ones first: the sizes are those of `#at`'s bits. */
  readonly #nodes: Uint8Array[];
  #at: number;

  private constructor(range: LeafRange, { before, after }: RangeProof) {
    this.#range = range;
    this.#after = after;
    this.#nodes = [...before];
    this.#at = range.from;
  }

  /** undefined: the proof has not the hashes that this range needs. */
  static begin(range: LeafRange, proof: RangeProof): RangeRoot | undefined {
    const { from, to, size } = range;
    const isRange = Number.isSafeInteger(size) && from >= 0 && from <= to && to <= size;
    if (!isRange || !Number.isSafeInteger(from) || !Number.isSafeInteger(to)) return undefined;
    const isWhole =
      proof.before.length === subtreesOf(0, from).length &&
      proof.after.length === subtreesOf(to, size).length;
    return isWhole ? new RangeRoot(range, proof) : undefined;
  }

  /** The index of the next leaf. */
  get next(): number {
    return this.#at;
  }

  /** Throws behind the end of the range. */
  append(leafHash: Uint8Array): void {
    if (this.#at >= this.#range.to) throw new RangeError('a leaf behind the range');
    this.#add(leafHash, 1);
  }

  /** Once, after the last leaf; undefined: leaves are missing. */
  finish(): Buffer | undefined {
    const { to, size } = this.#range;
    if (this.#at !== to) return undefined;
    subtreesOf(to, size).forEach(({ count }, i) => {
      this.#add(this.#after[i] as Uint8Array, count);
    });
    let root = this.#nodes.pop();
    if (root === undefined) return emptyRoot;
    for (let left = this.#nodes.pop(); left; left = this.#nodes.pop()) root = hashNode(left, root);
    return Buffer.from(root);
  }

  /** Two subtrees of the same size that lie beside each other under one node become that node. */
  #add(hash: Uint8Array, count: number): void {
    let node = hash;
    let width = count;
    this.#at += count;
    for (; (this.#at / width) % 2 === 0; width *= 2) {
      node = hashNode(this.#nodes.pop() as Uint8Array, node);
    }
    this.#nodes.push(node);
  }
}

interface Subtree {
  from: number;
  count: number;
}

/** The largest complete subtrees that the leaves of a range make, in their order. */
function subtreesOf(from: number, to: number): Subtree[] {
  const subtrees: Subtree[] = [];
  for (let at = from; at < to; ) {
    let count = 1;
    while (at % (2 * count) === 0 && at + 2 * count <= to) count *= 2;
    subtrees.push({ from: at, count });
    at += count;
  }
  return subtrees;
}
