// How long it is worth to wait, learned from what became of versions: beside the rule, each of some
// shares of the usual patience is followed as if it were the rule's, and on each day the rule has
// the one that has cost least until the day before. Pure. Invariants: what a day decides is known
// before that day; memory goes by days, not by versions; and until there were enough versions the
// usual patience holds, of which the worst case is known.
import type { ColdTerms } from './cold-rule.ts';
import { type CostListener, type PatienceByDay, replay, type VersionHistory } from './replay.ts';

/** Shares of the time after which rent and price are equal. */
const shares = [1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 1, 3 / 2, 2] as const;
export const usualPatience = 1;
/** Fewer versions say nothing. */
const versionsMin = 100;
/** By how much of the cost another share has to be better than the usual one. */
const gainMin = 0.002;

/** Gives for which days which patience holds. `histories` is gone through once for each share. */
export function learnPatience(
  terms: ColdTerms,
  histories: readonly VersionHistory[],
): PatienceByDay {
  const days = spanOf(histories);
  if (!days) return [{ fromDay: 0, patience: usualPatience }];
  const born = new Float64Array(days.count);
  for (const { bornDay } of histories) add(born, Math.floor(bornDay) - days.first, 1);
  const costs = shares.map((patience) => {
    const ledger = new DailyCosts(days.first, days.count);
    const always = [{ fromDay: days.first, patience }];
    for (const history of histories) replay(terms, history, always, ledger);
    return ledger.sumsByDay();
  });
  const found: { fromDay: number; patience: number }[] = [];
  let versions = 0;
  for (let i = 0; i < days.count; i++) {
    const patience = versions < versionsMin ? usualPatience : bestOn(costs, i - 1);
    if (found.at(-1)?.patience !== patience) found.push({ fromDay: days.first + i, patience });
    versions += born[i] ?? 0;
  }
  return found;
}

function bestOn(costs: readonly Float64Array[], day: number): number {
  const at = (i: number): number => costs[i]?.[day] ?? 0;
  const usual = shares.indexOf(usualPatience);
  let best = usual;
  for (let i = 0; i < shares.length; i++) {
    if (at(i) < at(best) && at(i) < at(usual) * (1 - gainMin)) best = i;
  }
  return shares[best] ?? usualPatience;
}

function spanOf(histories: readonly VersionHistory[]): { first: number; count: number } | null {
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (const { bornDay, endDay } of histories) {
    first = Math.min(first, Math.floor(bornDay));
    last = Math.max(last, Math.ceil(endDay));
  }
  return first > last ? null : { first, count: last - first + 1 };
}

/** What is paid is added up by day; what is stored by the days when it begins and ends. */
class DailyCosts implements CostListener {
  readonly #first: number;
  readonly #paid: Float64Array;
  readonly #rates: Float64Array;

  constructor(first: number, count: number) {
    this.#first = first;
    this.#paid = new Float64Array(count);
    this.#rates = new Float64Array(count);
  }

  stored(fromDay: number, toDay: number, perDay: number): void {
    add(this.#rates, Math.floor(fromDay) - this.#first, perDay);
    add(this.#rates, Math.floor(toDay) - this.#first, -perDay);
  }

  paid(day: number, _: unknown, usd: number): void {
    add(this.#paid, Math.floor(day) - this.#first, usd);
  }

  /** What was paid until the end of each day. */
  sumsByDay(): Float64Array {
    let [rate, sum] = [0, 0];
    return this.#paid.map((paid, i) => {
      rate += this.#rates[i] ?? 0;
      sum += rate + paid;
      return sum;
    });
  }
}

function add(to: Float64Array, at: number, amount: number): void {
  to[at] = (to[at] ?? 0) + amount;
}
