// Lifecycle rules: which objects, versions and uploads they are about, and from when on those are
// due to end. Pure. Invariants: a time is rounded up to the end of its day, so nothing is due
// before it is as old as its rule says; and what fits no rule that is enabled is never due.
// Specification: "Managing the lifecycle of objects" of the Amazon S3 user guide.
import type { Attributes, Tags } from './versions.ts';

/** A bucket's configuration, as it is kept: JSON of this. */
export interface LifecycleConfig {
  rules: LifecycleRule[];
  /** From which size on transitions would move objects; given back as it came. */
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

export const calendarDayMs = 86_400_000;

/** The rules that are enabled, by what they end. */
export class Lifecycle {
  readonly expiring: readonly LifecycleRule[];
  readonly noncurrent: readonly LifecycleRule[];
  readonly aborting: readonly LifecycleRule[];

  constructor({ rules }: LifecycleConfig) {
    const enabled = rules.filter(({ isEnabled }) => isEnabled);
    this.expiring = enabled.filter(({ expiration }) => expiration !== undefined);
    this.noncurrent = enabled.filter(({ noncurrent }) => noncurrent !== undefined);
    this.aborting = enabled.filter(({ abortDays }) => abortDays !== undefined);
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
function fits(filter: LifecycleFilter, version: LifecycleVersion): boolean {
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
function endOfDay(fromMs: number, days: number, dayMs: number): number {
  return (Math.ceil(fromMs / dayMs) + days) * dayMs;
}

function earlier(first: Due | null, other: Due): Due {
  return first && first.dueMs <= other.dueMs ? first : other;
}
