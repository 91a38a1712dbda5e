// What may be done with a bucket as it was: a mount of a snapshot is read and listed, and copied
// from. Invariants: reading a snapshot is reading versions, so the rights to these are asked for,
// on the bucket and the key that are really meant; and nothing is written by its name.
import type { S3Action } from '../../authz/grants/actions.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import { findAt } from '../../catalog/snapshot-reads.ts';
import {
  type Attributes,
  type Catalog,
  type EvenlyFound,
  findNamedEvenly,
  type VersionWithBody,
} from '../../catalog/versions.ts';
import { Refusal } from '../../core/errors.ts';
import type { AnyOperation } from './operation.ts';
import { isRead, type S3Request } from './request.ts';

/** The snapshot that a mount shows. */
export interface ShownSnapshot {
  seq: number;
  /** Of the keys that it is of. */
  prefix: string;
}

/**
 * What an operation asks for in a snapshot. Throws `Refusal` MethodNotAllowed for what would change
 * something, or is of what snapshots do not have, such as unfinished uploads.
 */
export function actionInSnapshot(
  request: S3Request,
  { name, action, versionAction, resource }: AnyOperation,
): S3Action {
  const isOfUploads = name === 'ListParts' || name === 'ListMultipartUploads';
  if (!isRead(request) || isOfUploads) {
    const fields = { Method: request.method, ResourceType: 'SNAPSHOT' };
    throw new Refusal('MethodNotAllowed', { fields, headers: { allow: 'GET, HEAD' } });
  }
  if (resource === 'listing' || action === 's3:ListBucket') return 's3:ListBucketVersions';
  return versionAction ?? action;
}

/**
 * The version of a key, or the one of this name, as of the snapshot; undefined: there was none.
 * Throws IntegrityError when it is not authentic.
 */
export async function findInSnapshot(
  catalog: Catalog,
  bucket: Bucket,
  { seq, prefix }: ShownSnapshot,
  { key, versionId }: { key: string; versionId: string | undefined },
): Promise<VersionWithBody | undefined> {
  if (!key.startsWith(prefix)) return undefined;
  return findAt(catalog, bucket, { key, versionId, at: seq });
}

/**
 * The version, for who may not know whether it is there (`findNamedEvenly`). What is in a snapshot
 * only who may read versions learns, and is looked up once.
 */
export async function findEvenly(
  catalog: Catalog,
  bucket: Bucket,
  name: { key: string; versionId: string | undefined },
  at: ShownSnapshot | undefined,
): Promise<EvenlyFound> {
  if (!at) return findNamedEvenly(catalog, bucket, name);
  const version = await findInSnapshot(catalog, bucket, at, name);
  if (!version) return { version, tags: [] };
  const { tags = [] } = JSON.parse(version.attributes) as Attributes;
  return { version, tags };
}
