// What lifecycle rules say is due to be in another class, of rows of the catalog: asked while a
// bucket is walked through, and again in the transaction that moves it. Invariants: a version is
// moved as it is, so neither its name nor its bytes nor its time is another; and of what a snapshot
// has as it was before it was amended, nothing is moved, since that shares its bytes. What is in a
// class with tiers moves along these by how it is read, where no rule has it leave them.
import type { Reader } from '../core/database.ts';
import { isOwnClass } from '../core/own-class.ts';
import { type DueMove, type Lifecycle, type LifecycleRule, versionOf } from './lifecycle.ts';
import {
  hasNewer,
  type LifecyclePlace,
  type LifecycleTerms,
  readCurrent,
  readNoncurrent,
  type WalkedVersion,
  type WalkStep,
} from './lifecycle-due.ts';
import { findRestore, isReadable } from './restore-rows.ts';
import { type Chain, dueTier, readUses, type TieringConfig } from './tiers.ts';

export const movingWalks = ['noncurrent', 'current'] as const;
export type MovingWalk = (typeof movingWalks)[number];

/** A version, and where it is to be. */
export interface PlannedMove {
  place: VersionAt;
  class: string;
}

export type VersionAt = Extract<LifecyclePlace, { seq: number }>;

/** The rules that a walk looks for. */
export function movesOf(rules: Lifecycle, walk: MovingWalk): readonly LifecycleRule[] {
  return walk === 'current' ? rules.moving : rules.movingNoncurrent;
}

/** What decides of moves. */
export interface MoveTerms extends LifecycleTerms {
  /** By the names of all their classes. */
  chains: ReadonlyMap<string, Chain>;
  tierings: readonly TieringConfig[];
}

/** The class that a version is due to be in now, if that is another; null: it stays. */
export async function findDueMove(
  read: Reader,
  terms: MoveTerms,
  row: WalkedVersion,
): Promise<DueMove | null> {
  if (row.isMarker) return null;
  const due = await findLastMove(read, terms, row);
  const chain = isOwnClass(row.class) ? terms.chains.get(row.class) : undefined;
  // What is in a tier is in the class that it is a tier of.
  const isThere = due?.class === row.class || (chain && due?.class === chain.class);
  if (due && !isThere) return due;
  if (!chain) return null;
  const { tierings: configs, timeMs, dayMs } = terms;
  const version = { ...versionOf(row), class: row.class, supersededMs: row.supersededMs };
  const uses = await readUses(read, row.seq);
  const isArchived = chain.tiers.some((one) => one.class === row.class && one.archive !== null);
  const isRestored = isArchived && isReadable(await findRestore(read, row.seq), timeMs);
  const tier = dueTier(version, { chain, configs, uses, isRestored, timeMs, dayMs });
  return tier && { ...tier, dueMs: timeMs, tierOf: chain.class };
}

async function findLastMove(
  read: Reader,
  { rules, bucket, timeMs, dayMs }: LifecycleTerms,
  row: WalkedVersion,
): Promise<DueMove | null> {
  const version = versionOf(row);
  if (row.supersededMs === null) return rules.transitionOf(version, timeMs, dayMs);
  const all = rules.noncurrentTransitionsOf(version, row.supersededMs, { timeMs, dayMs });
  // Who has not so many has not more: there may be a thousand rules.
  let lacking = Number.POSITIVE_INFINITY;
  for (const one of all) {
    const { newerVersions } = one;
    if (newerVersions >= lacking) continue;
    if (newerVersions === 0 || (await hasNewer(read, bucket.id, row, newerVersions))) return one;
    lacking = newerVersions;
  }
  return null;
}

/**
 * One step of a walk through a bucket, which ends early where so many moves are found. Rows are
 * taken as they are: who moves one verifies it.
 */
export async function findDueMoves(
  read: Reader,
  terms: MoveTerms,
  step: WalkStep<MovingWalk>,
  movesMax: number,
): Promise<{ moves: PlannedMove[]; last: VersionAt | null }> {
  const readRows = step.walk === 'current' ? readCurrent : readNoncurrent;
  const rows = await readRows(read, terms, step);
  const moves: PlannedMove[] = [];
  for (const row of rows) {
    const { key, seq } = row;
    const due = await findDueMove(read, terms, row);
    if (due) moves.push({ place: { key, seq }, class: due.class });
    if (moves.length === movesMax) return { moves, last: { key, seq } };
  }
  const last = rows.length < step.max ? undefined : rows.at(-1);
  return { moves, last: last ? { key: last.key, seq: last.seq } : null };
}
