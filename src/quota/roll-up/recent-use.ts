// What the newest records charged, as it was known when they were appended: whoever adds them up
// need not read it out of their texts. Invariant: a run of records follows each other in the log
// without gaps, and what it has is what their texts say.
import { type LimitedUse, type Part, partsOfUse, type Use } from './charged-record.ts';

/** Records of a run: what is added up at once, in a millisecond or two of the ledger's thread. */
export const runMax = 200;
/** Runs kept, of at most some 100 KB each. What is older is read out of the records. */
const runsMax = 500;

/** What several charged. */
interface Sum extends Use {
  limited: { -readonly [M in keyof LimitedUse]: LimitedUse[M] }[] | undefined;
}

class Run {
  readonly from: number;
  count = 0;
  readonly #uses: Sum[] = [];

  constructor(from: number) {
    this.from = from;
  }

  get end(): number {
    return this.from + this.count;
  }

  add(use: Use): void {
    // Most runs have a few; to make a name of so many parts costs more than to compare them.
    for (const sum of this.#uses) {
      if (!isAlike(sum, use)) continue;
      if (sum.limited && use.limited) addLimited(sum.limited, use.limited);
      sum.requests += use.requests;
      sum.ingressBytes += use.ingressBytes;
      sum.egressBytes += use.egressBytes;
      sum.storedBytes += use.storedBytes;
      sum.storedObjects += use.storedObjects;
      sum.spend += use.spend;
      sum.storageCost += use.storageCost;
      return;
    }
    this.#uses.push(ownSum(use));
  }

  parts(): Part[] {
    return this.#uses.flatMap(partsOfUse);
  }
}

/** Returns whether two have the same parties, and are of the same kind. */
function isAlike(one: Use, other: Use): boolean {
  return (
    isChargedAlike(one.limited, other.limited) &&
    one.principal === other.principal &&
    one.bucket === other.bucket &&
    one.action === other.action &&
    one.class === other.class &&
    one.tenant === other.tenant &&
    one.bucketTenant === other.bucketTenant &&
    one.bucketOwner === other.bucketOwner &&
    one.payer === other.payer &&
    one.day === other.day
  );
}

/** Returns whether both name the same prefixes and writers, and charge them alike. */
function isChargedAlike(one: Use['limited'], other: Use['limited']): boolean {
  if (one === other) return true;
  if (!one || !other || one.length !== other.length) return false;
  for (let i = 0; i < one.length; i++) {
    const [a, b] = [one[i] as LimitedUse, other[i] as LimitedUse];
    if (a.account !== b.account || a.charged !== b.charged) return false;
  }
  return true;
}

/** Others may have what a use says of prefixes and writers, too. */
function ownSum(use: Use): Sum {
  return { ...use, limited: use.limited?.map((one) => ({ ...one })) };
}

/** Both name the same ones. */
function addLimited(sums: NonNullable<Sum['limited']>, more: readonly LimitedUse[]): void {
  for (let i = 0; i < sums.length; i++) {
    const sum = sums[i] as (typeof sums)[number];
    const { storedBytes, storedObjects } = more[i] as LimitedUse;
    sum.storedBytes += storedBytes;
    sum.storedObjects += storedObjects;
  }
}

export type UseRun = Pick<Run, 'count' | 'parts'>;

export class RecentUse {
  #runs: Run[] = [];

  /** Record `index` was appended. `use`: its own; null: nobody was charged. It names no tokens. */
  note(index: number, use: Use | null): void {
    let run = this.#runs.at(-1);
    if (run?.end !== index || run.count === runMax) {
      run = new Run(index);
      this.#runs.push(run);
      if (this.#runs.length > runsMax) this.#runs.shift();
    }
    run.count += 1;
    if (use) run.add(use);
  }

  /** Gives up the run that begins with record `index`; undefined: there is none. */
  take(index: number): UseRun | undefined {
    while (this.#runs[0] && this.#runs[0].from < index) this.#runs.shift();
    return this.#runs[0]?.from === index ? this.#runs.shift() : undefined;
  }

  /** After a rollback: what was noted may not have been recorded. */
  discard(): void {
    this.#runs = [];
  }
}
