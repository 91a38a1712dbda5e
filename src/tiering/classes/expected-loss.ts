// How much of a class is expected to be lost in a year, from what is declared of its stores. Pure.
// The model is that of mirrored disks (Patterson, Gibson, Katz, "A Case for Redundant Arrays of
// Inexpensive Disks", 1988): copies fail independently of each other, at constant rates; a failed
// one is there again after the time of repair; an object is lost when all copies have failed.
import type { DeclaredPlace } from './declared-place.ts';

const hoursPerYear = 8766;

export interface ExpectedLoss {
  /** The share of objects that is expected to be lost in a year, 0 to 1. */
  annualLoss: number;
  /**
   * Places, by their indexes, that count as one copy: they share a domain, so what takes it takes
   * them together.
   */
  groups: readonly (readonly number[])[];
}

/** Why nothing can be said. `index`: of the place of which too little is declared. */
export interface UnknownLoss {
  unknown: 'annualLoss' | 'domains';
  index: number;
}

/**
 * What copies in these places lose a year when a lost copy is there again after `repairHours`. n
 * independent copies that fail at the rates λ and are repaired in the time T are all lost at the
 * rate n · λ₁ · … · λₙ · Tⁿ⁻¹. Of places that share a domain only the best counts.
 */
export function expectLoss(
  places: readonly Pick<DeclaredPlace, 'domains' | 'annualLoss'>[],
  repairHours: number,
): ExpectedLoss | UnknownLoss {
  const silent = places.findIndex(({ annualLoss }) => annualLoss === null);
  if (silent >= 0) return { unknown: 'annualLoss', index: silent };
  const nowhere = places.findIndex(({ domains }) => domains.length === 0);
  if (places.length > 1 && nowhere >= 0) return { unknown: 'domains', index: nowhere };
  const groups = groupByDomain(places.map(({ domains }) => domains));
  const rates = groups.map((group) => {
    const best = Math.min(...group.map((index) => places[index]?.annualLoss ?? 1));
    return -Math.log1p(-best);
  });
  // A place that loses all within a year for sure adds nothing to the others.
  const finite = rates.filter((rate) => Number.isFinite(rate));
  if (finite.length === 0) return { annualLoss: 1, groups };
  const repairYears = repairHours / hoursPerYear;
  const product = finite.reduce((all, rate) => all * rate, 1);
  const lossRate = finite.length * product * repairYears ** (finite.length - 1);
  return { annualLoss: -Math.expm1(-lossRate), groups };
}

/** Sets of indexes whose domains overlap, also by way of others, in order of their first. */
function groupByDomain(domainsOf: readonly (readonly string[])[]): number[][] {
  const groups: { members: number[]; domains: Set<string> }[] = [];
  domainsOf.forEach((domains, index) => {
    const joined = { members: [index], domains: new Set(domains) };
    for (let i = groups.length - 1; i >= 0; i--) {
      const group = groups[i] as (typeof groups)[number];
      if (!domains.some((domain) => group.domains.has(domain))) continue;
      joined.members.unshift(...group.members);
      for (const domain of group.domains) joined.domains.add(domain);
      groups.splice(i, 1);
    }
    groups.push(joined);
  });
  return groups
    .map(({ members }) => members.sort((a, b) => a - b))
    .sort((a, b) => (a[0] as number) - (b[0] as number));
}

const digits = '⁰¹²³⁴⁵⁶⁷⁸⁹';

/** A share in words: `1 in 1,000`, `1 in 1.8 × 10⁸`; `none` for 0. */
export function shareInWords(share: number): string {
  if (share <= 0) return 'none';
  const one = 1 / share;
  if (one < 1_000_000) {
    const rounded = one < 10 ? Math.round(one * 10) / 10 : Math.round(one);
    return `1 in ${rounded.toLocaleString('en-US')}`;
  }
  const [mantissa = '', exponent = ''] = one.toExponential(1).split('e+');
  const power = [...exponent].map((digit) => digits[Number(digit)]).join('');
  return `1 in ${mantissa === '1.0' ? '' : `${mantissa.replace(/\.0$/, '')} × `}10${power}`;
}
