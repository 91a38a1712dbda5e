// Whether the log that is here is the one that somebody has seen. Invariant: roots are computed
// from the tree that is here and compared with what was kept elsewhere; nothing of one side proves
// the other's. Specification: RFC 6962 section 2.1.
import type { Checkpoint } from './checkpoint.ts';
import { rootOf, type TileReader, type TreeHead } from './merkle.ts';

/** The tree that is here: how many leaves it has, and where its hashes are. */
export interface Tree {
  size: number;
  tiles: TileReader;
}

/**
 * `extends`: the tree begins with all that was seen. `shorter`: it has fewer leaves, whatever they
 * are. `differs`: as many of its leaves have another root.
 */
export async function compareLog(
  { size, tiles }: Tree,
  seen: TreeHead,
): Promise<'extends' | 'shorter' | 'differs'> {
  if (seen.size > size) return 'shorter';
  const root = await rootOf(tiles, seen.size);
  return Buffer.compare(root, seen.root) === 0 ? 'extends' : 'differs';
}

export interface LogNames {
  origin: string;
  /** What it is or was called; null: it was never signed: whatever was kept is of another log. */
  known: readonly string[] | null;
}

/**
 * The same of a checkpoint that was kept, of whatever log. `ended`: of a log that was ended,
 * deliberately or with its database, which says nothing of this one. `unknown`: of a log whose name
 * this one never had.
 */
export async function compareSigned(
  tree: Tree,
  signed: Checkpoint,
  { origin, known }: LogNames,
): Promise<'extends' | 'shorter' | 'differs' | 'ended' | 'unknown'> {
  if (signed.origin === origin) return compareLog(tree, signed);
  return known === null || known.includes(signed.origin) ? 'ended' : 'unknown';
}

/**
 * How many leaves two trees have in common, from the first on; exact, as trees that begin with the
 * same leaves have the same roots so far.
 */
export async function findForkPoint(one: Tree, other: Tree): Promise<number> {
  let same = 0;
  let differ = Math.min(one.size, other.size) + 1;
  while (differ - same > 1) {
    const middle = Math.floor((same + differ) / 2);
    const seen = { size: middle, root: await rootOf(other.tiles, middle) };
    if ((await compareLog(one, seen)) === 'extends') same = middle;
    else differ = middle;
  }
  return same;
}
