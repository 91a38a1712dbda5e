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

export interface RebuildReport {
  journals: JournalReport[];
  /** `tenant/name`: of these there are extents, and the journal should tell of them and does not. */
  untoldBuckets: string[];
  tenants: string[];
  /** `tenant/name`, bucket owners, now members without access keys. */
  principals: string[];
  buckets: number;
  /** Of objects, delete markers included. */
  versions: number;
  versionBytes: number;
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
    untoldBuckets: [],
    tenants: [],
    principals: [],
    buckets: 0,
    versions: 0,
    versionBytes: 0,
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
  const isDamaged = ({ damaged, missing, unlisted, earlierLosses }: JournalReport): boolean =>
    damaged.length + missing.length + unlisted.length + earlierLosses > 0;
  if (report.lost.count > 0 || report.untoldBuckets.length > 0) return false;
  return !report.journals.some(isDamaged);
}
