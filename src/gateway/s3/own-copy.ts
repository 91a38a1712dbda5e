// Who copied an object may read the copy for as long as they may read its source and could write
// there, where no rule denies it: it tells them nothing that they could not read anyway.
// Invariants: nothing follows from having written an object, only from what may be read elsewhere,
// now; and who could write nothing there is refused before it is looked whether there is anything,
// since the time would tell them.
import { type Attributes, type EvenlyFound, findNamedEvenly } from '../../catalog/versions.ts';
import type { AskedRequest } from './asked.ts';
import type { Asked } from './stages.ts';

/** Has who asks made this version of the key as a copy, and may they read its source? */
export async function isOwnCopy(
  context: AskedRequest,
  key: string,
  load: () => Promise<EvenlyFound>,
): Promise<boolean> {
  const { who, services, requester } = context;
  if (who.isAnonymous || !context.couldWrite(key)) return false;
  const { version } = await load();
  const copied = version && (JSON.parse(version.attributes) as Attributes).copied;
  if (!copied || copied.by !== requester) return false;
  const { tenant, bucket: name, bucketId, key: sourceKey } = copied;
  const bucket = await services.buckets.find(tenant, name);
  // Another bucket may have the name by now, maybe one of who asks.
  if (bucket?.id !== bucketId) return false;
  const askedName = tenant === who.principal.tenant ? name : `${tenant}:${name}`;
  return context.mayReach({
    action: 's3:GetObject',
    askedName,
    found: { tenant, name, bucket },
    key: sourceKey,
    listPrefix: null,
    loadTags: async () => (await findNamedEvenly(services, bucket, { key: sourceKey })).tags,
  });
}

/** What a copy keeps of where it comes from; nothing of a version that was named by its id. */
export function copiedFrom({ requester, source }: Asked<'copy'>): Attributes['copied'] {
  const { found, key, versionId } = source;
  if (versionId !== undefined || !found.bucket) return undefined;
  const { tenant, name: bucket } = found;
  return { by: requester, tenant, bucket, bucketId: found.bucket.id, key };
}
