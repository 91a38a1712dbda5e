// What a rebuild found and did. Plain data: the command prints it, or gives it as JSON.

import type { StagedUpload } from './staging.ts';

/** How many there were, and the first of them. */
export class Listed<T> {
  count = 0;
  readonly first: T[] = [];

  add(one: T): void {
    if (this.count++ < listedMax) this.first.push(one);
  }
}

export const listedMax = 1000;

export interface ObjectName {
  tenant: string;
  bucket: string;
  key: string;
  /** Null: S3's `null` version. */
  versionId: string | null;
}

/** What one store's journal was like. */
export interface JournalReport {
  store: string;
  generation: string;
  /** The last change that it tells of. What came after it is lost, or was withheld. */
  lastSeq: number;
  lastTime: string;
  /** What it is known to have been told, by the database that told it; -1: nothing is known. */
  toldSeq: number;
  /** Objects that an earlier rebuild could not restore, and that this journal cannot tell of. */
  earlierLosses: number;
  segments: number;
  snapshotPages: number;
  /** Objects that are not what the gateway wrote. */
  damaged: string[];
  /** Objects that others name and that are not there. */
  missing: string[];
  /** Objects that others name, that are there and that the store's list lacks. */
  unlisted: string[];
  /** Names that no gateway gives. */
  foreign: string[];
}

/** What was restored of who there is, what they may and how much. */
export interface IdentityReport {
  /** Stores whose journals tell of them; none: the last Bursar with them was 0.1.0. */
  stores: string[];
  /**
   * Of some changes no journal tells: so nobody is active, but the operator that the next start
   * makes.
   */
  doubtful: boolean;
  restored: Record<RestoredKind, number>;
  /** All of them. */
  count: number;
  /** `tenant/principal: id` of access keys whose secrets are not told, or were not asked for. */
  withoutKey: Listed<string>;
  /** Webhooks that sign with a secret which nobody knows. */
  newWebhookSecrets: Listed<string>;
  /** Share links with a number of downloads: how many there were is not known. */
  usedUpShares: Listed<string>;
  /** What was not restored, and why. */
  leftOut: Listed<string>;
  /** What the database had already, and was changed or deleted. */
  changed: Listed<string>;
  removed: Listed<string>;
}

const restoredKinds = [
  ...(['tenants', 'groups', 'principals', 'accessKeys', 'publicKeys', 'grants'] as const),
  ...(['mounts', 'issuers', 'limits', 'webhooks', 'targets', 'revocations'] as const),
  ...(['tokens', 'shares'] as const),
  ...(['ownMounts', 'classes', 'retiredNames'] as const),
] as const;
export type RestoredKind = (typeof restoredKinds)[number];

export interface RebuildReport {
  journals: JournalReport[];
  identities: IdentityReport;
  /**
   * `tenant/name`: not restored, since their tenant or owner was deleted, which no bucket outlives.
   */
  ownerlessBuckets: string[];
  /**
   * `tenant/name`: of these there are extents, and the journal should tell of them and does not.
   */
  untoldBuckets: string[];
  /** Of buckets, and of which no journal told. */
  tenants: string[];
  /** `tenant/name`, bucket owners of whom no journal told: now members without access keys. */
  principals: string[];
  buckets: number;
  /** Of objects, delete markers included. */
  versions: number;
  versionBytes: number;
  /** Of these, versions that snapshots alone hold. */
  heldVersions: number;
  snapshots: number;
  /** Of the versions, those that only their extents told of. */
  fromExtents: Listed<ObjectName>;
  /** Versions that could not be restored. */
  lost: Listed<ObjectName & { reason: string }>;
  /** Open multipart uploads, and what completed ones left behind: not restored. */
  uploads: { count: number; first: StagedUpload[] };
  /** Extents whose metadata is not what the gateway wrote. */
  damagedExtents: Listed<string>;
  /** Extents that no restored object has: given to the sweeper, or left alone. */
  condemnedExtents: number;
  leftExtents: number;
  /** Packs of archived records: left alone, since a copy of the lost database may open them. */
  recordPacks: number;
}

export function newReport(): RebuildReport {
  return {
    journals: [],
    identities: {
      stores: [],
      doubtful: false,
      restored: Object.fromEntries(
        restoredKinds.map((kind) => [kind, 0]),
      ) as IdentityReport['restored'],
      count: 0,
      withoutKey: new Listed(),
      newWebhookSecrets: new Listed(),
      usedUpShares: new Listed(),
      leftOut: new Listed(),
      changed: new Listed(),
      removed: new Listed(),
    },
    ownerlessBuckets: [],
    untoldBuckets: [],
    tenants: [],
    principals: [],
    buckets: 0,
    versions: 0,
    versionBytes: 0,
    heldVersions: 0,
    snapshots: 0,
    fromExtents: new Listed(),
    lost: new Listed(),
    uploads: { count: 0, first: [] },
    damagedExtents: new Listed(),
    condemnedExtents: 0,
    leftExtents: 0,
    recordPacks: 0,
  };
}

/**
 * Whether the journals told all that they had been told, and all of it was there and listed. Only
 * then is what nothing names certain to belong to nothing.
 */
export function isWhole(report: RebuildReport): boolean {
  const isDamaged = (journal: JournalReport): boolean => {
    const { damaged, missing, unlisted, earlierLosses } = journal;
    if (isCut(journal)) return true;
    return damaged.length + missing.length + unlisted.length + earlierLosses > 0;
  };
  if (report.lost.count > 0 || report.untoldBuckets.length > 0) return false;
  if (report.identities.doubtful || report.ownerlessBuckets.length > 0) return false;
  return !report.journals.some(isDamaged);
}

/** Whether its end was taken away, or an older copy of it was put in its place. */
export function isCut({ lastSeq, toldSeq }: JournalReport): boolean {
  return lastSeq < toldSeq;
}

export function newJournalReport(store: string, generation: string): JournalReport {
  return {
    store,
    generation,
    lastSeq: -1,
    lastTime: '',
    toldSeq: -1,
    earlierLosses: 0,
    segments: 0,
    snapshotPages: 0,
    damaged: [],
    missing: [],
    unlisted: [],
    foreign: [],
  };
}
