// Files that live as those of DZero did: Palankar et al., "Amazon S3 for Science Grids: a Viable
// Solution?" (2008), section V.A: 30% are used for less than 24 hours, 40% for less than a week,
// 50% for less than a month, 35% for more than five months. Of 27 months, in which files come
// evenly and all stay. Each is read when its use begins and ends, and at random between, at a rate
// that makes the 14 reads a file that the study counted on the average (5.2 PB of 375 TB).
import type { VersionHistory } from '../../../src/tiering/policy/replay.ts';

export const periodDays = 821;
export const readsADay = 12 / 114;
const MiB = 2 ** 20;

/** Of a hundred files, up to how many days they are used. */
export const lifetimes = [
  { percent: 30, from: 1 / 24, to: 1 },
  { percent: 10, from: 1, to: 7 },
  { percent: 10, from: 7, to: 30 },
  { percent: 15, from: 30, to: 152 },
  { percent: 35, from: 152, to: 410 },
] as const;

type Random = () => number;

export function dzeroTrace(random: Random, files: number): VersionHistory[] {
  return Array.from({ length: files }, () => fileOf(random));
}

function fileOf(random: Random): VersionHistory {
  const bornDay = random() * periodDays;
  const sizeBytes = Math.round((50 + random() * 700) * MiB);
  const times = readTimes(random, lifetimeOf(random))
    .map((days) => bornDay + days)
    .filter((time) => time < periodDays);
  const reads = readsByDay(times, sizeBytes);
  return { sizeBytes, bornDay, endDay: periodDays, isEnded: false, reads };
}

export function readsByDay(times: readonly number[], sizeBytes: number): VersionHistory['reads'] {
  const counts = new Map<number, number>();
  for (const time of times) {
    counts.set(Math.floor(time), (counts.get(Math.floor(time)) ?? 0) + 1);
  }
  return [...counts].map(([day, reads]) => ({ day, reads, bytes: reads * sizeBytes }));
}

function lifetimeOf(random: Random): number {
  let percent = random() * 100;
  for (const { percent: share, from, to } of lifetimes) {
    if (percent < share) return from + random() * (to - from);
    percent -= share;
  }
  return 410;
}

/** A Poisson process. */
function readTimes(random: Random, lifeDays: number): number[] {
  const times = [0];
  for (let at = 0; ; ) {
    at -= Math.log(1 - random()) / readsADay;
    if (at >= lifeDays) return [...times, lifeDays];
    times.push(at);
  }
}
