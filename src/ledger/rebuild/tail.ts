// The tail: plain writes that were acknowledged before the journal had them. What their extents
// say of themselves is enough to restore them (tiering/extent-metadata.ts). Invariant: a write is
// restored only when all its extents are there and say the same, when the bucket that it names is
// still there, and when nothing newer is known of the key; none that waited for the journal, since
// it may have been refused. In a bucket that keeps versions it takes the place of none: it may have
// been committed when the bucket did so already.

import type { Attributes } from '../../catalog/versions.ts';
import { IntegrityError } from '../../core/errors.ts';
import { inParallel } from '../../core/in-parallel.ts';
import type { Keyring } from '../../core/keyring.ts';
import { commitMsMax } from '../../core/limits.ts';
import { decodeManifest, encodeManifest } from '../../core/manifest.ts';
import { readExtentMetadata } from '../../tiering/extent-metadata.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import type { VersionEntry } from '../journal/format.ts';
import { noteForeign } from '../journal/generation.ts';
import type { JournalReport, RebuildReport } from './report.ts';
import type { StagedBucket, StagedExtent, Staging } from './staging.ts';
import type { Work } from './work.ts';

const readsAtOnce = 16;

/** Stages what the extents say that nothing names. */
export async function readUnnamed(
  options: {
    store: RemoteStore;
    /** The journal has told of all changes up to here. */
    toldSeq: number;
    keyring: Keyring;
    staging: Staging;
    report: RebuildReport;
    mustBeTold: Work['mustBeTold'];
  },
  onRead: () => void,
): Promise<void> {
  const { store, toldSeq, keyring, staging, report, mustBeTold } = options;
  for await (const ids of staging.listUnnamed(store.number, toldSeq)) {
    await inParallel(ids, readsAtOnce, async (id) => {
      try {
        // What an archive has not restored cannot say what it is. No bucket is in one, so no plain
        // write is, and what is there was told, or was not answered for.
        if (store.archive && (await store.archive.look(id))?.state !== 'there') return;
        const found = await readExtentMetadata(store, keyring, id);
        if (!found) return;
        const extent = { id, store: store.number, ...found };
        await staging.takeMetadata(extent, await mustBeTold?.(extent));
      } catch (error) {
        if (!(error instanceof IntegrityError)) throw error;
        report.damagedExtents.add(id.toString('hex'));
      }
      onRead();
    });
  }
}

/** A bucket that is there, and since when its store's journal has told of all its keys. */
export type TailBucket = StagedBucket & { snapshotMs: number | null };

/** Gives the staged writes that are to be restored the place of what was known of their keys. */
export async function placeTails(
  staging: Staging,
  buckets: ReadonlyMap<number, TailBucket>,
): Promise<void> {
  for await (const end of staging.listWriteEnds()) {
    const bucket = buckets.get(end.metadata.bucketId);
    // A copy in another store is not what was written.
    if (bucket?.store !== end.store) continue;
    const version = await composeVersion(staging, bucket, end);
    if (!version) continue;
    const known = await staging.findKey(bucket.id, version.key);
    if (!isNewest(bucket, known, version)) continue;
    const isBeside = bucket.versioning !== 'Unversioned' && known.ofNull?.version;
    // An id of its own, the same in each rebuild.
    const versionId = isBeside ? end.metadata.write : null;
    await staging.placeTail({ ...version, versionId });
  }
}

/** Undefined when the extents that are there do not make a whole write into this bucket. */
async function composeVersion(
  staging: Staging,
  bucket: TailBucket,
  end: StagedExtent,
): Promise<VersionEntry | undefined> {
  const { last, write, key } = end.metadata;
  if (!last || last.needsJournal) return undefined;
  const extents = await staging.listWrite(bucket.store, write);
  if (extents.length !== last.extentCount || extents[0]?.id.toString('hex') !== write) {
    return undefined;
  }
  let sizeBytes = 0;
  for (const [index, { metadata }] of extents.entries()) {
    const fits =
      metadata.tenant === bucket.tenant &&
      metadata.bucket === bucket.name &&
      metadata.bucketId === bucket.id &&
      metadata.key === key &&
      metadata.index === index &&
      metadata.offset === sizeBytes;
    if (!fits) return undefined;
    sizeBytes += metadata.extentBytes;
  }
  if (sizeBytes !== last.sizeBytes) return undefined;
  const attributes = JSON.parse(last.attributes) as Attributes;
  return {
    kind: 'version',
    bucketId: bucket.id,
    toldSeq: 0,
    key,
    versionId: null,
    isMarker: false,
    seq: 0,
    createdMs: last.timeMs,
    sizeBytes,
    etag: last.etag,
    // As in its row: of what a customer's key encrypts it says nothing.
    sha256: attributes.customer ? null : last.sha256,
    class: last.class,
    owner: last.owner,
    attributes: last.attributes,
    manifest: encodeManifest(extents.map(runOf)).toString('base64'),
  };
}

function runOf({ id, store, trailerBytes, metadata }: StagedExtent) {
  const { algorithm, epoch, extentBytes } = metadata;
  return { id, store, algorithm, epoch, extentBytes, offset: 0, length: extentBytes, trailerBytes };
}

function isNewest(
  { snapshotMs }: TailBucket,
  { ofNull, identifiedMs }: Awaited<ReturnType<Staging['findKey']>>,
  { createdMs }: VersionEntry,
): boolean {
  // The journal would have told of it before these.
  if (identifiedMs !== null && createdMs <= identifiedMs) return false;
  if (ofNull) return createdMs >= ofNull.timeMs;
  // The snapshot would have it: so it was deleted, longer ago than the journal remembers.
  return snapshotMs === null || createdMs > snapshotMs - commitMsMax;
}

// What the journal names and the store's list lacks. Invariant: nothing is given up for lost
// because a list does not have it: lists of a store may be older than what is in it, or incomplete
// for good where its index was damaged. What is named is asked for by its name.

const asksAtOnce = 16;

interface UnlistedStore {
  store: RemoteStore;
  journal: JournalReport;
}

/** Stages the extents of versions that are there and were not listed; reports each. */
export async function takeUnlisted(
  staging: Staging,
  buckets: ReadonlyMap<number, StagedBucket>,
  stores: readonly UnlistedStore[],
): Promise<void> {
  const byNumber = new Map(stores.map((one) => [one.store.number, one]));
  const versions = staging.listVersions();
  await inParallel(versions, asksAtOnce, async ({ version }) => {
    if (buckets.has(version.bucketId)) await askFor(staging, byNumber, version);
  });
}

async function askFor(
  staging: Staging,
  stores: ReadonlyMap<number, UnlistedStore>,
  version: VersionEntry,
): Promise<void> {
  for (const { id, store: number } of decodeManifest(Buffer.from(version.manifest, 'base64'))) {
    const asked = stores.get(number);
    if (!asked || (await staging.findExtent(number, id))) continue;
    const { store, journal } = asked;
    // What is in an archive can be looked at, and not read.
    const found = await (store.archive?.look(id) ?? store.readEnd(id, 1));
    if (!found) continue;
    await staging.takeExtents(number, [{ id, sizeBytes: found.sizeBytes }]);
    noteForeign(journal.unlisted, `extents/${id.toString('hex')}`);
  }
}
