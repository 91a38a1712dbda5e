// A version comes into another storage class, and stays what it is: its name, its number, its time
// and its bytes. Invariants: what it named before is let go of in the very transaction in which it
// names its new extents, so that its bytes are always in one place that counts; what of it is
// billed moves with it; and what others have of its former extents stays theirs.
import { hash } from 'node:crypto';
import type { Tx } from '../core/database.ts';
import { isOwnClass } from '../core/own-class.ts';
import { attachedRecipe } from '../core/recipe.ts';
import { computeRowMac, sealObject } from './authentic.ts';
import { billedBytes } from './billed-bytes.ts';
import { refuseLossyLock } from './class-locks.ts';
import { readClassRow } from './class-rows.ts';
import { readClassTerms } from './class-terms.ts';
import { adoptExtents, areIntents, type InlineExtent } from './extents.ts';
import { dropManifest, longManifestOf, placeManifest } from './long-manifests.ts';
import { isLost } from './lost-versions.ts';
import { noteChange } from './outbox.ts';
import {
  type EndedObject,
  type Moment,
  noStorage,
  type Outcome,
  refused,
  type StorageDelta,
} from './outcome.ts';
import { examine, namedIn, type OpenBucket, openBucket } from './version-places.ts';
import type { FoundVersion } from './version-rows.ts';
import {
  type Attributes,
  classedSinceMs,
  countedBytes,
  readNumbered,
  type StoredVersion,
} from './versions.ts';

/** What was written in the stores of the class. */
export interface MovedBytes {
  manifest: Uint8Array;
  /** Declared before. */
  extentIds: Uint8Array[];
  inline: InlineExtent | null;
  /** Of a class of several legs: by extent the stores that have it; absent: one has all. */
  places?: number[][] | undefined;
}

export interface MoveVersion {
  kind: 'moveVersion';
  bucketId: number;
  key: string;
  seq: number;
  class: string;
  /** null: its bytes are where they are to be. */
  bytes: MovedBytes | null;
}

/** SlowDown, of which there is no record: nothing is moved now. */
export async function moveVersion(
  tx: Tx,
  change: MoveVersion,
  moment: Moment,
): Promise<Outcome<null>> {
  const bucket = await openBucket(tx, change.bucketId);
  const found = bucket && (await findMovable(tx, bucket, change, moment));
  if (!bucket || !found || found.class === change.class) return refused('SlowDown');
  const { bytes } = change;
  if (bytes && !(await areIntents(tx, bytes.extentIds))) return refused('SlowDown');
  const { tenant } = bucket;
  if (bytes) {
    const { extentIds: ids, inline, places } = bytes;
    await adoptExtents(tx, { tenant, ids, inline, places, timeMs: moment.timeMs });
  }
  const manifest = bytes?.manifest ?? null;
  const classed: Attributes = { ...JSON.parse(found.attributes), classedMs: moment.timeMs };
  const attributes = JSON.stringify(classed);
  const into = { ...found, attributes };
  const storage = await placeElsewhere(tx, bucket, into, { class: change.class, manifest }, moment);
  const amended = { seq: found.seq, attributes: hash('sha256', attributes, 'hex') };
  return { ok: true, storage: { ...storage, amended, ended: endedOf(found) }, result: null };
}

/**
 * Seals the row anew, with the attributes that are given, in another class and with the manifest of
 * what is stored there; null: with the one that it has. Its extents have counted it already.
 */
export async function placeElsewhere(
  tx: Tx,
  bucket: OpenBucket,
  found: FoundVersion,
  { class: to, manifest }: { class: string; manifest: Uint8Array | null },
  moment: Moment,
): Promise<StorageDelta> {
  const placed = { class: to, sizeBytes: found.sizeBytes };
  const billed = await billedBytes(tx, bucket.tenant, placed, moment.terms);
  await placeRow(tx, bucket, found, { class: to, manifest, billed }, moment);
  const { key, versionId, class: from } = found;
  await noteChange(tx, { store: bucket.store, bucketId: bucket.id, key, versionId }, moment);
  const before = countedBytes(found.billedBytes);
  return {
    ...{ ...noStorage, ...namedIn(bucket, { versionId, isMarker: false }) },
    billed: [
      { class: to, bytes: billed },
      { class: from, bytes: -before },
    ],
  };
}

/** What is owed for leaving a class is that of an object that ends there. */
export function endedOf(version: StoredVersion): EndedObject {
  const { class: of, billedBytes } = version;
  return { class: of, billedBytes: countedBytes(billedBytes), sinceMs: classedSinceMs(version) };
}

/** The version, if it can be in the class; null: it is not there, or cannot now. */
export async function findMovable(
  tx: Tx,
  bucket: OpenBucket,
  { key, seq, class: to }: Pick<MoveVersion, 'key' | 'seq' | 'class'>,
  moment: Pick<Moment, 'keyring'>,
): Promise<FoundVersion | null> {
  const row = await readNumbered(tx, bucket.id, { key, seq });
  const found = row && examine(bucket, row, moment);
  if (!found || found.isDamaged || found.isMarker) return null;
  if (await isLost(tx, seq)) return null;
  // What a snapshot has as it was names the same extents, and is not billed.
  const image = 'SELECT 1 FROM held_versions WHERE bucket_id = ? AND key = ? AND seq = ? LIMIT 1';
  if (await tx.get(image, bucket.id, key, seq)) return null;
  if (isOwnClass(to) && !(await readClassRow(tx, bucket.tenant, to))) return null;
  const attributes = JSON.parse(found.attributes) as Attributes;
  // Nothing that has no recipe could be made again, nor what a customer's key encrypts.
  const needsRecipe = (await readClassTerms(tx, bucket.tenant, to)).loss === 'recipe';
  if (needsRecipe && (attributes.customer || attachedRecipe(attributes) === undefined)) return null;
  return (await refuseLossyLock(tx, bucket, to, attributes)) ? null : found;
}

async function placeRow(
  tx: Tx,
  bucket: OpenBucket,
  found: FoundVersion,
  placed: { class: string; manifest: Uint8Array | null; billed: number },
  { keyring, timeMs }: Moment,
): Promise<void> {
  const table = found.supersededSeq === null ? 'versions' : 'noncurrent_versions';
  const at = [found.bucketId, found.key, found.seq];
  const where = 'WHERE bucket_id = ? AND key = ? AND seq = ?';
  const { class: to, billed } = placed;
  const manifest = placed.manifest ?? found.manifest;
  const object = sealObject(keyring, { ...found, tenant: bucket.tenant, class: to, manifest });
  const rowMac = computeRowMac(keyring, bucket, found, object);
  const { epoch, manifestMac } = object;
  await tx.run(
    `UPDATE ${table} SET class = ?, attributes = ?, epoch = ?, manifest_mac = ?, row_mac = ?,
       billed = ? ${where}`,
    ...[to, found.attributes, epoch, manifestMac, rowMac, BigInt(billed), ...at],
  );
  if (!placed.manifest) return;
  const named = await tx.get<{ longManifest: number | null }>(
    `SELECT ${longManifestOf('v')} FROM ${table} AS v ${where}`,
    ...at,
  );
  await tx.run(
    `UPDATE ${table} SET manifest = ? ${where}`,
    ...[await placeManifest(tx, manifest), ...at],
  );
  await dropManifest(tx, { ...found, longManifest: named?.longManifest ?? null }, timeMs);
}
