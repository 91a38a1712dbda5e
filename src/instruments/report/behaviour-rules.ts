// Rules on how a target behaves: by the hour, in pairs, and when it is asked again.
import type { Chapter, Kind } from './chapter.ts';
import { type Conclusion, enough, nameSize } from './conclusion.ts';
import { showCount, showShare } from './numbers.ts';
import { shareInterval } from './statistics.ts';

const enoughOfHour = 20;
const hoursWanted = 6;

/** Whether there are hours that are much slower than others, by the largest size there is. */
export function hourConclusions({ transfers, source }: Chapter, kind: Kind): Conclusion[] {
  for (let band = transfers[kind].length - 1; band >= 0; band--) {
    const byHour = [...(transfers[kind][band]?.byHour ?? [])];
    const hours = byHour.filter(([, { count }]) => count >= enoughOfHour);
    if (hours.length < hoursWanted) continue;
    const sorted = hours.toSorted(([, a], [, b]) => a.mean - b.mean);
    const [slow, fast] = [sorted[0], sorted.at(-1)];
    if (!slow || !fast) continue;
    const share = slow[1].mean / fast[1].mean;
    if (share > 0.7) return [];
    const says =
      `${kind === 'read' ? 'Reads' : 'Writes'} of ${nameSize(band, source)} are slowest from ` +
      `${slow[0]} to ${slow[0] + 1} h UTC: ${showShare(share)} of the mean bandwidth from ` +
      `${fast[0]} to ${fast[0] + 1} h.`;
    const n = hours.reduce((sum, [, { count }]) => sum + count, 0);
    return [{ rule: 'hour', weight: 'fact', says, n }];
  }
  return [];
}

/** Whether the second request of a pair goes as the first did: then asking again gains nothing. */
export function pairConclusions({ transfers, source }: Chapter, kind: Kind): Conclusion[] {
  return transfers[kind].flatMap(({ pairs }, band): Conclusion[] => {
    const { r, interval, count } = pairs.correlation;
    if (count === 0) return [];
    const of = `${kind}s of ${nameSize(band, source)}`;
    if (r === null || interval === null || count < enough) {
      const says = `Too few pairs of ${of} to say whether asking again would help: ${count}.`;
      return [{ rule: 'pairs', weight: 'caution', says, n: count }];
    }
    const low = interval.low.toFixed(2);
    const known = `r = ${r.toFixed(2)}, between ${low} and ${interval.high.toFixed(2)}`;
    const says =
      interval.high < 0.5
        ? `Two successive ${of} are nearly independent (${known}): a slow one is bad luck, so asking a second time, as hedging does, would help.`
        : interval.low > 0.5
          ? `When one of two successive ${of} is slow, so is the other (${known}): asking the same place a second time, as hedging does, would help little.`
          : `Whether asking for ${of} a second time would help is open (${known}).`;
    const isKnown = interval.high < 0.5 || interval.low > 0.5;
    return [{ rule: 'pairs', weight: isKnown ? 'fact' : 'caution', says, n: count }];
  });
}

const enoughTries = 100;

/** How many retries were needed, and what they left. */
export function availabilityConclusions({ tries, source }: Chapter, kind: Kind): Conclusion[] {
  const { total, done } = tries[kind];
  if (total === 0) return [];
  if (total < enoughTries) {
    const says = `Too few ${kind}s to speak of availability: ${total}.`;
    return [{ rule: 'availability', weight: 'caution', says, n: total }];
  }
  const [first = 0, last = 0] = [done[0], done.at(-1)];
  const needed = done.indexOf(last);
  const failed = total - last;
  const least = showShare(shareInterval(last, total).low);
  const retries = needed === 1 ? 'one retry was' : `${needed} retries were`;
  const rest =
    failed === 0
      ? `all of ${showCount(total)} succeeded`
      : `${showCount(failed)} of ${showCount(total)} failed for good`;
  const says =
    needed === 0
      ? `${kind === 'read' ? 'Reads' : 'Writes'} needed no retries: ${rest}, so at least ${least} do (95%).`
      : `${showShare(first / total)} of the ${kind}s succeeded at once; ${retries} needed for what was reached, and ${rest} (at least ${least}, 95%).`;
  // A client's own retries are requests of their own, which the gateway cannot tell from others.
  const note = source === 'traffic' ? ' Clients’ own retries are counted as requests.' : '';
  const isLimit = failed / total > 0.001;
  return [
    { rule: 'availability', weight: isLimit ? 'limit' : 'fact', says: says + note, n: total },
  ];
}
