// When versions move along a chain of classes: the rule, what it would have cost, and what would
// have cost least.
import { describe, expect, it } from 'vitest';
import {
  type ColdTerms,
  type DayOfReads,
  horizonDaysUsual,
  idleDaysUntil,
  movedTo,
  newStanding,
  placeOn,
  readOn,
  smallestBytesUsual,
} from '../../../src/tiering/policy/cold-rule.ts';
import { learnPatience, usualPatience } from '../../../src/tiering/policy/patience.ts';
import {
  leastInHindsight,
  type PatienceByDay,
  replay,
  type VersionHistory,
} from '../../../src/tiering/policy/replay.ts';
import type { Chain, Tier } from '../../../src/tiering/policy/tiers.ts';
import { fuzz, randomBelow, seededRandom } from '../../fuzz/seeded-random.ts';
import { leastOnline } from './best-online.ts';
import { dzeroTrace, readsByDay } from './dzero-trace.ts';

const daysPerMonth = 365.25 / 12;
const GiB = 2 ** 30;

/** Prices of S3 (us-east-1, 2026). */
const standard = tier('STANDARD', { month: 0.023, read: 0, get: 4e-7, put: 5e-6 });
const infrequent = {
  ...tier('STANDARD_IA', { month: 0.0125, read: 0.01, get: 1e-6, put: 1e-5 }),
  ...{ minimumDays: 30, minimumBytes: 131_072 },
};
const instant = {
  ...tier('GLACIER_IR', { month: 0.004, read: 0.03, get: 1e-5, put: 2e-5 }),
  ...{ minimumDays: 90, minimumBytes: 131_072 },
};

interface Prices {
  month: number;
  read: number;
  get: number;
  put: number;
}

function tier(name: string, { month, read, get, put }: Prices): Tier {
  const storage = { perGbDay: month / daysPerMonth, minimumDays: 0, minimumBytes: 0 };
  return { name, ...storage, perGbRead: read, perRead: get, perMove: put };
}

function termsOf(...chain: Chain): ColdTerms {
  return { chain, smallestBytes: smallestBytesUsual, horizonDays: horizonDaysUsual };
}

const always = (patience: number): PatienceByDay => [{ fromDay: -1e9, patience }];

function costOf(terms: ColdTerms, histories: readonly VersionHistory[], patience: PatienceByDay) {
  const cost = { usd: 0, down: 0, back: 0 };
  for (const history of histories) {
    replay(terms, history, patience, {
      stored: (from, to, perDay) => {
        cost.usd += (to - from) * perDay;
      },
      paid: (_day, _what, usd) => {
        cost.usd += usd;
      },
      moved: (_day, to) => {
        if (to === 0) cost.back += 1;
        else cost.down += 1;
      },
    });
  }
  return cost;
}

const bestOf = (chain: Chain, histories: readonly VersionHistory[]): number =>
  histories.reduce((sum, history) => sum + leastInHindsight(chain, history), 0);

describe('the lifetimes of DZero', () => {
  it.each([1, 2, 3, 4])(
    'cost at most a tenth more than the best in hindsight (seed %i)',
    (seed) => {
      const terms = termsOf(standard, infrequent);
      const trace = dzeroTrace(seededRandom(seed), 2000);
      const best = bestOf(terms.chain, trace);
      expect(bestOf([standard], trace) / best).toBeGreaterThan(1.4);
      expect(costOf(terms, trace, learnPatience(terms, trace)).usd / best).toBeLessThan(1.1);
    },
  );

  it('cost less than half as much with a class that is read at a price', () => {
    const terms = termsOf(standard, instant);
    const trace = dzeroTrace(seededRandom(7), 2000);
    const { usd } = costOf(terms, trace, learnPatience(terms, trace));
    expect(usd / bestOf([standard], trace)).toBeLessThan(0.5);
    // Six times cheaper storage is known to be right a month too late.
    expect(usd / bestOf(terms.chain, trace)).toBeLessThan(1.4);
  });

  // The share of the best in hindsight that it costs at least not to know what is to come.
  it.runIf(process.env.BURSAR_FULL === '1').each([
    ['STANDARD_IA', infrequent, 1.08],
    ['ONEZONE_IA', { ...infrequent, perGbDay: 0.01 / daysPerMonth }, 1.11],
    ['GLACIER_IR', instant, 1.24],
  ] as const)('cost with %s hardly more than who knows their law pays', (_, cold, least) => {
    const terms = termsOf(standard, cold);
    const trace = dzeroTrace(seededRandom(3), 6000);
    const sizeBytes = trace.reduce((sum, one) => sum + one.sizeBytes, 0);
    const ofLaw = leastOnline([standard, cold], sizeBytes / trace.length) * (sizeBytes / GiB);
    expect(ofLaw / bestOf(terms.chain, trace)).toBeGreaterThan(least);
    const { usd } = costOf(terms, trace, learnPatience(terms, trace));
    console.log(`${cold.name}: ${ofLaw / bestOf(terms.chain, trace)}, ${usd / ofLaw}`);
    expect(usd / ofLaw).toBeLessThan(1.04);
  });

  it('cost little more with a class between that and the first', () => {
    const terms = termsOf(standard, infrequent, instant);
    const trace = dzeroTrace(seededRandom(7), 2000);
    const { usd } = costOf(terms, trace, learnPatience(terms, trace));
    expect(usd / bestOf(terms.chain, trace)).toBeLessThan(1.35);
  });

  it('are the lifetimes of the study', () => {
    const trace = dzeroTrace(seededRandom(5), 20_000).filter(({ bornDay }) => bornDay < 400);
    const used = trace.map(({ bornDay, reads }) => (reads.at(-1)?.day ?? 0) - Math.floor(bornDay));
    const shareOf = (fits: (days: number) => boolean) => used.filter(fits).length / used.length;
    expect(shareOf((days) => days <= 1)).toBeCloseTo(0.3, 1);
    expect(shareOf((days) => days <= 7)).toBeCloseTo(0.4, 1);
    expect(shareOf((days) => days <= 30)).toBeCloseTo(0.5, 1);
    expect(shareOf((days) => days > 152)).toBeCloseTo(0.35, 1);
  });
});

