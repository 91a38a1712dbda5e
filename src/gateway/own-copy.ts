// Who copied an object may read the copy for as long as they may read its source, where no rule
// denies it: it tells them nothing that they could not read anyway. Invariant: nothing follows from
// having written an object, only from what may be read elsewhere, now.
import { type Attributes, findNamed, type Version } from '../catalog/versions.ts';
import type { AskedRights } from './asked-rights.ts';
import { tagsOf } from './object-tags.ts';

/** Has who asks made this version as a copy, and may they read its source? */
export async function isOwnCopy(
  context: AskedRights,
  version: Version | undefined,
): Promise<boolean> {
  const copied = version && (JSON.parse(version.attributes) as Attributes).copied;
  const { who, rooms, requester } = context;
  if (!copied || who.isAnonymous || copied.by !== requester) return false;
  const { tenant, bucket: name, bucketId, key } = copied;
  const bucket = await rooms.buckets.find(tenant, name);
  // Another bucket may have the name by now, maybe one of who asks.
  if (bucket?.id !== bucketId) return false;
  const askedName = tenant === who.principal.tenant ? name : `${tenant}:${name}`;
  return context.mayReach({
    action: 's3:GetObject',
    askedName,
    found: { tenant, name, bucket },
    key,
    listPrefix: null,
    loadTags: async () => tagsOf(await findNamed(rooms, bucket, { key })),
  });
}

/** What a copy keeps of where it comes from; nothing of a version that was named by its id. */
export function copiedFrom({ requester, source }: AskedRights): Attributes['copied'] {
  const { found, key, versionId } = source;
  if (versionId !== undefined || !found.bucket) return undefined;
  const { tenant, name: bucket } = found;
  return { by: requester, tenant, bucket, bucketId: found.bucket.id, key };
}
