// The least that anybody can pay for the files of dzero-trace.ts who knows by which law they live,
// and of none what is to come: by dynamic programming over how old a file was when it was last
// read, how long ago that is, and the days that are left. That is all that matters, as reads are a
// Poisson process until the last one. Of two classes, by whole days; nothing is owed for minimum
// times.
import type { Tier } from '../../../src/tiering/policy/tiers.ts';
import { lifetimes, periodDays, readsADay } from './dzero-trace.ts';

const GiB = 2 ** 30;

/** The density of lifetimes at an age, and the share of files that are used for longer. */
const densityAt = (age: number): number =>
  lifetimes.reduce((sum, { percent, from, to }) => {
    return age >= from && age < to ? sum + percent / 100 / (to - from) : sum;
  }, 0);
const shareBeyond = (age: number): number =>
  lifetimes.reduce((sum, { percent, from, to }) => {
    return sum + (percent / 100) * Math.min(1, Math.max(0, (to - age) / (to - from)));
  }, 0);

/** The expected cost of a file, USD per GiB. `sizeBytes`: what requests are shared out to. */
export function leastOnline([hot, cold]: readonly [Tier, Tier], sizeBytes: number): number {
  const gib = sizeBytes / GiB;
  const [stayHot, stayCold] = [hot.perGbDay, cold.perGbDay];
  const readCold = cold.perGbRead + cold.perRead / gib;
  const [down, up] = [cold.perMove / gib, hot.perMove / gib + readCold];
  const ages = Math.ceil(Math.max(...lifetimes.map(({ to }) => to))) + 2;
  const readNext = readProbabilities(ages);
  let hots = new Float64Array(ages * ages);
  let colds = new Float64Array(ages * ages);
  let [nextHots, nextColds] = [hots.slice(), colds.slice()];
  let sum = hot.perGbDay;
  for (let left = 1; left < periodDays; left++) {
    for (let age = 0; age < ages; age++) {
      const end = ages - 1 - age;
      for (let idle = 0; idle < end; idle++) {
        const at = age * ages + idle;
        const read = readNext[at] as number;
        const again = (age + idle + 1) * ages;
        const [h, c] = [hots[again] as number, colds[again] as number];
        const hotDay =
          stayHot + read * Math.min(h, down + c) + (1 - read) * (hots[at + 1] as number);
        const coldDay =
          stayCold +
          read * (readCold + Math.min(c, up + h)) +
          (1 - read) * (colds[at + 1] as number);
        nextHots[at] = Math.min(hotDay, down + coldDay);
        nextColds[at] = Math.min(coldDay, up + hotDay);
      }
      // As old as no file is used.
      nextHots[age * ages + end] = Math.min(left * stayHot, down + left * stayCold);
      nextColds[age * ages + end] = left * stayCold;
    }
    [hots, nextHots, colds, nextColds] = [nextHots, hots, nextColds, colds];
    // The first day is in the first class.
    sum += hot.perGbDay + (hots[0] as number);
  }
  return sum / periodDays;
}

/** By the age at the last read and the days since: how probable a read is on the next day. */
function readProbabilities(ages: number): Float64Array {
  const found = new Float64Array(ages * ages);
  for (let age = 0; age < ages; age++) {
    for (let idle = 0; age + idle < ages; idle++) {
      const now = age === 0 ? idle + 1 : age + 0.5 + idle;
      const quiet = Math.exp(-readsADay * idle) * shareBeyond(now);
      const ended = age === 0 ? 1 - shareBeyond(1) : densityAt(age + 0.5);
      const used = age === 0 ? quiet : readsADay * quiet;
      if (used === 0) continue;
      const none = (Math.exp(-readsADay) * shareBeyond(now + 1)) / shareBeyond(now);
      found[age * ages + idle] = (used / (used + ended)) * (1 - none);
    }
  }
  return found;
}
