// What is asked of the native API about a place in a bucket, as S3 clients name it, is asked in the
// caller's own tenant, also of another's bucket.
import type { Connection } from '../api-client.ts';
import { findPlace, findTenant } from '../bucket-names.ts';

export interface OwnPlace {
  path: string[];
  query: { bucket?: string; prefix?: string };
}

/** Throws `CommandFailure`. */
export async function findOwnPlace(
  connection: Connection,
  place: string | undefined,
): Promise<OwnPlace> {
  const own = await findTenant(connection);
  const path = ['tenants', own];
  if (place === undefined) return { path, query: {} };
  const { tenant, bucket, key } = await findPlace(connection, place);
  const name = tenant === own ? bucket : `${tenant}:${bucket}`;
  return { path, query: { bucket: name, ...(key === '' ? {} : { prefix: key }) } };
}

/** A bucket that S3 clients of a tenant name, as everybody can: `TENANT:BUCKET`. */
export function fullName(tenant: string, bucket: string): string {
  return bucket.includes(':') ? bucket : `${tenant}:${bucket}`;
}

/** The same as clients of the tenant name it, in short. */
export function shortName(tenant: string, bucket: string): string {
  return bucket.startsWith(`${tenant}:`) ? bucket.slice(tenant.length + 1) : bucket;
}
