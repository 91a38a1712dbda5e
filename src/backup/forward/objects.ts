// Brings the buckets of S3 stores in a restored database to what their journals say: those that
// were made after the backup, set up otherwise, or deleted.
import {
  type Bucket,
  findBucket,
  getBucket,
  listStoreBuckets,
  readSettings,
} from '../../catalog/buckets.ts';
import { listKept } from '../../catalog/kept-versions.ts';
import { type Attributes, placedMs, readNamed, type Version } from '../../catalog/versions.ts';
import { inParallel } from '../../core/in-parallel.ts';
import { decodeManifest } from '../../core/manifest.ts';
import { pages } from '../../core/pages.ts';
import { principalId } from '../../core/principal.ts';
import type { IdentityChange } from '../../ledger/commands/identities.ts';
import { bucketEntry } from '../../ledger/journal/entries.ts';
import type { VersionEntry } from '../../ledger/journal/format.ts';
import type { HeldEntry } from '../../ledger/journal/kept-format.ts';
import { isWhole } from '../../ledger/rebuild/report.ts';
import {
  checkExtents,
  listSteps,
  type Redoing,
  restoreVersion,
  type Step,
} from '../../ledger/rebuild/restore.ts';
import { readMode } from '../../ledger/rebuild/restore-identities.ts';
import type { StagedBucket, ToldVersion } from '../../ledger/rebuild/staging.ts';
import { sealedBytes } from '../../tiering/chunk-format.ts';
import type { Forward } from './forward.ts';
import { bringSnapshots, isPlaced, isSameVersion, type KnownBucket } from './snapshots.ts';

const bucketsPerPage = 100;
const versionsPerPage = 500;

/** Gives those that are there now and that a journal tells of, by id. */
export async function forwardBuckets(forward: Forward): Promise<Map<number, StagedBucket>> {
  const { work, stores } = forward;
  const { staging } = work;
  for (const { store } of stores) {
    for (const bucket of await listAll(forward, store.number)) {
      if ((await staging.findBucket(bucket.id)) === 'gone') await removeBucket(forward, bucket);
    }
  }
  const staged = await staging.listBuckets();
  for (const bucket of staged) {
    const found = await getBucket(forward.read, bucket.id);
    if (!found) await addBucket(forward, bucket);
    else await setUp(forward, bucket, found);
  }
  return new Map(staged.map((bucket) => [bucket.id, bucket]));
}

async function listAll({ read }: Forward, store: number): Promise<Bucket[]> {
  const buckets: Bucket[] = [];
  for await (const page of listStoreBuckets(read, store, bucketsPerPage)) buckets.push(...page);
  return buckets;
}

/** Deletes the bucket with everything in it. */
async function removeBucket({ read, commit, report }: Forward, bucket: Bucket): Promise<void> {
  const { id: bucketId } = bucket;
  for (;;) {
    const versions = await listKept(read, { bucketId, after: null, max: versionsPerPage });
    if (versions.length === 0) break;
    await Promise.all(
      versions.map(({ key, versionId }) =>
        commit(
          { kind: 'restoreEnd', bucketId, key, versionId },
          { action: 'bursar:RestoreEnd', bucket, key },
        ),
      ),
    );
    report.ended += versions.length;
  }
  await commit(
    { kind: 'deleteBucket', bucketId, withSnapshots: true },
    { action: 'bursar:RestoreEnd', bucket },
  );
  report.removed++;
}

async function addBucket(forward: Forward, staged: StagedBucket): Promise<void> {
  const { read, commit, report } = forward;
  const { tenant, name } = staged;
  // The name was given to somebody else after the backup, so the bucket that had it was deleted.
  const former = await findBucket(read, tenant, name);
  if (former) await removeBucket(forward, former);
  await ensureOwner(forward, staged);
  const { kind: _, toldSeq: _2, documents, ...bucket } = staged;
  const { policy = null, ...settings } = documents;
  const restored = { ...bucket, policy, recordReads: readMode(bucket.recordReads) };
  const change = { kind: 'restoreBucket', bucket: restored, settings } as const;
  await commit(change, { action: 'bursar:RestoreBucket', bucket });
  report.buckets++;
}

