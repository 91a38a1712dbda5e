// What a class promises and costs, in sentences: what one pays for what. Pure.
import { isArchiveClass } from '../../core/aws-classes.ts';
import type { ClassDefinition } from './class-definition.ts';
import type { DeclaredPlace } from './declared-place.ts';
import { type ExpectedLoss, expectLoss, shareInWords, type UnknownLoss } from './expected-loss.ts';

/** A leg as its store is declared and priced. */
export interface ShownLeg extends Omit<DeclaredPlace, 'drills' | 'recallDelayMs'> {
  store: string;
  /** The first tier, USD a GB and month in decimal; null: the store is not configured. */
  usdPerGbMonth: string | null;
}

/** Where what is in a class goes. */
export interface ShownTier {
  class: string;
  /** After so many days without a read; null: it is an archive. */
  days: number | null;
  archive: string | null;
}

export interface Explanation {
  /** The share of objects that is expected to be lost in a year; null: too little is declared. */
  expectedAnnualLoss: number | null;
  sentences: readonly string[];
}

export function explainClass(
  { durability, availability, access, restoreWithinHours, loss, minimum, tier }: ClassDefinition,
  legs: readonly ShownLeg[],
  /** Those of the class, in their order; none: it has none, or is one itself. */
  tiers: readonly ShownTier[] = [],
): Explanation {
  const expected = expectLoss(legs, durability.repairHours);
  const sentences = [
    ...copiesInWords(durability, legs),
    ...lossInWords(expected, legs, durability.repairHours),
    absenceInWords({ ...availability, access }, legs.length),
    ...archivesInWords(access, legs),
    access === 'online'
      ? 'It is read at once.'
      : `It is read after a restore, which takes up to ${restoreWithinHours} h.`,
    lastCopy[loss],
    ...(tier ? [tierInWords(tier)] : []),
    ...tiers.map(wayInWords),
    ...pricesInWords(legs, minimum),
  ];
  return { expectedAnnualLoss: 'unknown' in expected ? null : expected.annualLoss, sentences };
}

const lastCopy = {
  refuse: 'An object is never given up: what cannot be read is damaged until it is there again.',
  recipe: 'An object that is lost is made again by its recipe, which each write has to have.',
  report: 'An object that is lost is reported, and is gone.',
} as const satisfies Record<ClassDefinition['loss'], string>;

function tierInWords({ of, afterDays, archive }: NonNullable<ClassDefinition['tier']>): string {
  if (archive === undefined) {
    return `It is a tier of ${of}: what was not read for ${daysInWords(afterDays ?? 0)} lies here.`;
  }
  return `It is a tier of ${of}: what buckets archive as ${archive} lies here.`;
}

function wayInWords({ class: to, days, archive }: ShownTier): string {
  return archive === null
    ? `What was not read for ${daysInWords(days ?? 0)} moves to its tier ${to}.`
    : `What buckets archive as ${archive} moves to its tier ${to}.`;
}

function copiesInWords(
  { ack }: ClassDefinition['durability'],
  legs: readonly ShownLeg[],
): string[] {
  const places = legs.map(({ store, domains, kind }) => {
    const where = domains.length === 0 ? '' : ` (${domains.join(', ')})`;
    return `${store}${where}${kind === 'archive' ? ', an archive' : ''}`;
  });
  if (legs.length === 1) return [`One copy, in ${places[0]}.`];
  const when =
    ack === legs.length
      ? 'A write is acknowledged when all are durable.'
      : `A write is acknowledged when ${ack} of ${legs.length} ${ack === 1 ? 'is' : 'are'} ` +
        'durable; the rest follows.';
  return [`${legs.length} copies: ${places.join('; ')}.`, when];
}

function lossInWords(
  expected: ExpectedLoss | UnknownLoss,
  legs: readonly ShownLeg[],
  repairHours: number,
): string[] {
  if ('unknown' in expected) {
    const what = expected.unknown === 'domains' ? 'failure domains' : 'annual loss';
    const { store } = legs[expected.index] as ShownLeg;
    return [`The expected loss cannot be said: ${store} declares no ${what}.`];
  }
  const { annualLoss, groups } = expected;
  const declared = legs.map((leg) => `${leg.store} loses ${shareInWords(leg.annualLoss ?? 1)}`);
  const repair = groups.length > 1 ? ` and repair takes ${hoursInWords(repairHours)}` : '';
  const given = ` a year if ${declared.join(', ')} a year${repair}`;
  const amount = annualLoss <= 0 ? 'none' : `${shareInWords(annualLoss)} objects`;
  return [
    `Expected loss: ${amount}${given}, as declared, not as measured.`,
    ...groups.filter(({ length }) => length > 1).map((group) => sharedInWords(group, legs)),
  ];
}

function sharedInWords(group: readonly number[], legs: readonly ShownLeg[]): string {
  const members = group.map((index) => legs[index] as ShownLeg);
  const names = members.map(({ store }) => store).join(' and ');
  const all = members.flatMap(({ domains }) => domains);
  const shared = [...new Set(all.filter((one, i) => all.indexOf(one) !== i))];
  return `${names} share ${shared.join(' and ')}, so they count as one copy.`;
}

function absenceInWords(
  {
    answer,
    maxOfflineHoursPerMonth: hours,
    access,
  }: ClassDefinition['availability'] & Pick<ClassDefinition, 'access'>,
  copies: number,
): string {
  const who =
    copies === 1
      ? ''
      : answer === 'any' && access === 'online'
        ? ' The fastest copy answers.'
        : ' The first copy answers, and another where it fails.';
  if (hours === 0) return `It is not to be unavailable.${who}`;
  return `It may be unavailable ${hoursInWords(hours)} a month.${who}`;
}

/** Which part archives of S3 have in a class of several copies. */
function archivesInWords(access: ClassDefinition['access'], legs: readonly ShownLeg[]): string[] {
  const archives = legs.filter(({ storageClass }) => isArchiveClass(storageClass));
  if (legs.length === 1 || archives.length === 0) return [];
  const names = archives.map(({ store }) => store).join(' and ');
  const repair =
    'A copy that is lost is made again of it once it is restored, at the expense of the operator.';
  return access === 'online'
    ? [`No request is answered from ${names}. ${repair}`]
    : [`A restore asks one of ${names} for an object, and another where that has lost it.`];
}

function pricesInWords(legs: readonly ShownLeg[], minimum: ClassDefinition['minimum']): string[] {
  const prices = legs.map(({ store, usdPerGbMonth, storageClass }) => {
    const as = storageClass === null ? '' : ` as ${storageClass}`;
    const price = usdPerGbMonth === null ? 'has no price now' : `costs $${usdPerGbMonth}`;
    return `${store}${as} ${price}`;
  });
  const sentences = [`A GB and month: ${prices.join('; ')}.`];
  const { days, bytes } = minimum;
  if (days > 0) sentences.push(`An object is charged for ${days} days at least.`);
  if (bytes > 0) sentences.push(`An object is charged as ${bytes} bytes at least.`);
  return sentences;
}

const daysInWords = (days: number): string => hoursInWords(24 * days);

/** `a day`, `7 days`, `12 h`. */
function hoursInWords(hours: number): string {
  if (hours === 24) return 'a day';
  return hours % 24 === 0 ? `${hours / 24} days` : `${hours} h`;
}