describe('a scan of everything', () => {
  it('brings nothing back, and neither does one that reads each byte often on one day', () => {
    const terms = termsOf(standard, infrequent, instant);
    const random = seededRandom(11);
    const cold = Array.from({ length: 500 }, (): VersionHistory => {
      const sizeBytes = Math.round(random() * GiB);
      const times = Array.from({ length: 1 + randomBelow(random, 50) }, () => 600.5);
      const reads = readsByDay(times, sizeBytes);
      return { sizeBytes, bornDay: random() * 100, endDay: 700, isEnded: false, reads };
    });
    const cost = costOf(terms, cold, always(usualPatience));
    expect(cost.back).toBe(0);
    expect(cost.down).toBeGreaterThan(500);
  });

  it('brings nothing back where it comes every season', () => {
    const terms = termsOf(standard, infrequent);
    const reads = readsByDay([200, 290, 380, 470], GiB);
    const history = { sizeBytes: GiB, bornDay: 0, endDay: 500, isEnded: false, reads };
    expect(costOf(terms, [history], always(1)).back).toBe(0);
  });
});

describe('what is used again', () => {
  it('comes back, and is waited for as long as ever from then on', () => {
    const terms = termsOf(standard, infrequent);
    const hurried = 1 / 16;
    let standing = newStanding(GiB, 0);
    const to = placeOn(terms, standing, { day: 10, patience: hurried });
    expect(to).toBe(1);
    standing = movedTo(standing, to, 10);
    for (let day = 60; day < 70; day++) standing = readOn(terms, standing, whole(day, GiB));
    expect(standing).toMatchObject({ tier: 0, usedDay: 69, hasReturned: true });
    expect(placeOn(terms, standing, { day: 80, patience: hurried })).toBe(0);
    const usual = idleDaysUntil(terms, { ...standing, hasReturned: false }, 1, usualPatience);
    expect(idleDaysUntil(terms, standing, 1, hurried)).toBe(usual);
  });
});

describe('what a move does not earn', () => {
  it.each([
    ['is too small for any', termsOf(standard, infrequent), 131_071],
    [
      'is charged for more than it is',
      termsOf(standard, { ...infrequent, minimumBytes: GiB }),
      2e6,
    ],
    ['is no cheaper there', termsOf(infrequent, standard), GiB],
    ['costs as much there', termsOf(standard, standard), GiB],
    ['costs too much to move', termsOf(standard, { ...infrequent, perMove: 0.2 }), GiB],
    ['stays too long there', termsOf(standard, { ...infrequent, minimumDays: 400 }), GiB],
  ])('never moves: it %s', (_, terms, sizeBytes) => {
    for (const patience of [1 / 16, 1, 2]) {
      expect(idleDaysUntil(terms, newStanding(sizeBytes, 0), 1, patience)).toBeNull();
      const day = 1_000_000;
      expect(placeOn(terms, newStanding(sizeBytes, 0), { day, patience })).toBe(0);
    }
  });

  it('waits until what is saved has come to the price of the move, however impatient', () => {
    const terms = termsOf(standard, infrequent);
    const small = newStanding(200_000, 0);
    const idle = idleDaysUntil(terms, small, 1, 0) ?? 0;
    const billed = 200_000 / GiB;
    const savedADay = billed * (standard.perGbDay - infrequent.perGbDay);
    expect(idle).toBe(Math.ceil(infrequent.perMove / savedADay));
  });
});

