// What limits an installation, in words, by the rules of docs/admin/report.md. Invariants: a
// sentence says no more than its samples carry, and names how many they are; where they are too
// few, it says only that.
import type { Stage } from '../stage-clock.ts';
import { type Chapter, type Kind, kinds, shareDone, type Transfers } from './chapter.ts';
import { countSteps, surgeLines } from './load-figures.ts';
import {
  showBandwidth,
  showCount,
  showDuration,
  showNumber,
  showShare,
  showUsd,
} from './numbers.ts';
import { showSize } from './sizes.ts';
import { type Interval, meanError } from './statistics.ts';
import type { Values } from './values.ts';

const order = { limit: 0, fact: 1, caution: 2 };

/** Limits first, then what else is worth knowing, then what cannot be said. */
export function concludeFrom(chapter: Chapter): Conclusion[] {
  const found = [
    ...kinds.flatMap((kind) => stageConclusions(chapter, kind)),
    ...kinds.flatMap((kind) => storeConclusions(chapter, kind)),
    ...kinds.flatMap((kind) => sizeConclusions(chapter, kind)),
    ...threadConclusions(chapter),
    ...partConclusions(chapter),
    ...tailConclusions(chapter),
    ...kinds.flatMap((kind) => hourConclusions(chapter, kind)),
    ...kinds.flatMap((kind) => pairConclusions(chapter, kind)),
    ...kinds.flatMap((kind) => availabilityConclusions(chapter, kind)),
    ...costConclusions(chapter),
  ];
  // What was spent is known of any number.
  if (found.every(({ weight, rule }) => weight === 'caution' || rule === 'cost')) {
    const says = `Too few samples to say what limits it: ${showCount(chapter.count)} in all.`;
    found.unshift({ rule: 'too-few', weight: 'caution', says, n: chapter.count });
  }
  return found.sort((a, b) => order[a.weight] - order[b.weight]);
}

const dominant = 0.4;

/** What requests are bound by that spend most of their time in a stage. */
const causes: Record<Stage, string> = {
  parse: 'by reading the request, which is work of the gateway’s processor',
  authenticate: 'by the check of who asks: the processor, or the keys of outside issuers',
  decide: 'by the decision who may, which is work of the gateway’s processor',
  reserve: 'by setting amounts aside: accounts near their limits, or with a rate, wait',
  store: 'by the store, and what is read of the catalog: its disk, its processor or the line to it',
  firstByte: 'by what comes before the answer’s first byte',
  stream: 'by the client’s side: its line, or how fast it takes and sends',
  commit: 'by the commit to the log, whose fsync makes it durable: by the disk of the data folder',
};

/** The stage in which most of the time of the smallest and of the largest requests goes. */
function stageConclusions(chapter: Chapter, kind: Kind): Conclusion[] {
  const measured = chapter.transfers[kind]
    .map((transfers, band) => ({ transfers, band }))
    .filter(({ transfers }) => (transfers.stagesMs.get('parse')?.count ?? 0) >= enough);
  const ends = [...new Set([measured[0], measured.at(-1)])];
  return ends.flatMap((one): Conclusion[] => {
    if (!one) return [];
    const means = [...one.transfers.stagesMs].map(([stage, times]) => ({ stage, times }));
    const totalMs = means.reduce((sum, { times }) => sum + times.mean, 0);
    const most = means.toSorted((a, b) => b.times.mean - a.times.mean)[0];
    if (!most || totalMs === 0) return [];
    const share = most.times.mean / totalMs;
    const who = `${kind === 'read' ? 'Reads' : 'Writes'} of ${chapter.nameSize(kind, one.band)}`;
    const spent = `${showDuration(most.times.mean)} of ${showDuration(totalMs)}`;
    const mean = `${spent} are spent in the stage ${most.stage} on average`;
    const n = most.times.count;
    if (share < dominant) {
      const says = `${who} are bound by no single stage; the longest is ${most.stage}: ${mean}.`;
      return [{ rule: 'stage', weight: 'fact', says, n }];
    }
    const p95 = showDuration(most.times.quantile(0.95));
    const rest = `${mean}, and one in twenty waits ${p95} or more there`;
    const says = `${who} are bound ${causes[most.stage]}: ${rest}.`;
    return [{ rule: 'stage', weight: 'limit', says, n }];
  });
}

