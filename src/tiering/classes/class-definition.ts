// A storage class of one's own: durability, availability and speed, chosen apart (after Palankar et
// al., "Amazon S3 for Science Grids: a Viable Solution?", 2008, section VI). Invariant: a
// definition never changes; another one is another class, into which objects are moved.
import { isCount, isObject, parseJson } from '../../core/json.ts';

export const answerRules = ['first', 'any'] as const;
export const accessRules = ['online', 'restore'] as const;
export const lossRules = ['refuse', 'recipe', 'report'] as const;

export const legsMax = 4;
/** Hours of the longest month. */
export const offlineHoursMax = 744;
export const repairHoursMax = 8760;
export const restoreHoursMax = 168;
export const tierDaysMax = 3660;
/** What AWS calls the archives of the class that follows how objects are used. */
export const archiveTiers = ['ARCHIVE_ACCESS', 'DEEP_ARCHIVE_ACCESS'] as const;
/** The alias of classes that can have tiers. */
export const tieringAlias = 'INTELLIGENT_TIERING';
export const minimumDaysMax = 3660;
export const minimumBytesMax = 2 ** 30;

/**
 * The names that clients of S3 can say for a class. STANDARD is no alias: it is the bucket's store.
 */
export const classAliases = [
  ...(['REDUCED_REDUNDANCY', 'STANDARD_IA', 'ONEZONE_IA', 'GLACIER', 'GLACIER_IR'] as const),
  ...(['DEEP_ARCHIVE', 'EXPRESS_ONEZONE', tieringAlias] as const),
] as const;

export interface ClassDefinition {
  /** Names of AWS by which clients can ask for it; listings show the first. */
  aliases: readonly string[];
  durability: {
    /** Stores by name, each with a copy; the first answers for requests. */
    legs: readonly { store: string }[];
    /** How many legs have a write before it is acknowledged. */
    ack: number;
    /** How long it takes at most until a lost copy is there again. */
    repairHours: number;
  };
  availability: {
    /** `first`: reads ask the first leg, and others where it fails; `any`: the fastest. */
    answer: (typeof answerRules)[number];
    /** How long it may be away in a month. */
    maxOfflineHoursPerMonth: number;
  };
  access: (typeof accessRules)[number];
  /** How long a restore may take; null where access is online. */
  restoreWithinHours: number | null;
  /**
   * Of an object all of whose copies are lost. `refuse`: that may not be; `recipe`: it is made
   * again by its recipe; `report`: it is told.
   */
  loss: (typeof lossRules)[number];
  /** What an object is charged for at least. */
  minimum: { days: number; bytes: number };
  /**
   * It is a tier of another class: what was written into that lies here while it is not read;
   * absent: it is a class that is written into.
   */
  tier?: {
    of: string;
    /** After so many days without a read; absent: it is an archive, and each bucket says when. */
    afterDays?: number;
    archive?: (typeof archiveTiers)[number];
  };
}

/** Gives what does not fit, in words; null: all of it does. */
export function findMisfit(definition: ClassDefinition): string | null {
  const { aliases, durability, access, restoreWithinHours, tier } = definition;
  const stores = durability.legs.map(({ store }) => store);
  if (new Set(stores).size < stores.length) return 'Two legs are in one store.';
  if (durability.ack > stores.length) return 'More legs have to acknowledge than there are.';
  if (new Set(aliases).size < aliases.length) return 'An alias is there twice.';
  if (access === 'restore' && restoreWithinHours === null) {
    return 'Where access is by restore, restoreWithinHours says how long that may take.';
  }
  if (access === 'online' && restoreWithinHours !== null) {
    return 'Where access is online, nothing is restored within restoreWithinHours.';
  }
  if (aliases.includes(tieringAlias) && access === 'restore') {
    return `What is asked for as ${tieringAlias} is read online, and moves into archives later.`;
  }
  return tier ? findTierMisfit(tier, definition) : null;
}

function findTierMisfit(
  { afterDays, archive }: NonNullable<ClassDefinition['tier']>,
  { aliases, access }: ClassDefinition,
): string | null {
  if (aliases.length > 0) return 'A tier has no aliases: nothing is written into it.';
  if ((afterDays === undefined) === (archive === undefined)) {
    return 'A tier has either afterDays, or archive.';
  }
  if ((archive !== undefined) !== (access === 'restore')) {
    return 'A tier with afterDays is read online, and one with archive after a restore.';
  }
  return null;
}

/** The JSON of a definition, as it is stored. */
export function encodeDefinition(definition: ClassDefinition): string {
  const { aliases, durability, availability, access, restoreWithinHours } = definition;
  const { loss, minimum, tier } = definition;
  return JSON.stringify({
    aliases,
    durability: {
      legs: durability.legs.map(({ store }) => ({ store })),
      ack: durability.ack,
      repairHours: durability.repairHours,
    },
    availability: {
      answer: availability.answer,
      maxOfflineHoursPerMonth: availability.maxOfflineHoursPerMonth,
    },
    access,
    restoreWithinHours,
    loss,
    minimum: { days: minimum.days, bytes: minimum.bytes },
    ...(tier && { tier: { of: tier.of, afterDays: tier.afterDays, archive: tier.archive } }),
  });
}

/** What `encodeDefinition` has made; null: the text is no definition. */
export function decodeDefinition(text: string): ClassDefinition | null {
  const value = parseJson(text);
  return isDefinition(value) && findMisfit(value) === null ? value : null;
}

function isDefinition(value: unknown): value is ClassDefinition {
  if (!isObject(value)) return false;
  const { aliases, durability, availability, access, restoreWithinHours, loss, minimum } = value;
  return (
    isTier(value.tier) &&
    Array.isArray(aliases) &&
    aliases.every((one) => isOneOf(classAliases, one)) &&
    isObject(durability) &&
    isLegs(durability.legs) &&
    isFrom1(durability.ack, legsMax) &&
    isFrom1(durability.repairHours, repairHoursMax) &&
    isObject(availability) &&
    isOneOf(answerRules, availability.answer) &&
    isUpTo(availability.maxOfflineHoursPerMonth, offlineHoursMax) &&
    isOneOf(accessRules, access) &&
    (restoreWithinHours === null || isFrom1(restoreWithinHours, restoreHoursMax)) &&
    isOneOf(lossRules, loss) &&
    isObject(minimum) &&
    isUpTo(minimum.days, minimumDaysMax) &&
    isUpTo(minimum.bytes, minimumBytesMax)
  );
}

function isTier(value: unknown): boolean {
  if (value === undefined) return true;
  if (!isObject(value) || typeof value.of !== 'string') return false;
  const { afterDays, archive } = value;
  return (
    (afterDays === undefined || isFrom1(afterDays, tierDaysMax)) &&
    (archive === undefined || isOneOf(archiveTiers, archive))
  );
}

function isLegs(value: unknown): boolean {
  if (!Array.isArray(value) || value.length === 0 || value.length > legsMax) return false;
  return value.every((leg) => isObject(leg) && typeof leg.store === 'string');
}

function isUpTo(value: unknown, max: number): boolean {
  return isCount(value) && value <= max;
}

function isFrom1(value: unknown, max: number): boolean {
  return isUpTo(value, max) && value !== 0;
}

function isOneOf(words: readonly string[], value: unknown): boolean {
  return typeof value === 'string' && words.includes(value);
}
