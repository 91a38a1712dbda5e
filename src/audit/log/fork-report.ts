// How far the log that is here is the one that others have seen, after a restore. Invariant: what
// it says follows from roots that others kept; where these say nothing, it says that too.
import type { Checkpoint } from './checkpoint.ts';
import { compareLog, findForkPoint, type Tree } from './log-comparison.ts';

/** The state of the log as somebody saw it. */
export interface Sighting {
  /** Where it was seen: a file, or a witness. */
  by: string;
  size: number;
  /** null: only the number of leaves is known. */
  root: Uint8Array | null;
}

export interface ForkReport {
  /** Leaves that are here. */
  size: number;
  sightings: {
    by: string;
    size: number;
    relation: 'same so far' | 'longer than here' | 'another log' | 'unknown';
  }[];
  /** The number of leaves, from the first on, that are those that were seen. */
  agreedSize: number;
  /** Whether no more leaves can be the same: the next one differs, or is not here. */
  isExact: boolean;
  /** Indexes of leaves that were seen and are not here; null: there are none. */
  missing: { from: number; to: number } | null;
  /** Indexes of leaves that are here and may be others than were seen; null: there are none. */
  doubtful: { from: number; to: number } | null;
}

/** `other`: the whole log that was seen, where there is a copy; then the report is exact. */
export async function reportFork(
  tree: Tree,
  sightings: readonly Sighting[],
  other: { by: string; tree: Tree } | null,
): Promise<ForkReport> {
  const seen: ForkReport['sightings'] = [];
  let agreedSize = 0;
  for (const { by, size, root } of sightings) {
    const relation = await relate(tree, { size, root });
    seen.push({ by, size, relation });
    if (relation === 'same so far') agreedSize = Math.max(agreedSize, size);
  }
  if (other) {
    agreedSize = await findForkPoint(tree, other.tree);
    const relation = relationOf(agreedSize, tree.size, other.tree.size);
    seen.push({ by: other.by, size: other.tree.size, relation });
  }
  const seenSize = Math.max(0, ...seen.map(({ size }) => size));
  const isShort = seenSize > tree.size;
  const isOther = seen.some(({ relation }) => relation === 'another log');
  // Leaves after the last that was seen are nobody else's, unless what was seen is longer.
  const isDoubtful = (isShort || isOther) && agreedSize < tree.size;
  const missingFrom = other ? agreedSize : tree.size;
  return {
    size: tree.size,
    sightings: seen,
    agreedSize,
    isExact: other !== null || agreedSize === tree.size,
    missing: missingFrom < seenSize ? span(missingFrom, seenSize) : null,
    doubtful: isDoubtful ? span(agreedSize, tree.size) : null,
  };
}

async function relate(
  tree: Tree,
  { size, root }: Pick<Sighting, 'size' | 'root'>,
): Promise<ForkReport['sightings'][number]['relation']> {
  if (size > tree.size) return 'longer than here';
  if (root === null) return 'unknown';
  return (await compareLog(tree, { size, root })) === 'extends' ? 'same so far' : 'another log';
}

function relationOf(agreed: number, here: number, there: number) {
  if (agreed === there) return 'same so far';
  return agreed === here ? 'longer than here' : 'another log';
}

function span(from: number, end: number): { from: number; to: number } {
  return { from, to: end - 1 };
}

/** A checkpoint as a sighting. */
export function sightingOf(by: string, { size, root }: Checkpoint): Sighting {
  return { by, size, root };
}