/** How long the store lets requests wait, of the size that clients ask for most. */
function storeConclusions(chapter: Chapter, kind: Kind): Conclusion[] {
  const waits = chapter.transfers[kind].map(({ stagesMs }, band) => ({
    band,
    ms: stagesMs.get('store'),
  }));
  const most = waits.toSorted((a, b) => (b.ms?.count ?? 0) - (a.ms?.count ?? 0))[0];
  if (!most?.ms || most.ms.count < enough) return [];
  const [half, slow] = [most.ms.quantile(0.5), most.ms.quantile(0.95)];
  if (slow < 1) return [];
  const says =
    `Of ${kind}s of ${chapter.nameSize(kind, most.band)}, half wait ${showDuration(half)} ` +
    `or less for the store, and one in twenty ${showDuration(slow)} or more.`;
  return [{ rule: 'store', weight: 'fact', says, n: most.ms.count }];
}

/** A request takes a while however small it is, and large ones are moved at a speed. */
function sizeConclusions(chapter: Chapter, kind: Kind): Conclusion[] {
  const { transfers, source } = chapter;
  const small = transfers[kind].slice(0, 2).find(hasEnough);
  // What clients move of 32 KiB to 4 MiB may be small.
  const large = transfers[kind].slice(source === 'probe' ? 2 : 3).findLast(hasEnough);
  if (!small || !large) return [];
  const waitMs = small.durationMs.quantile(0.5);
  const speed = large.bandwidth.quantile(0.5);
  const evenBytes = (waitMs / 1000) * speed;
  const names = [small, large].map((one) => chapter.nameSize(kind, transfers[kind].indexOf(one)));
  return [
    {
      rule: 'size',
      weight: 'limit',
      says:
        `A ${kind} takes ${showDuration(waitMs)} however small it is (median, ${names[0]}), and ` +
        `large ones move at ${showBandwidth(speed)} (median, ${names[1]}): below about ` +
        `${showSize(evenBytes)} a ${kind} waits longer than it moves bytes, so fewer and ` +
        'larger objects are faster there.',
      n: small.bandwidth.count + large.bandwidth.count,
    },
  ];
}

function hasEnough({ bandwidth }: Transfers): boolean {
  return bandwidth.count >= enough;
}

const enoughOfStep = 10;
/** Whole uploads take long and cost much. */
const enoughUploads = 5;

function threadConclusions(chapter: Chapter): Conclusion[] {
  return surgeLines(chapter).flatMap((line): Conclusion[] => {
    const steps = line.steps.filter(({ surge }) => surge.count >= enoughOfStep);
    const [first, last] = [steps[0], steps.at(-1)];
    if (!first || !last || last.threads === first.threads || first.all === 0) return [];
    const gain = last.all / first.all;
    const share = gain / (last.threads / first.threads);
    const objects = `${line.kind}s of ${chapter.nameSize(line.kind, line.band, 'surge')}`;
    const few = first.threads === 1 ? 'one' : first.threads;
    const times =
      `${last.threads} threads together got ${gain.toFixed(1)} times what ${few} got ` +
      `(${showBandwidth(last.all)})`;
    const n = countSteps({ ...line, steps });
    if (share >= 0.7) {
      const soSeveral = 'so several at a time are faster';
      const says = `One stream is what limits ${objects}: ${times}, ${soSeveral}.`;
      return [{ rule: 'threads', weight: 'limit', says, n }];
    }
    if (gain < 1.3) {
      const says =
        `What all streams share (the line, the processor or the store) limits ${objects}: ` +
        `${times}, so more of them gain little or nothing.`;
      return [{ rule: 'threads', weight: 'limit', says, n }];
    }
    const gained = `gain something for ${objects}, though not in proportion`;
    const says = `Several streams ${gained}: ${times}.`;
    return [{ rule: 'threads', weight: 'fact', says, n }];
  });
}

