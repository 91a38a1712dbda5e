// Changes that a restore makes, of what a backup has, into what the journal of an S3 store says
// (src/backup/forward). They were decided when they were first made, so nothing is decided again: a
// lock that was over then, or a bypass that was allowed, is not looked at. Invariant: as with any
// write, rows, counters and record are one transaction, and each row's MAC is made where it is
// changed.
import { hash } from 'node:crypto';
import type { Tx } from '../core/database.ts';
import { configured } from './bucket-changes.ts';
import { type BucketRow, getBucket, readSettings, storeSetting } from './buckets.ts';
import { type Moment, noStorage, type Outcome, refused } from './outcome.ts';
import { putBackSettings } from './put-back-settings.ts';
import { adoptFromStores, placeCopies } from './restore.ts';
import { endNamed } from './version-changes.ts';
import { placeElsewhere } from './version-moves.ts';
import { namedIn, openKey } from './version-places.ts';
import { amendRow } from './version-rows.ts';

const unconditional = { ifMatch: null, ifNoneMatch: null };

/** A version by its key and id; null: S3's `null` version. */
interface Named {
  bucketId: number;
  key: string;
  versionId: string | null;
}

export interface RestoreEnd extends Named {
  kind: 'restoreEnd';
}

/** Ends a version; when it was the current one, the newest of those before it is again. */
export async function restoreEnd(
  tx: Tx,
  { bucketId, key, versionId }: RestoreEnd,
  moment: Moment,
): Promise<Outcome<null>> {
  const name = { bucketId, key, versionId: versionId ?? 'null', conditions: unconditional };
  const opening = await openKey(tx, name, moment);
  if (!opening.ok) return opening;
  const { bucket, found } = opening.result;
  return found ? endNamed(tx, { bucket, found }, moment) : refused('NoSuchVersion');
}

export interface RestoreAttributes extends Named {
  kind: 'restoreAttributes';
  /** JSON, as in the catalog. */
  attributes: string;
}

/** Gives a version the tags and the lock that it had. */
export async function restoreAttributes(
  tx: Tx,
  { bucketId, key, versionId, attributes }: RestoreAttributes,
  moment: Moment,
): Promise<Outcome<null>> {
  const name = { bucketId, key, versionId: versionId ?? 'null', conditions: unconditional };
  const opening = await openKey(tx, name, moment);
  if (!opening.ok) return opening;
  const { bucket, found } = opening.result;
  if (!found) return refused('NoSuchVersion');
  if (found.isDamaged) return refused('BursarIntegrityError');
  await amendRow(tx, bucket, found, attributes, moment);
  const amended = { seq: found.seq, attributes: hash('sha256', attributes, 'hex') };
  const named = namedIn(bucket, { versionId, isMarker: found.isMarker === 1 });
  return { ok: true, storage: { ...noStorage, ...named, amended }, result: null };
}

export interface RestoreMove extends Named {
  kind: 'restoreMove';
  class: string;
  /** Of extents that are in the stores that it says, or at least in those of `places`. */
  manifest: Uint8Array;
  places?: Record<string, number[]> | undefined;
  /** As moved versions have them, which makes no image of it in a snapshot. */
  attributes: string;
}

/** Has a version in the class into which it was moved. */
export async function restoreMove(
  tx: Tx,
  { bucketId, key, versionId, class: to, manifest, places, attributes }: RestoreMove,
  moment: Moment,
): Promise<Outcome<null>> {
  const name = { bucketId, key, versionId: versionId ?? 'null', conditions: unconditional };
  const opening = await openKey(tx, name, moment);
  if (!opening.ok) return opening;
  const { bucket, found } = opening.result;
  if (!found) return refused('NoSuchVersion');
  if (found.isDamaged) return refused('BursarIntegrityError');
  const isOther = Buffer.compare(found.manifest, manifest) !== 0;
  if (isOther) await adoptFromStores(tx, bucket, manifest, moment.timeMs);
  if (places) await placeCopies(tx, bucket, places, { class: to, manifest }, moment);
  const placed = { class: to, manifest: isOther ? manifest : null };
  const storage = await placeElsewhere(tx, bucket, { ...found, attributes }, placed, moment);
  const amended = { seq: found.seq, attributes: hash('sha256', attributes, 'hex') };
  return { ok: true, storage: { ...storage, amended }, result: null };
}

export interface RestoreSettings {
  kind: 'restoreSettings';
  bucket: BucketRow;
  /** JSON, by name. */
  settings: Record<string, string>;
}

/**
 * Sets a bucket up as it was, with the owner that it had: what it keeps is that one's from now on.
 * Refuses NoSuchBucket.
 */
export async function restoreSettings(
  tx: Tx,
  { bucket, settings: wanted }: RestoreSettings,
  moment: Pick<Moment, 'seq' | 'timeMs'>,
): Promise<Outcome<null>> {
  const current = await getBucket(tx, bucket.id);
  if (!current) return refused('NoSuchBucket');
  await tx.run(
    `UPDATE buckets SET owner = ?, policy = ?, versioning = ?, object_lock = ?, public_access = ?,
       ownership = ?, record_reads = ? WHERE id = ?`,
    ...[bucket.owner, bucket.policy, bucket.versioning, bucket.objectLock],
    ...[bucket.publicAccess, bucket.ownership, bucket.recordReads, bucket.id],
  );
  const before = await readSettings(tx, bucket.id);
  const settings = putBackSettings(wanted, moment, before);
  for (const name of new Set([...Object.keys(before), ...Object.keys(settings)])) {
    await storeSetting(
      tx,
      bucket.id,
      name as Parameters<typeof storeSetting>[2],
      settings[name] ?? null,
    );
  }
  const outcome = { ok: true, storage: await configured(tx, bucket.id), result: null } as const;
  const { owner: from, tenant, name } = current;
  if (from === bucket.owner) return outcome;
  return { ...outcome, handedOver: { bucket: { tenant, name }, from, to: bucket.owner } };
}
