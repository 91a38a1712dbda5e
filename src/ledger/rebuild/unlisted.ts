// What the journal names and the store's list lacks. Invariant: nothing is given up for lost
// because a list does not have it: lists of a store may be older than what is in it, or incomplete
// for good where its index was damaged. What is named is asked for by its name.
import { inParallel } from '../../core/in-parallel.ts';
import { decodeManifest } from '../../core/manifest.ts';
import type { RemoteStore } from '../../tiering/stores/store.ts';
import type { VersionEntry } from '../journal/format.ts';
import { noteForeign } from '../journal/generation.ts';
import type { JournalReport } from './report.ts';
import type { StagedBucket, Staging } from './staging.ts';

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
    const asked = byNumber.get(buckets.get(version.bucketId)?.store ?? -1);
    if (asked) await askFor(staging, asked, version);
  });
}

async function askFor(
  staging: Staging,
  { store, journal }: UnlistedStore,
  version: VersionEntry,
): Promise<void> {
  for (const { id, store: number } of decodeManifest(Buffer.from(version.manifest, 'base64'))) {
    if (number !== store.number || (await staging.findExtent(number, id))) continue;
    const found = await store.readEnd(id, 1);
    if (!found) continue;
    await staging.takeExtents(number, [{ id, sizeBytes: found.sizeBytes }]);
    noteForeign(journal.unlisted, `extents/${id.toString('hex')}`);
  }
}
