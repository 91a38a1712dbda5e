// Brings the versions of S3 stores in a restored database to what journals and extents say: ends
// those that ended after the backup, adds those that were made after it, changes those whose tags
// or locks changed. Invariants: a version is the same when its bytes, its time and its name are;
// one of the backup ends only when a journal says so, or is whole and has a later snapshot without
// it; one is added only when all its bytes are there. Of what came before the backup the database
// knows more than any journal of its own.
import { listKept } from '../../catalog/kept-versions.ts';
import { readNamed, type StoredVersion, type Version } from '../../catalog/versions.ts';
import { inParallel } from '../../core/in-parallel.ts';
import { decodeManifest } from '../../core/manifest.ts';
import { pages } from '../../core/pages.ts';
import type { VersionEntry } from '../../ledger/journal/format.ts';
import { isWhole } from '../../ledger/rebuild/report.ts';
import { checkExtents, restoreVersion } from '../../ledger/rebuild/restore.ts';
import type { StagedBucket } from '../../ledger/rebuild/staging.ts';
import type { Forward } from './forward.ts';

const versionsPerPage = 500;
const commitsAtOnce = 200;

/** `buckets`: those that are there, by id. */
export async function forwardVersions(
  forward: Forward,
  buckets: ReadonlyMap<number, StagedBucket>,
): Promise<void> {
  for (const bucket of buckets.values()) await endEnded(forward, bucket);
  const { work, report } = forward;
  await inParallel(work.staging.listVersions(), commitsAtOnce, async ({ version, isTail }) => {
    const bucket = buckets.get(version.bucketId);
    if (bucket) await forwardVersion(forward, { bucket, version, isTail });
    work.onProgress('comparing versions', ++report.compared);
  });
  await abortUploads(forward, buckets);
}

/** Ends the versions that ended after the backup. */
async function endEnded(forward: Forward, bucket: StagedBucket): Promise<void> {
  const { read, work, commit, report } = forward;
  const { id: bucketId } = bucket;
  const snapshotSeq =
    forward.stores.find(({ store }) => store.number === bucket.store)?.snapshotSeq ?? 0;
  const of = { bucketId, max: versionsPerPage };
  for await (const page of pages<Version>((last) =>
    listKept(read, { ...of, after: last ?? null }),
  )) {
    await inParallel(page, commitsAtOnce, async ({ key, versionId }) => {
      const said = await work.staging.findVersion({ bucketId, key, versionId });
      // As new as the snapshot is all that is in it.
      const isUntold = said === undefined || said.toldSeq < snapshotSeq - 1;
      const hasEnded = isUntold ? snapshotSeq > 0 && isWhole(work.report) : !said.isThere;
      if (!hasEnded) return;
      const change = { kind: 'restoreEnd', bucketId, key, versionId } as const;
      await commit(change, { action: 'bursar:RestoreEnd', bucket, key });
      report.ended++;
    });
  }
}

interface Told {
  bucket: StagedBucket;
  version: VersionEntry;
  /** Whether only its extents tell of it. */
  isTail: boolean;
}

async function forwardVersion(forward: Forward, told: Told): Promise<void> {
  const { read, work, commit, report } = forward;
  const { bucket, version, isTail } = told;
  const { bucketId, key, versionId } = version;
  const found = await readNamed(read, bucketId, { key, versionId: versionId ?? 'null' });
  if (found && isSame(found, version, isTail)) {
    if (isTail || found.attributes === version.attributes) return;
    const { attributes } = version;
    await commit(
      { kind: 'restoreAttributes', bucketId, key, versionId, attributes },
      { action: 'bursar:RestoreVersion', bucket, key },
    );
    report.amended++;
    return;
  }
  if (found && isTail && found.createdMs > version.createdMs) return;
  const { runs, reason } = await checkExtents(work.staging, bucket.store, version);
  if (!runs) {
    report.lost.add({ tenant: bucket.tenant, bucket: bucket.name, key, versionId, reason });
    return;
  }
  // Both are handed to the ledger at once, which applies them in this order.
  const end = { kind: 'restoreEnd', bucketId, key, versionId } as const;
  const ending = found && commit(end, { action: 'bursar:RestoreEnd', bucket, key });
  const adding = commit(...restoreVersion(work, bucket, version));
  await Promise.all([ending, adding]);
  report.versions++;
  report.versionBytes += version.sizeBytes;
  if (found) report.ended++;
  if (isTail) {
    report.fromExtents.add({ tenant: bucket.tenant, bucket: bucket.name, key, versionId });
  }
}

/** Extents are of one write; a copy of an object onto itself has the same ones and another time. */
function isSame(found: StoredVersion, version: VersionEntry, isTail: boolean): boolean {
  const manifest = Buffer.from(version.manifest, 'base64');
  return (
    (found.isMarker === 1) === version.isMarker &&
    found.sizeBytes === version.sizeBytes &&
    found.etag === version.etag &&
    (isTail || found.createdMs === version.createdMs) &&
    manifest.equals(found.manifest)
  );
}

interface PartRow {
  id: string;
  key: string;
  manifest: Uint8Array;
}

/** Aborts uploads of the backup that cannot be completed, since their parts were swept after it. */
async function abortUploads(
  { read, work, commit, report }: Forward,
  buckets: ReadonlyMap<number, StagedBucket>,
): Promise<void> {
  for (const bucket of buckets.values()) {
    const rows = await read.all<PartRow>(
      `SELECT id, key, manifest FROM uploads JOIN parts ON upload_id = id
         WHERE bucket_id = ? AND completed IS NULL`,
      bucket.id,
    );
    const broken = new Map<string, string>();
    for (const { id, key, manifest } of rows) {
      for (const run of decodeManifest(manifest)) {
        if (broken.has(id)) break;
        if (!(await work.staging.findExtent(bucket.store, run.id))) broken.set(id, key);
      }
    }
    for (const [uploadId, key] of broken) {
      const upload = { tenant: bucket.tenant, bucketId: bucket.id, key, uploadId };
      await commit(
        { kind: 'abortUpload', ...upload },
        { action: 'bursar:RestoreEnd', bucket, key },
      );
      report.abortedUploads++;
    }
  }
}
