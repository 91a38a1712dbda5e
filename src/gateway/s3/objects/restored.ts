// Whether what is in a class that is read after a restore can be read now, and what is said of
// that. Invariant: no byte of it is given out, nor copied, before it was restored.
// Specification: "Working with archived objects" of the Amazon S3 user guide.

import type { Bucket } from '../../../catalog/buckets.ts';
import { findRestore, isReadable } from '../../../catalog/restore-rows.ts';
import type { Version } from '../../../catalog/versions.ts';
import { httpTime } from '../../../core/clock.ts';
import { Refusal } from '../../../core/errors.ts';
import { isOwnClass } from '../../../core/own-class.ts';
import { steadyClock } from '../../../core/steady-clock.ts';
import type { RequestServices } from '../../services.ts';
import { answeringStore, isReadAfterRestore, shownClass } from './written-class.ts';

type RestoreServices = Pick<RequestServices, 'read' | 'classes' | 'stores'>;
type OfBucket = Pick<Bucket, 'tenant'>;
type OfVersion = Pick<Version, 'class' | 'seq'>;

/** Whether a version is read after a restore. */
export function isArchived(
  services: Pick<RequestServices, 'classes' | 'stores'>,
  { tenant }: OfBucket,
  { class: of }: Pick<Version, 'class'>,
): boolean {
  return isOwnClass(of) && isReadAfterRestore(services, tenant, of);
}

/** Whether a restore has paid for its retrieval: what S3 restores from an archive is a copy. */
export function isPaidByRestore(
  services: Pick<RequestServices, 'classes' | 'stores'>,
  bucket: Pick<Bucket, 'tenant' | 'store'>,
  version: Pick<Version, 'class'>,
): boolean {
  if (!isArchived(services, bucket, version)) return false;
  return services.stores.isArchive(answeringStore(services, bucket, version.class));
}

/** Rejects with `Refusal` InvalidObjectState; null: it is read at once. */
export function checkRestored(
  services: RestoreServices,
  bucket: OfBucket,
  version: OfVersion,
): Promise<void> | null {
  if (!isArchived(services, bucket, version)) return null;
  return findRestore(services.read, version.seq).then((restore) => {
    if (!isReadable(restore, steadyClock.nowMs())) throw notRestored(services, bucket, version);
  });
}

export function notRestored(
  services: Pick<RequestServices, 'classes'>,
  { tenant }: OfBucket,
  { class: of }: Pick<Version, 'class'>,
): Refusal {
  const StorageClass = shownClass(services, tenant, of);
  const AccessTier = services.classes.named(tenant, of)?.definition.tier?.archive;
  const fields = { StorageClass, ...(AccessTier && { AccessTier }) };
  return new Refusal('InvalidObjectState', { fields });
}

/** `x-amz-restore`, none of what was not asked for; and in which archive a tier of a class is. */
export async function restoreHeaders(
  services: RestoreServices,
  bucket: OfBucket,
  version: OfVersion,
): Promise<Record<string, string>> {
  if (!isArchived(services, bucket, version)) return {};
  const archive = services.classes.named(bucket.tenant, version.class)?.definition.tier?.archive;
  const headers: Record<string, string> = archive ? { 'x-amz-archive-status': archive } : {};
  const restore = await findRestore(services.read, version.seq);
  if (!restore) return headers;
  if (restore.expiresMs === null) {
    return { ...headers, 'x-amz-restore': 'ongoing-request="true"' };
  }
  if (!isReadable(restore, steadyClock.nowMs())) return headers;
  const until = httpTime(restore.expiresMs);
  return { ...headers, 'x-amz-restore': `ongoing-request="false", expiry-date="${until}"` };
}
