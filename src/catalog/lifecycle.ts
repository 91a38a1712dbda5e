// Lifecycle rules: which objects, versions and uploads they are about, and from when on those are
// due to end. Pure. Invariants: a time is rounded up to the end of its day, so nothing is due
// before it is as old as its rule says; and what fits no rule that is enabled is never due.
// Specification: "Managing the lifecycle of objects" of the Amazon S3 user guide.
import type { Attributes, Tags } from './versions.ts';

/** A bucket's configuration, as it is kept: JSON of this. */
export interface LifecycleConfig {
  rules: LifecycleRule[];
  /** From which size on transitions move objects. */
  transitionMinimum: TransitionMinimum;
}

export const transitionMinimums = ['all_storage_classes_128K', 'varies_by_storage_class'] as const;
export type TransitionMinimum = (typeof transitionMinimums)[number];

export interface LifecycleRule {
  id: string;
  isEnabled: boolean;
  filter: LifecycleFilter;
  /** Its prefix stood beside the filter's place, as before there were filters. */
  isPlain?: true;
  expiration?: Expiration;
  noncurrent?: NoncurrentExpiration;
  /** Each into another class. */
  transitions?: readonly Transition[];
  noncurrentTransitions?: readonly NoncurrentTransition[];
  /** Uploads are aborted so many days after they were begun. */
  abortDays?: number;
}

/** All that is given must hold. */
export interface LifecycleFilter {
  prefix?: string;
  tags?: Tags;
  /** Bytes, both exclusive. */
  sizeAbove?: number;
  sizeBelow?: number;
}

/** Of current versions; `loneMarkers`: of delete markers that hide nothing, at once. */
export type Expiration = { days: number } | { dateMs: number } | { loneMarkers: boolean };

export interface NoncurrentExpiration {
  /** After they became noncurrent. */
  days: number;
  /** So many of the newest noncurrent versions of a key stay. */
  newerVersions?: number;
}

/** Into which class: its name, never an alias. */
export interface TransitionTarget {
  class: string;
  /** What is in it is read after a restore. */
  isArchive?: true;
}

/** Of current versions. */
export type Transition = TransitionTarget & ({ days: number } | { dateMs: number });

/** Of noncurrent ones: after so many days, but for the newest of each key. */
export type NoncurrentTransition = TransitionTarget & NoncurrentExpiration;

/** A version as filters see it. */
export interface LifecycleVersion {
  key: string;
  sizeBytes: number;
  createdMs: number;
  isMarker: boolean;
  /** Asked only where a filter has tags. */
  tags(): Tags;
}

/** When something is due by a rule: the earliest time of those that the rule gives. */
export interface Due {
  ruleId: string;
  dueMs: number;
}

export interface NoncurrentDue extends Due {
  /** It is due only where there are so many noncurrent versions of its key that are newer. */
  newerVersions: number;
}

/** A version is due to be in a class. */
export interface DueMove extends Due {
  class: string;
  /** The class along whose tiers it moves; absent: a rule says so. */
  tierOf?: string;
}

export const calendarDayMs = 86_400_000;

/** Smaller ones stay where they are, unless a rule says itself how large they are. */
const transitionBytesMin = 128 * 1024;

/** The rules that are enabled, by what they end. */
export class Lifecycle {
  readonly expiring: readonly LifecycleRule[];
  readonly noncurrent: readonly LifecycleRule[];
  readonly aborting: readonly LifecycleRule[];
  readonly moving: readonly LifecycleRule[];
  readonly movingNoncurrent: readonly LifecycleRule[];
  readonly #minimum: TransitionMinimum;

  constructor({ rules, transitionMinimum }: LifecycleConfig) {
    const enabled = rules.filter(({ isEnabled }) => isEnabled);
    this.expiring = enabled.filter(({ expiration }) => expiration !== undefined);
    this.noncurrent = enabled.filter(({ noncurrent }) => noncurrent !== undefined);
    this.aborting = enabled.filter(({ abortDays }) => abortDays !== undefined);
    this.moving = enabled.filter(({ transitions }) => transitions !== undefined);
    this.movingNoncurrent = enabled.filter((rule) => rule.noncurrentTransitions !== undefined);
    this.#minimum = transitionMinimum;
  }

  /** Returns when a current version that is an object expires. Null means never. */
  expirationOf(version: LifecycleVersion, dayMs: number): Due | null {
    let first: Due | null = null;
    for (const { id, filter, expiration } of this.expiring) {
      const dueMs = expirationMs(expiration, version.createdMs, dayMs);
      if (dueMs !== null && fits(filter, version)) first = earlier(first, { ruleId: id, dueMs });
    }
    return first;
  }

  /** Returns when a delete marker that is the only version of its key is removed. */
  markerExpirationOf(marker: LifecycleVersion, dayMs: number): Due | null {
    let first: Due | null = null;
    for (const { id, filter, expiration } of this.expiring) {
      if (!expiration || !fits(filter, marker)) continue;
      const isAtOnce = 'loneMarkers' in expiration && expiration.loneMarkers;
      const dueMs = isAtOnce ? marker.createdMs : expirationMs(expiration, marker.createdMs, dayMs);
      if (dueMs !== null) first = earlier(first, { ruleId: id, dueMs });
    }
    return first;
  }

  /**
   * Returns the times of all rules that fit: which of them comes first depends on how many newer
   * versions there are.
   */
  noncurrentExpirationsOf(
    version: LifecycleVersion,
    supersededMs: number,
    dayMs: number,
  ): NoncurrentDue[] {
    return this.noncurrent.flatMap(({ id: ruleId, filter, noncurrent }) => {
      if (!noncurrent || !fits(filter, version)) return [];
      const { days, newerVersions = 0 } = noncurrent;
      return [{ ruleId, dueMs: endOfDay(supersededMs, days, dayMs), newerVersions }];
    });
  }

