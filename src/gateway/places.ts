// What the names of a request mean: its bucket, and what it copies.
import type { Identity } from '../authz/identity.ts';
import { lookUpBucket, type NamedBucket, publicBucketName } from './bucket-lookup.ts';
import { nameSource, type SourceName } from './copy-source.ts';
import { header, type S3Request } from './request.ts';
import type { RequestServices } from './services.ts';
import type { Resource } from './stages.ts';

/** The bucket that is meant; null: the request is about none. Throws `Refusal`. */
export async function findBucket(
  rooms: RequestServices,
  request: S3Request,
  { isAnonymous, principal: { tenant } }: Identity,
  resource: Resource,
): Promise<NamedBucket | null> {
  const name = isAnonymous ? publicBucketName(request, rooms.domains) : request.bucketName;
  if (name === null) return null;
  const found = await lookUpBucket(rooms, tenant, name, resource === 'bucketName');
  rooms.distrust.checkBucket(found.tenant, found.name);
  return found;
}

/** What is copied; null: nothing. Throws `Refusal`. */
export async function findSource(
  rooms: RequestServices,
  request: S3Request,
  { principal: { tenant } }: Identity,
  resource: Resource,
): Promise<SourceName | null> {
  const text = resource === 'copy' ? header(request, 'x-amz-copy-source') : undefined;
  if (text === undefined) return null;
  const source = await nameSource(rooms, tenant, text);
  rooms.distrust.checkBucket(source.found.tenant, source.found.name);
  return source;
}