describe('a rule, whatever the trace', () => {
  it('decides day by day as it does all at once, and never below what is best', async () => {
    await fuzz(100, 60, (random) => {
      const terms = randomTerms(random);
      const history = randomHistory(random);
      const patience = always([1 / 16, 1 / 2, 1, 2][randomBelow(random, 4)] as number);
      const end = replay(terms, history, patience, { stored: () => {}, paid: () => {} });
      expect(dayByDay(terms, history, patience[0]?.patience ?? 1)).toEqual(end);
      const { usd } = costOf(terms, [history], patience);
      expect(usd).toBeGreaterThanOrEqual(leastInHindsight(terms.chain, history) * (1 - 1e-9));
    });
  });

  it('stores each moment once, with nothing owed twice', async () => {
    await fuzz(500, 60, (random) => {
      const history = randomHistory(random);
      let at = history.bornDay;
      replay(randomTerms(random), history, always(random() * 2), {
        stored: (from, to) => {
          expect(from).toBe(at);
          expect(to).toBeGreaterThanOrEqual(from);
          at = to;
        },
        paid: (day, _, usd) => {
          expect(usd).toBeGreaterThanOrEqual(0);
          expect(day).toBeGreaterThanOrEqual(Math.floor(history.bornDay));
        },
      });
      expect(at).toBe(history.endDay);
    });
  });

  it('knows on a day nothing of what comes after it', () => {
    const terms = termsOf(standard, infrequent);
    const trace = dzeroTrace(seededRandom(21), 1000);
    const until = 300;
    const known = trace
      .filter(({ bornDay }) => bornDay < until)
      .map((one) => ({
        ...one,
        endDay: until,
        reads: one.reads.filter(({ day }) => day < until),
      }));
    const [all, some] = [trace, known].map((of) => learnPatience(terms, of));
    const firstDays = (of: PatienceByDay = []) => of.filter(({ fromDay }) => fromDay < until);
    expect(firstDays(some).length).toBeGreaterThan(1);
    expect(firstDays(all)).toEqual(firstDays(some));
  });

  it('has the usual patience with few versions, and with none', () => {
    const terms = termsOf(standard, infrequent);
    expect(learnPatience(terms, [])).toMatchObject([{ patience: usualPatience }]);
    const few = dzeroTrace(seededRandom(3), 99);
    expect(learnPatience(terms, few)).toMatchObject([{ patience: usualPatience }]);
  });
});

function whole(day: number, sizeBytes: number): DayOfReads {
  return { day, reads: 1, bytes: sizeBytes };
}

function randomTerms(random: () => number): ColdTerms {
  const chains = [
    termsOf(standard, infrequent),
    termsOf(standard, instant),
    termsOf(standard, infrequent, instant),
  ];
  return chains[randomBelow(random, chains.length)] as ColdTerms;
}

function randomHistory(random: () => number): VersionHistory {
  const bornDay = random() * 20;
  const endDay = bornDay + random() * 700;
  const sizeBytes = Math.floor(random() * 2 ** (10 + randomBelow(random, 24)));
  const spread = random() ** 3;
  const times = Array.from({ length: randomBelow(random, 30) }, () => {
    return bornDay + random() * spread * (endDay - bornDay);
  }).sort((a, b) => a - b);
  const reads = readsByDay(times, sizeBytes);
  return { sizeBytes, bornDay, endDay, isEnded: random() < 0.5, reads };
}

/** What whoever walks through a bucket once a day does, and sees of a version. */
function dayByDay(terms: ColdTerms, history: VersionHistory, patience: number) {
  const { sizeBytes, bornDay, endDay, reads } = history;
  const byDay = new Map(reads.map((one) => [one.day, one]));
  let standing = newStanding(sizeBytes, bornDay);
  for (let day = Math.floor(bornDay); day < endDay; day++) {
    const to = placeOn(terms, standing, { day, patience });
    if (to !== standing.tier && day >= bornDay) standing = movedTo(standing, to, day);
    const read = byDay.get(day);
    if (!read) continue;
    const { tier, enteredDay } = standing;
    standing = readOn(terms, standing, read);
    if (standing.tier !== tier) {
      standing = { ...standing, enteredDay: Math.max(day, enteredDay) };
    }
  }
  return standing;
}
