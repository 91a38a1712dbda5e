// When a version moves along a chain of classes, decided online: by how large it is and how long
// ago it was used, not by what will become of it. Leaving a class is ski rental: staying is rent,
// and moving buys what is cheaper from then on, for what the move and the minimum time cost, and
// one more read from there. Who buys when the rent has come to that price never pays more than
// twice what would have been best (Karlin, Manasse, Rudolph, Sleator: "Competitive snoopy caching",
// 1988); of several classes each is bought when its line crosses that of the one before (Irani,
// Shukla, Gupta: "Online strategies for dynamic power management", 2003). Pure. Invariants: nothing
// is moved that does not earn its move and its minimum time within the horizon; and what is read on
// one day alone is never brought back, so a scan of everything brings back nothing.
import {
  type Chain,
  moveUsd,
  owedUsd,
  readUsd,
  storedUsd,
  type Tier,
  tierAt,
  wholeReadUsd,
} from './tiers.ts';

export interface ColdTerms {
  readonly chain: Chain;
  /** What is smaller is never moved. */
  readonly smallestBytes: number;
  /** Within so many days a move has to have earned what it costs. */
  readonly horizonDays: number;
}

/** As lifecycle rules have it where nothing else is said. */
export const smallestBytesUsual = 128 * 1024;
export const horizonDaysUsual = 365;

/** Reads of one version on one day. */
export interface DayOfReads {
  /** Days since the epoch, UTC. */
  readonly day: number;
  readonly reads: number;
  readonly bytes: number;
}

/** All that the rule remembers of a version: nothing of it grows. */
export interface Standing {
  readonly sizeBytes: number;
  /** Its place in the chain, and since when; days, with fractions. */
  readonly tier: number;
  readonly enteredDay: number;
  /** The day of its last read, or when it was written. */
  readonly usedDay: number;
  /** It was brought back before, so it is not taken for unused early again. */
  readonly hasReturned: boolean;
  /** Days of reads where it is now, close enough together; null: none. */
  readonly streak: Streak | null;
}

interface Streak {
  readonly sinceDay: number;
  readonly lastDay: number;
  /** What its reads after the first day cost more than in the first class, USD. */
  readonly extraUsd: number;
}

/** A version that was written into the first class. */
export function newStanding(sizeBytes: number, bornDay: number): Standing {
  const at = { enteredDay: bornDay, usedDay: Math.floor(bornDay) };
  return { sizeBytes, tier: 0, ...at, hasReturned: false, streak: null };
}

/**
 * For how many days a version has to be unused before it moves to a later class; null: it never
 * does. `patience`: 1 waits until the rent has come to the price; less waits as much shorter for
 * what may be a mistake, and as long as ever for what the move costs.
 */
export function idleDaysUntil(
  { chain, smallestBytes, horizonDays }: ColdTerms,
  { sizeBytes, tier, hasReturned }: Pick<Standing, 'sizeBytes' | 'tier' | 'hasReturned'>,
  to: number,
  patience: number,
): number | null {
  const [here, there] = [tierAt(chain, tier), tierAt(chain, to)];
  const savedADay = storedUsd(here, sizeBytes) - storedUsd(there, sizeBytes);
  if (sizeBytes < smallestBytes || savedADay <= 0) return null;
  const feeDays = there.perMove / savedADay;
  const minimumDays = owedUsd(there, sizeBytes, 0) / savedADay;
  if (feeDays + minimumDays > horizonDays) return null;
  const priceDays = (bought(there, sizeBytes) - bought(here, sizeBytes)) / savedADay;
  const share = hasReturned ? Math.max(1, patience) : patience;
  return Math.max(1, Math.ceil(feeDays + share * Math.max(0, priceDays)));
}

/** What is settled when a version comes into a class: the minimum time, and one more read. */
function bought(tier: Tier, sizeBytes: number): number {
  return owedUsd(tier, sizeBytes, 0) + wholeReadUsd(tier, sizeBytes);
}

/** The place in the chain where a version is to be on a day; its own: it stays. */
export function placeOn(
  terms: ColdTerms,
  standing: Standing,
  { day, patience }: { day: number; patience: number },
): number {
  const idleDays = day - standing.usedDay;
  if (day < earliestMove(terms, standing)) return standing.tier;
  for (let to = terms.chain.length - 1; to > standing.tier; to--) {
    const wanted = idleDaysUntil(terms, standing, to, patience);
    if (wanted !== null && idleDays >= wanted) return to;
  }
  return standing.tier;
}

/**
 * From when on a version may move on: who leaves a class before its minimum time is over pays for
 * the rest of it, and for the next class as well.
 */
export function earliestMove(
  { chain }: ColdTerms,
  { tier, enteredDay }: Pick<Standing, 'tier' | 'enteredDay'>,
): number {
  return Math.ceil(enteredDay + tierAt(chain, tier).minimumDays);
}

export function movedTo(standing: Standing, to: number, day: number): Standing {
  return { ...standing, tier: to, enteredDay: day, streak: null };
}

/**
 * What becomes of a version by the reads of a day, later than those before. It comes back to the
 * first class when its reads on several days, each within the time in which a read costs what
 * storage saves, have cost more than it takes to bring it back.
 */
export function readOn({ chain }: ColdTerms, standing: Standing, reads: DayOfReads): Standing {
  const { sizeBytes, tier, enteredDay } = standing;
  const { day } = reads;
  const used = { ...standing, usedDay: day };
  if (tier === 0) return used;
  const [first, here] = [chain[0], tierAt(chain, tier)];
  const savedADay = storedUsd(first, sizeBytes) - storedUsd(here, sizeBytes);
  const streak = streakOf(standing.streak, {
    reads,
    extraUsd: readUsd(here, reads) - readUsd(first, reads),
    windowDays: (wholeReadUsd(here, sizeBytes) - wholeReadUsd(first, sizeBytes)) / savedADay,
  });
  const isOneDay = streak.sinceDay === streak.lastDay;
  const backUsd = moveUsd(chain, sizeBytes, tier, 0) + owedUsd(here, sizeBytes, day - enteredDay);
  const savedUsd = savedADay * (streak.lastDay - streak.sinceDay);
  if (isOneDay || streak.extraUsd < savedUsd + backUsd) return { ...used, streak };
  return { ...movedTo(used, 0, day), hasReturned: true };
}

function streakOf(
  before: Streak | null,
  { reads, extraUsd, windowDays }: { reads: DayOfReads; extraUsd: number; windowDays: number },
): Streak {
  const { day } = reads;
  if (!before || day - before.lastDay > windowDays) {
    return { sinceDay: day, lastDay: day, extraUsd: 0 };
  }
  const isSameDay = day === before.lastDay;
  return { ...before, lastDay: day, extraUsd: before.extraUsd + (isSameDay ? 0 : extraUsd) };
}