async function setUp(forward: Forward, staged: StagedBucket, found: Bucket): Promise<void> {
  const { read, commit, report } = forward;
  const documents = await readSettings(read, found.id);
  if (found.policy !== null) documents.policy = found.policy;
  const { kind: _, toldSeq: _2, documents: told, store, ...others } = staged;
  const { kind: _3, toldSeq: _4, ...is } = bucketEntry(found, 0);
  // Release 0.1.0 does not tell how reads are recorded.
  const isUntold = staged.recordReads === undefined;
  const recordReads = isUntold ? found.recordReads : readMode(staged.recordReads);
  const bucket = { ...others, recordReads };
  if (store !== found.store) {
    throw new Error(`bucket ${staged.tenant}/${staged.name} is in another store in the backup`);
  }
  if (isSameBucket(is, bucket) && isSameBucket(documents, told)) return;
  await ensureOwner(forward, staged);
  const { policy = null, ...settings } = told;
  const change = {
    kind: 'restoreSettings',
    bucket: { ...bucket, store, policy },
    settings,
  } as const;
  await commit(change, { action: 'bursar:RestoreBucket', bucket: { ...bucket, store } });
  report.configured++;
}

/** Compares two flat objects. */
function isSameBucket(a: object, b: object): boolean {
  const textOf = (one: object) => JSON.stringify(Object.entries(one).sort());
  return textOf(a) === textOf(b);
}

/**
 * The owner may have been created after the backup; then it becomes a member without access keys.
 */
async function ensureOwner(forward: Forward, { tenant, owner: name }: StagedBucket): Promise<void> {
  const { read, commit, report } = forward;
  if (!(await read.get('SELECT 1 FROM tenants WHERE name = ?', tenant))) {
    const members = { membersCreateBuckets: false, membersMountBuckets: false };
    const change = { kind: 'createTenant', name: tenant, ...members } as const;
    const about = { action: 'bursar:RestoreTenant', tenant, target: `tenants/${tenant}` };
    await commit(change, about);
    report.tenants.push(tenant);
  }
  const sql = 'SELECT 1 FROM principals WHERE tenant = ? AND name = ?';
  if (await read.get(sql, tenant, name)) return;
  const change: IdentityChange = {
    ...{ kind: 'createPrincipal', tenant, name },
    ...{ principalKind: 'person', role: 'member', groups: [] },
  };
  const target = `tenants/${tenant}/principals/${name}`;
  await commit(change, { action: 'bursar:RestorePrincipal', tenant, target });
  report.principals.push(principalId(tenant, name));
}

// Brings the versions of S3 stores in a restored database to what journals and extents say: ends
// those that ended after the backup, adds those that were made after it, changes those whose tags
// or locks changed. Invariants: a version is the same when its bytes, its time and its name are;
// one of the backup ends only when a journal says so, or is whole and has a later snapshot without
// it; one is added only when all its bytes are there. Of what came before the backup the database
// knows more than any journal of its own.

const commitsAtOnce = 200;

/** `buckets`: those that are there, by id. */
export async function forwardVersions(
  forward: Forward,
  buckets: ReadonlyMap<number, StagedBucket>,
): Promise<void> {
  const { work, report, attempt, commit } = forward;
  const known = new Map<number, KnownBucket>();
  for (const bucket of buckets.values()) {
    const one = await bringSnapshots(forward, bucket);
    await bringKnown(forward, one);
    known.set(bucket.id, one);
  }
  const redoing: Redoing = {
    buckets,
    doneSeq: ({ id }) => known.get(id)?.doneSeq ?? -1,
    make: async (bucket, version, told) => {
      const step = await makeStep(forward, { bucket, version, ...told });
      work.onProgress('comparing versions', ++report.compared);
      return step;
    },
  };
  await inParallel(listSteps(work, redoing), commitsAtOnce, (step) => step(attempt, commit));
  await abortUploads(forward, buckets);
}

/**
 * Ends the versions of the backup that ended after it, unless a snapshot has them, which says when;
 * and gives the others the tags and locks that they had last, or that the first snapshot after the
 * backup has.
 */
async function bringKnown(forward: Forward, known: KnownBucket): Promise<void> {
  const { read, work, commit, report } = forward;
  const { bucket, doneSeq } = known;
  const { id: bucketId } = bucket;
  const of = { bucketId, max: versionsPerPage };
  for await (const page of pages<Version>((last) =>
    listKept(read, { ...of, after: last ?? null }),
  )) {
    await inParallel(page, commitsAtOnce, async (row) => {
      const { key, versionId } = row;
      const said = await work.staging.findVersion(row);
      const { version = null, isTail = false } = said ?? {};
      const wanted = await work.staging.kept.listWanted(row, doneSeq);
      const held = wanted.filter((entry) => isSameVersion(row, entry));
      const isThere = version !== null && isSameVersion(row, version, { isTail });
      const isKept = isThere || held.some(({ isImage }) => !isImage);
      // As the first snapshot after the backup has it.
      const told = held[0] ?? (isTail ? null : version);
      const place = () => (told ? bringPlace(forward, bucket, row, told) : row.attributes);
      const placed = isKept ? await place() : null;
      if (placed !== null) {
        // Its end, which a snapshot tells, is done again in its turn.
        if (!isThere) report.ended++;
        const { attributes } = told ?? row;
        if (attributes === placed) return;
        await commit(
          { kind: 'restoreAttributes', bucketId, key, versionId, attributes },
          { action: 'bursar:RestoreVersion', bucket, key },
        );
        report.amended++;
        return;
      }
      if (!hasEnded(forward, known, { row, said })) return;
      const change = { kind: 'restoreEnd', bucketId, key, versionId } as const;
      await commit(change, { action: 'bursar:RestoreEnd', bucket, key });
      report.ended++;
    });
  }
}