function partConclusions({ parts }: Chapter): Conclusion[] {
  const groups = [...parts].filter(([, { count }]) => count >= enoughUploads);
  const one = groups.find(([at]) => at === 1)?.[1];
  const best = groups.toSorted(([, a], [, b]) => b.mean - a.mean)[0];
  if (!one || !best || groups.length < 2) return [];
  const n = groups.reduce((sum, [, { count }]) => sum + count, 0);
  const gain = best[1].mean / one.mean;
  const says =
    gain < 1.2
      ? 'Parts that are sent at the same time make uploads no faster than one after the other ' +
        `(at most ${gain.toFixed(1)} times).`
      : `Uploads are fastest with ${best[0]} parts at a time: ${gain.toFixed(1)} times one ` +
        `after the other (${showBandwidth(best[1].mean)}).`;
  return [{ rule: 'parts', weight: 'fact', says, n }];
}

/** Whether rare requests are much slower than others. */
function tailConclusions(chapter: Chapter): Conclusion[] {
  const { transfers, latencyMs } = chapter;
  return kinds.flatMap((kind): Conclusion[] => {
    const smallest = transfers[kind].slice(0, 2).findIndex(hasEnough);
    const small = transfers[kind][smallest]?.durationMs;
    const times = latencyMs[kind].count >= 100 ? latencyMs[kind] : small;
    if (!times || times.count < 100) return [];
    const [half, rare] = [times.quantile(0.5), times.quantile(0.99)];
    if (rare / half < 5) return [];
    const of = times === latencyMs[kind] ? '4,096 bytes' : chapter.nameSize(kind, smallest);
    const says =
      `One in a hundred ${kind}s of ${of} takes ${showDuration(rare)} or more, ` +
      `${showNumber(rare / half)} times the median (${showDuration(half)}).`;
    return [{ rule: 'tail', weight: 'fact', says, n: times.count }];
  });
}

/** Which operations most of the money went to. */
function costConclusions(chapter: Chapter): Conclusion[] {
  const { costs, source } = chapter;
  const parts = kinds.flatMap((kind) =>
    costs[kind].map(({ count, picodollars }, band) => {
      return {
        name: `${kind}s of ${chapter.nameSize(kind, band, 'cost')}`,
        count,
        usd: picodollars,
      };
    }),
  );
  const total = parts.reduce((sum, { usd }) => sum + usd, 0);
  const n = parts.reduce((sum, { count }) => sum + count, 0);
  const most = parts.toSorted((a, b) => b.usd - a.usd)[0];
  if (!most || total === 0) return [];
  const who = source === 'probe' ? 'the samples' : 'clients’ requests';
  const says =
    `Of ${showUsd(total)} that ${who} cost by the price book, ` +
    `${showShare(most.usd / total)} went to ${most.name}.`;
  return [{ rule: 'cost', weight: 'fact', says, n }];
}

// One sentence of the report, and what it rests on.

/** The rules of docs/admin/report.md, and what each is about. */
export const topics = {
  stage: 'Stages',
  store: 'Store',
  size: 'Size',
  threads: 'Threads',
  parts: 'Parallel parts',
  tail: 'Rare slow ones',
  hour: 'Hour of the day',
  pairs: 'Asking twice',
  availability: 'Availability',
  cost: 'Cost',
  'too-few': 'Samples',
} as const;
type Rule = keyof typeof topics;

export interface Conclusion {
  rule: Rule;
  /** `limit`: this is what makes it slow; `fact`: worth knowing; `caution`: too little is known. */
  weight: 'limit' | 'fact' | 'caution';
  says: string;
  /** Samples, or pairs of them, that it rests on. */
  n: number;
}

/** With fewer samples nothing is said about medians and means. */
const enough = 30;

// Rules on how a target behaves: by the hour, in pairs, and when it is asked again.

const enoughOfHour = 10;
const hoursWanted = 6;

/** Whether there are hours that are much slower than others, by the largest size there is. */
function hourConclusions(chapter: Chapter, kind: Kind): Conclusion[] {
  const { transfers } = chapter;
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
      `${kind === 'read' ? 'Reads' : 'Writes'} of ${chapter.nameSize(kind, band)} are slowest ` +
      `from ${slow[0]} to ${slow[0] + 1} h UTC: ${showShare(share)} of the mean bandwidth from ` +
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
function pairConclusions(chapter: Chapter, kind: Kind): Conclusion[] {
  const sizes = chapter.transfers[kind].flatMap(({ pairs }, band) => {
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
    return [{ verdict, count, text: `${chapter.nameSize(kind, band)} (${known})` }];
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
function availabilityConclusions({ tries, source }: Chapter, kind: Kind): Conclusion[] {
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