  /**
   * Returns the move of a current version that came due last; of several at once the one that
   * stands further down.
   */
  transitionOf(version: LifecycleVersion, timeMs: number, dayMs: number): DueMove | null {
    let last: DueMove | null = null;
    for (const { id: ruleId, filter, transitions = [] } of this.moving) {
      if (!fits(filter, version)) continue;
      for (const one of transitions) {
        if (!this.#isLargeEnough(version, filter, one)) continue;
        const dueMs = 'days' in one ? endOfDay(version.createdMs, one.days, dayMs) : one.dateMs;
        if (dueMs > timeMs || (last && last.dueMs > dueMs)) continue;
        last = { ruleId, dueMs, class: one.class };
      }
    }
    return last;
  }

  /** The moves of a noncurrent version that are due, the one that came last first. */
  noncurrentTransitionsOf(
    version: LifecycleVersion,
    supersededMs: number,
    { timeMs, dayMs }: { timeMs: number; dayMs: number },
  ): (DueMove & NoncurrentDue)[] {
    const due: (DueMove & NoncurrentDue)[] = [];
    for (const { id: ruleId, filter, noncurrentTransitions = [] } of this.movingNoncurrent) {
      if (!fits(filter, version)) continue;
      for (const one of noncurrentTransitions) {
        const dueMs = endOfDay(supersededMs, one.days, dayMs);
        if (dueMs > timeMs || !this.#isLargeEnough(version, filter, one)) continue;
        due.unshift({ ruleId, dueMs, class: one.class, newerVersions: one.newerVersions ?? 0 });
      }
    }
    return due.sort((a, b) => b.dueMs - a.dueMs);
  }

  #isLargeEnough(
    { sizeBytes }: LifecycleVersion,
    { sizeAbove, sizeBelow }: LifecycleFilter,
    { isArchive }: TransitionTarget,
  ): boolean {
    if (sizeAbove !== undefined || sizeBelow !== undefined) return true;
    if (isArchive && this.#minimum === 'varies_by_storage_class') return true;
    return sizeBytes >= transitionBytesMin;
  }

  /** Returns when an upload that was not completed is aborted. */
  abortOf(upload: { key: string; createdMs: number }, dayMs: number): Due | null {
    let first: Due | null = null;
    for (const { id, filter, abortDays } of this.aborting) {
      if (abortDays === undefined || !upload.key.startsWith(filter.prefix ?? '')) continue;
      const dueMs = endOfDay(upload.createdMs, abortDays, dayMs);
      first = earlier(first, { ruleId: id, dueMs });
    }
    return first;
  }
}

/** Of a bucket that has none. */
export const noRules = new Lifecycle({ rules: [], transitionMinimum: transitionMinimums[0] });

/** `document`: JSON of a LifecycleConfig. */
export function readLifecycle(document: string): Lifecycle {
  return new Lifecycle(JSON.parse(document) as LifecycleConfig);
}

/** A row of the catalog as filters see it. */
export function versionOf(row: {
  key: string;
  sizeBytes: number;
  createdMs: number;
  attributes: string;
  isMarker: number;
}): LifecycleVersion {
  // Parsed once: each of a thousand rules may ask, and the parts of an object make it long.
  let tags: Tags | undefined;
  return {
    key: row.key,
    sizeBytes: row.sizeBytes,
    createdMs: row.createdMs,
    isMarker: row.isMarker === 1,
    tags: () => {
      tags ??= (JSON.parse(row.attributes) as Attributes).tags ?? [];
      return tags;
    },
  };
}

/** The fewest prefixes that have all keys that the rules can be about. */
export function coveredPrefixes(rules: readonly LifecycleRule[]): string[] {
  const prefixes = rules.map(({ filter }) => filter.prefix ?? '').sort();
  const covered: string[] = [];
  for (const prefix of prefixes) {
    const last = covered.at(-1);
    if (last === undefined || !prefix.startsWith(last)) covered.push(prefix);
  }
  return covered;
}

/** A marker has neither tags nor a size. */
export function fits(filter: LifecycleFilter, version: LifecycleVersion): boolean {
  const { prefix, tags, sizeAbove, sizeBelow } = filter;
  if (prefix !== undefined && !version.key.startsWith(prefix)) return false;
  if (sizeAbove !== undefined && (version.isMarker || version.sizeBytes <= sizeAbove)) return false;
  if (sizeBelow !== undefined && (version.isMarker || version.sizeBytes >= sizeBelow)) return false;
  if (tags === undefined) return true;
  if (version.isMarker) return false;
  const own = version.tags();
  return tags.every(([name, value]) => own.some(([key, has]) => key === name && has === value));
}

function expirationMs(
  expiration: Expiration | undefined,
  createdMs: number,
  dayMs: number,
): number | null {
  if (!expiration || 'loneMarkers' in expiration) return null;
  return 'days' in expiration ? endOfDay(createdMs, expiration.days, dayMs) : expiration.dateMs;
}

/** Days begin at midnight UTC; shorter ones at each multiple of theirs. */
export function endOfDay(fromMs: number, days: number, dayMs: number): number {
  return (Math.ceil(fromMs / dayMs) + days) * dayMs;
}

function earlier(first: Due | null, other: Due): Due {
  return first && first.dueMs <= other.dueMs ? first : other;
}
