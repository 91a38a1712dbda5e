// What a rule would have done with a version that lived already, and what that would have cost; and
// what would have cost least for who had known all of it before. Pure.
import {
  type ColdTerms,
  type DayOfReads,
  earliestMove,
  idleDaysUntil,
  movedTo,
  newStanding,
  readOn,
  type Standing,
} from './cold-rule.ts';
import { type Chain, moveUsd, owedUsd, readUsd, storedUsd, tierAt } from './tiers.ts';

/** What became of a version. Times are days since the epoch, UTC. */
export interface VersionHistory {
  readonly sizeBytes: number;
  /** With fractions, as `endDay`. */
  readonly bornDay: number;
  /** When it ended, or until when it is known. */
  readonly endDay: number;
  readonly isEnded: boolean;
  /** By day, ascending, each day once. */
  readonly reads: readonly DayOfReads[];
}

/** From which day on the rule waits how long. By day, the first at or before all versions. */
export type PatienceByDay = readonly { readonly fromDay: number; readonly patience: number }[];

/** Hears what a version costs. Amounts are USD. */
export interface CostListener {
  /** `perDay` from one time to another. */
  stored(fromDay: number, toDay: number, perDay: number): void;
  paid(day: number, what: 'reads' | 'moves' | 'minimum', usd: number): void;
  /** Towards the first class where `to` is 0. */
  moved?(day: number, to: number): void;
}

/** Gives how the version stands at its end. */
export function replay(
  terms: ColdTerms,
  history: VersionHistory,
  patience: PatienceByDay,
  costs: CostListener,
): Standing {
  const { chain } = terms;
  const { sizeBytes, bornDay, endDay, isEnded, reads } = history;
  let standing = newStanding(sizeBytes, bornDay);
  const leave = (toDay: number, isOwing: boolean): void => {
    const { tier, enteredDay } = standing;
    const left = tierAt(chain, tier);
    costs.stored(enteredDay, toDay, storedUsd(left, sizeBytes));
    const owed = isOwing ? owedUsd(left, sizeBytes, toDay - enteredDay) : 0;
    if (owed > 0) costs.paid(toDay, 'minimum', owed);
  };
  const enter = (next: Standing): void => {
    leave(next.enteredDay, true);
    costs.paid(next.enteredDay, 'moves', moveUsd(chain, sizeBytes, standing.tier, next.tier));
    standing = next;
    costs.moved?.(next.enteredDay, next.tier);
  };
  const idleUntil = (day: number): void => {
    for (;;) {
      const move = firstMove(terms, standing, patience, day);
      if (!move) return;
      enter(movedTo(standing, move.to, move.day));
    }
  };
  for (const one of reads) {
    idleUntil(one.day);
    costs.paid(one.day, 'reads', readUsd(tierAt(chain, standing.tier), one));
    const next = readOn(terms, standing, one);
    if (next.tier === standing.tier) standing = next;
    else enter({ ...next, enteredDay: Math.max(next.enteredDay, standing.enteredDay) });
  }
  idleUntil(endDay);
  leave(Math.max(endDay, standing.enteredDay), isEnded);
  return standing;
}

/** The first move of a version that nobody reads until a day; of those of one day the farthest. */
function firstMove(
  terms: ColdTerms,
  standing: Standing,
  patience: PatienceByDay,
  untilDay: number,
): { day: number; to: number } | null {
  let first: { day: number; to: number } | null = null;
  for (let to = terms.chain.length - 1; to > standing.tier; to--) {
    const day = firstDay(terms, standing, { to, patience, untilDay });
    if (day !== null && (!first || day < first.day)) first = { day, to };
  }
  return first;
}

/** null: none before `untilDay`. */
function firstDay(
  terms: ColdTerms,
  standing: Standing,
  { to, patience, untilDay }: { to: number; patience: PatienceByDay; untilDay: number },
): number | null {
  const { usedDay } = standing;
  const notBefore = earliestMove(terms, standing);
  for (let i = placeOf(patience, notBefore); i < patience.length; i++) {
    const { fromDay, patience: share } = patience[i] as PatienceByDay[number];
    const idleDays = fromDay < untilDay ? idleDaysUntil(terms, standing, to, share) : null;
    if (idleDays === null) return null;
    const day = Math.max(usedDay + idleDays, fromDay, notBefore);
    const toDay = patience[i + 1]?.fromDay ?? Number.POSITIVE_INFINITY;
    if (day < toDay) return day < untilDay ? day : null;
  }
  return null;
}

/** Of the patience that holds on a day; of the first where none did yet. */
function placeOf(patience: PatienceByDay, day: number): number {
  let [low, high] = [0, patience.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((patience[middle]?.fromDay ?? 0) <= day) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

/**
 * No order of moves would have cost less than this: each is made when it is best, also to where a
 * read is cheaper, and nothing is counted for minimum times. USD.
 */
export function leastInHindsight(
  chain: Chain,
  { sizeBytes, bornDay, endDay, reads }: VersionHistory,
): number {
  const everywhere = chain.map((_, i) => i);
  let costs = everywhere.map((i) => (i === 0 ? 0 : Number.POSITIVE_INFINITY));
  const cheapest = (to: number): number =>
    Math.min(
      ...costs.map((usd, from) => usd + (from === to ? 0 : moveUsd(chain, sizeBytes, from, to))),
    );
  const stay = (days: number): void => {
    const next = everywhere.map((i) => cheapest(i) + storedUsd(tierAt(chain, i), sizeBytes, days));
    costs = next;
  };
  let day = bornDay;
  for (const one of reads) {
    stay(Math.max(0, one.day - day));
    day = Math.max(day, one.day);
    costs = everywhere.map((i) => cheapest(i) + readUsd(tierAt(chain, i), one));
  }
  stay(Math.max(0, endDay - day));
  return Math.min(...costs);
}
