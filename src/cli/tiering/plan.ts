// What moving by use would have done with versions that are known, and what it would have cost,
// beside what staying costs, and the best in hindsight. Pure.
import { type ColdTerms, idleDaysUntil, newStanding } from '../../tiering/policy/cold-rule.ts';
import { learnPatience } from '../../tiering/policy/patience.ts';
import {
  type CostListener,
  leastInHindsight,
  type PatienceByDay,
  replay,
  type VersionHistory,
} from '../../tiering/policy/replay.ts';

/** USD. */
export interface PlanCost {
  storage: number;
  reads: number;
  moves: number;
  minimum: number;
  total: number;
}

export interface PlannedTier {
  name: string;
  /** What would be in it now. */
  versions: number;
  bytes: number;
  /** How long a version of 1 GiB is unused until it comes here from the first; null: never. */
  idleDays: number | null;
}

export interface Plan {
  staying: PlanCost;
  byUse: PlanCost;
  best: number;
  movesDown: number;
  movesBack: number;
  /** The last that was learned: a share of the usual time. */
  patience: number;
  tiers: PlannedTier[];
}

const shownBytes = 2 ** 30;

export function planOf(terms: ColdTerms, histories: readonly VersionHistory[]): Plan {
  const { chain } = terms;
  const patience = learnPatience(terms, histories);
  const learned = patience.at(-1)?.patience ?? 1;
  const tiers = chain.map(({ name }, to) => {
    const idleDays = to === 0 ? 0 : idleDaysUntil(terms, newStanding(shownBytes, 0), to, learned);
    return { name, versions: 0, bytes: 0, idleDays };
  });
  const byUse = new Sum();
  const staying = new Sum();
  let best = 0;
  for (const history of histories) {
    const { tier } = replay(terms, history, patience, byUse);
    replay({ ...terms, chain: [chain[0]] }, history, atOnce, staying);
    best += leastInHindsight(chain, history);
    const place = history.isEnded ? undefined : tiers[tier];
    if (!place) continue;
    place.versions += 1;
    place.bytes += history.sizeBytes;
  }
  const { down: movesDown, back: movesBack } = byUse;
  const costs = { staying: staying.cost, byUse: byUse.cost, best };
  return { ...costs, movesDown, movesBack, patience: learned, tiers };
}

const atOnce: PatienceByDay = [{ fromDay: Number.NEGATIVE_INFINITY, patience: 1 }];

class Sum implements CostListener {
  readonly #cost = { storage: 0, reads: 0, moves: 0, minimum: 0 };
  down = 0;
  back = 0;

  get cost(): PlanCost {
    const { storage, reads, moves, minimum } = this.#cost;
    return { ...this.#cost, total: storage + reads + moves + minimum };
  }

  stored(fromDay: number, toDay: number, perDay: number): void {
    this.#cost.storage += (toDay - fromDay) * perDay;
  }

  paid(_day: number, what: 'reads' | 'moves' | 'minimum', usd: number): void {
    this.#cost[what] += usd;
  }

  moved(_day: number, to: number): void {
    if (to === 0) this.back += 1;
    else this.down += 1;
  }
}
