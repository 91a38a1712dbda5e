// Brings the snapshots of buckets in a restored database to what journals say. What was deleted
// after the backup is deleted first, so that nothing is held for it; what was made after it is made
// again where it came in the order of all changes (objects.ts). Invariant: what a snapshot of the
// backup shows is what it showed, since nothing is done again that the database has.
import { listKept } from '../../catalog/kept-versions.ts';
import { listLiving, type Snapshot } from '../../catalog/snapshots.ts';
import { placedMs, type Version } from '../../catalog/versions.ts';
import { pages } from '../../core/pages.ts';
import { accountOf } from '../../ledger/commands/index.ts';
import { snapshotTarget } from '../../ledger/held-upkeep.ts';
import type { VersionEntry } from '../../ledger/journal/format.ts';
import type { HeldEntry, SnapshotEntry } from '../../ledger/journal/kept-format.ts';
import { refusedError } from '../../ledger/rebuild/committer.ts';
import { isWhole } from '../../ledger/rebuild/report.ts';
import type { StagedBucket } from '../../ledger/rebuild/staging.ts';
import type { Forward } from './forward.ts';

const versionsPerPage = 500;

/** A bucket whose versions are about to be brought to what a journal says. */
export interface KnownBucket {
  bucket: StagedBucket;
  /** Of all that the journal numbers, the database has what came up to here. */
  doneSeq: number;
  /** It has a snapshot that was made after the backup. */
  hasNewSnapshot: boolean;
}

/** Deletes the snapshots that were deleted after the backup. */
export async function bringSnapshots(forward: Forward, bucket: StagedBucket): Promise<KnownBucket> {
  const { read, work, stores } = forward;
  const { kept } = work.staging;
  const told = await kept.listLiving(bucket.id);
  const found = await listLiving(read, bucket.id);
  const store = stores.find(({ store }) => store.number === bucket.store);
  const isOwn = store?.isOwnJournal ?? false;
  // Of a journal that another database wrote, a part that is missing may tell of it.
  const isSure = isOwn || ((await kept.isTold(bucket.id)) && isWhole(work.report));
  for (const snapshot of found) {
    if (!isSure || told.some((one) => isSameSnapshot(one, snapshot))) continue;
    await deleteOne(forward, bucket, snapshot);
  }
  const doneSeq = isOwn
    ? (store?.databaseSeq ?? -1)
    : await lastShared(forward, bucket, { told, found });
  return { bucket, doneSeq, hasNewSnapshot: told.some(({ seq }) => seq > doneSeq) };
}

async function deleteOne(
  { attempt, report }: Forward,
  bucket: StagedBucket,
  { bucketId, name, lock }: Snapshot,
): Promise<void> {
  const bypassGovernance = lock === 'governance';
  const change = { kind: 'deleteSnapshot', bucketId, name, bypassGovernance } as const;
  const target = snapshotTarget(bucket.tenant, bucket.name, name);
  const about = { action: 'bursar:DeleteSnapshot', bucket, target, change: accountOf(change) };
  const refused = await attempt(change, about);
  if (!refused) report.deletedSnapshots++;
  // One that may not be deleted had expired by a clock that is behind now: it will again.
  else if (refused !== 'AccessDenied') throw refusedError(about, refused);
}

/**
 * A journal of another database, which was restored from the same backup or an earlier one, numbers
 * otherwise. Of what it tells of the bucket, the newest that the database has too was done when the
 * backup was made, and so was all before it. -1: nothing.
 */
async function lastShared(
  { read, work }: Forward,
  { id: bucketId }: StagedBucket,
  { told, found }: { told: SnapshotEntry[]; found: Snapshot[] },
): Promise<number> {
  if (told.length === 0) return -1;
  let last = -1;
  for (const one of told) {
    if (found.some((snapshot) => isSameSnapshot(one, snapshot))) last = Math.max(last, one.seq);
  }
  for await (const page of pages<Version>((after) =>
    listKept(read, { bucketId, after: after ?? null, max: versionsPerPage }),
  )) {
    for (const row of page) {
      const said = await work.staging.findVersion(row);
      const held = await work.staging.kept.listWanted(row, -1);
      for (const entry of [...held, ...(said?.version && !said.isTail ? [said.version] : [])]) {
        if (isSameVersion(row, entry)) last = Math.max(last, entry.seq);
      }
    }
  }
  return last;
}

/** Numbers of records cannot tell: after a restore the log gives them to others. */
function isSameSnapshot(one: SnapshotEntry, other: Snapshot): boolean {
  return (
    one.name === other.name && one.createdMs === other.createdMs && one.prefix === other.prefix
  );
}

/**
 * Whether it is one version: of such bytes, made at this time, and at its key since then; a copy of
 * an object onto itself, and one that was renamed there and back, are others. Where its bytes are
 * says nothing, since it may have been moved into another class. `isTail`: nobody knows its time,
 * so it has to be of the very same extents.
 */
export function isSameVersion(
  found: Omit<Version, 'billedBytes'>,
  entry: VersionEntry | HeldEntry,
  { isTail = false } = {},
): boolean {
  return (
    found.versionId === entry.versionId &&
    (found.isMarker === 1) === entry.isMarker &&
    found.sizeBytes === entry.sizeBytes &&
    found.etag === entry.etag &&
    (isTail
      ? hasExtentsOf(found, entry)
      : found.createdMs === entry.createdMs && placedMs(found) === placedMs(entry))
  );
}

/** Whether a version is where a journal says that it is. */
export function isPlaced(
  found: Pick<Version, 'class' | 'manifest'>,
  entry: VersionEntry | HeldEntry,
): boolean {
  return found.class === entry.class && hasExtentsOf(found, entry);
}

function hasExtentsOf(
  { manifest }: Pick<Version, 'manifest'>,
  entry: VersionEntry | HeldEntry,
): boolean {
  return Buffer.from(entry.manifest, 'base64').equals(manifest);
}
