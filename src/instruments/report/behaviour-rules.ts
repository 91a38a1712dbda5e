// Rules on how a target behaves: by the hour, in pairs, and when it is asked again.
import { type Chapter, type Kind, shareDone } from './chapter.ts';
import { type Conclusion, enough, nameSize } from './conclusion.ts';
import { showCount, showShare } from './numbers.ts';
import { type Interval, meanError } from './statistics.ts';
import type { Values } from './values.ts';

const enoughOfHour = 10;
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
    if (share > 0.7 || !areApart(slow[1], fast[1])) return [];
    const says =
      `${kind === 'read' ? 'Reads' : 'Writes'} of ${nameSize(band, source)} are slowest from ` +
      `${slow[0]} to ${slow[0] + 1} h UTC: ${showShare(share)} of the mean bandwidth from ` +
      `${fast[0]} to ${fast[0] + 1} h.`;
    const n = hours.reduce((sum, [, { count }]) => sum + count, 0);
    return [{ rule: 'hour', weight: 'fact', says, n }];
  }
  return [];
}

/**
 * Among many hours the slowest and the fastest differ by chance, too: so three errors are needed,
 * not two.
 */
function areApart(slow: Values, fast: Values): boolean {
  const [above, below] = [meanError(slow.sorted), meanError(fast.sorted)];
  return slow.mean + 3 * above < fast.mean - 3 * below;
}

type Verdict = 'independent' | 'together' | 'open' | 'few';

/** Whether the second request of a pair goes as the first did: then asking again gains nothing. */
export function pairConclusions({ transfers, source }: Chapter, kind: Kind): Conclusion[] {
  const sizes = transfers[kind].flatMap(({ pairs }, band) => {
    const { count, r, interval } = pairs.correlation;
    if (count === 0) return [];
    const isFew = r === null || interval === null || count < enough;
    const verdict: Verdict = isFew
      ? 'few'
      : interval.high < 0.5
        ? 'independent'
        : interval.low > 0.5
          ? 'together'
          : 'open';
    const known = isFew ? `${count} pairs` : `r = ${r.toFixed(2)} ± ${reachOf(interval)}`;
    return [{ verdict, count, text: `${nameSize(band, source)} (${known})` }];
  });
  return (Object.keys(verdicts) as Verdict[]).flatMap((verdict): Conclusion[] => {
    const some = sizes.filter((size) => size.verdict === verdict);
    if (some.length === 0) return [];
    const of = `${kind}s of ${listWords(some.map(({ text }) => text))}`;
    const n = some.reduce((sum, { count }) => sum + count, 0);
    const weight = verdict === 'open' || verdict === 'few' ? 'caution' : 'fact';
    return [{ rule: 'pairs', weight, says: verdicts[verdict](of), n }];
  });
}

const verdicts: Record<Verdict, (of: string) => string> = {
  independent: (of) =>
    `Of two successive ${of} a slow first one says little of the second: it is bad luck, and ` +
    'asking a second time, as hedging does, would help.',
  together: (of) =>
    `When one of two successive ${of} is slow, so is the other: asking the same place a second ` +
    'time, as hedging does, would help little.',
  open: (of) => `Whether asking a second time would help is open for ${of}.`,
  few: (of) => `Too few pairs to say whether asking a second time would help for ${of}.`,
};

function reachOf({ low, high }: Interval): string {
  return ((high - low) / 2).toFixed(2);
}

/** `a, b and c` */
function listWords(words: readonly string[]): string {
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} and ${words.at(-1)}`;
}

const enoughTries = 100;

/** How many retries were needed, and what they left. */
export function availabilityConclusions({ tries, source }: Chapter, kind: Kind): Conclusion[] {
  const { samples, total, done } = tries[kind];
  if (samples === 0) return [];
  if (samples < enoughTries) {
    const says = `Too few ${kind}s to speak of availability: ${samples}.`;
    return [{ rule: 'availability', weight: 'caution', says, n: samples }];
  }
  const last = done.at(-1) ?? 0;
  const needed = done.indexOf(last);
  const failed = total - last;
  const rest =
    failed === 0
      ? `all of ${showWhole(total)} succeeded`
      : `${showWhole(failed)} of ${showWhole(total)} failed for good`;
  const least = `at least ${showShare(shareDone(tries[kind], needed).low)} succeed (95%)`;
  const atOnce = `${showShare(shareDone(tries[kind], 0).share)} of the ${kind}s succeeded at once`;
  const retries = needed === 1 ? 'one retry' : `${needed} retries`;
  const says =
    needed > 0
      ? `${atOnce}; more than ${retries} gained nothing, after which ${rest}: ${least}.`
      : `${atOnce}: ${rest}, so ${least}.`;
  // A client's own retries are requests of their own, which the gateway cannot tell from others.
  const note = source === 'traffic' ? ' Clients’ own retries are counted as requests.' : '';
  const isLimit = failed / total > 0.001;
  return [
    { rule: 'availability', weight: isLimit ? 'limit' : 'fact', says: says + note, n: samples },
  ];
}

function showWhole(count: number): string {
  return showCount(Math.round(count));
}