/**
 * Has a version in the class into which it was moved after the backup, if it was. Gives the
 * attributes that it has then; null when its bytes are not all there. No snapshot has an image of
 * it in another place: it would not have been moved.
 */
async function bringPlace(
  { work, commit, report }: Forward,
  bucket: StagedBucket,
  row: Version,
  told: VersionEntry | HeldEntry,
): Promise<string | null> {
  if (row.isMarker === 1 || isPlaced(row, told)) return row.attributes;
  const { key, versionId, seq, sizeBytes, class: from } = row;
  const { class: to, manifest } = told;
  const checked = await checkExtents(work.staging, { manifest, sizeBytes, class: to });
  if (!checked.runs) return null;
  // As the move did it: other changes of them come after it.
  const { classedMs } = JSON.parse(told.attributes) as Attributes;
  const classed = classedMs === undefined ? {} : { classedMs };
  const attributes = JSON.stringify({ ...JSON.parse(row.attributes), ...classed });
  await commit(
    {
      ...({ kind: 'restoreMove', bucketId: bucket.id, key, versionId, attributes } as const),
      ...{ class: to, manifest: Buffer.from(manifest, 'base64'), places: checked.places },
    },
    {
      ...{ action: 'bursar:MoveObject', bucket, key, class: to },
      change: { moved: { from, to, version: seq } },
    },
  );
  report.amended++;
  return attributes;
}

/** Whether a version of the backup that is not as it was ended before all that is made again. */
function hasEnded(
  { stores, work }: Forward,
  { bucket, hasNewSnapshot }: KnownBucket,
  { row, said }: { row: Version; said: ToldVersion | undefined },
): boolean {
  const snapshotSeq = stores.find(({ store }) => store.number === bucket.store)?.snapshotSeq ?? 0;
  // As new as the snapshot is all that is in it.
  const isUntold = said === undefined || said.toldSeq < snapshotSeq - 1;
  if (isUntold) return snapshotSeq > 0 && isWhole(work.report);
  if (said.version === null) return true;
  // Another one has its name. It goes when that comes; before a new snapshot, if none has it: then
  // its end came before, and its bytes may be gone. A write of before it has not replaced it.
  const isOlder = said.isTail && said.version.createdMs < placedMs(row);
  return hasNewSnapshot && !isOlder;
}

interface Told {
  bucket: StagedBucket;
  version: VersionEntry;
  /** Whether only its extents tell of it. */
  isTail?: boolean;
  /** Whether a snapshot alone has it. */
  isHeld?: boolean;
}

async function makeStep(forward: Forward, told: Told): Promise<Step | undefined> {
  const { read, work, report } = forward;
  const { bucket, version, isTail = false, isHeld = false } = told;
  const { bucketId, key, versionId } = version;
  const found = await readNamed(read, bucketId, { key, versionId: versionId ?? 'null' });
  if (found && isSameVersion(found, version, { isTail }) && isPlaced(found, version)) {
    return undefined;
  }
  if (found && isTail && placedMs(found) > version.createdMs) return undefined;
  const name = { tenant: bucket.tenant, bucket: bucket.name, key, versionId };
  const checked = await checkExtents(work.staging, version);
  if (!checked.runs) {
    report.lost.add({ ...name, reason: checked.reason });
    return undefined;
  }
  return async (attempt, commit) => {
    // Both are handed to the ledger at once, which applies them in this order. By then the version
    // that was found may have ended, as a snapshot tells.
    const end = { kind: 'restoreEnd', bucketId, key, versionId } as const;
    const ending = found && attempt(end, { action: 'bursar:RestoreEnd', bucket, key });
    const adding = commit(...restoreVersion(work, bucket, version, checked.places));
    const [refused] = await Promise.all([ending, adding]);
    if (refused === null) report.ended++;
    report.versions++;
    report.versionBytes += version.sizeBytes;
    if (isHeld) report.heldVersions++;
    if (isTail) report.fromExtents.add(name);
  };
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
        const sizeBytes = sealedBytes(run.extentBytes) + run.trailerBytes;
        const places = await work.staging.findPlaces(run.id, sizeBytes);
        if (places.length === 0) broken.set(id, key);
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
