// Of what rights are: a tenant, a principal or a bucket, as changes that take rights away name
// them, and decisions that depend on them.
import type { RecordDraft } from '../audit/record.ts';
import { principalId } from '../core/principal.ts';

/** What of a record says where it happened. */
export type RecordedPlace = Pick<RecordDraft, 'tenant' | 'principal' | 'bucket' | 'bucketTenant'>;

/** Of what a change takes rights away: a tenant, one principal, or one bucket. */
export type Scope = string;

export function tenantScope(tenant: string): Scope {
  return tenant;
}

export function principalScope(tenant: string, name: string): Scope {
  return `principal:${principalId(tenant, name)}`;
}

export function bucketScope(tenant: string, name: string): Scope {
  return `bucket:${tenant}/${name}`;
}

/** The bucket of a record; without its name, all buckets of the tenant. */
export function bucketOf({ tenant, bucketTenant, bucket }: RecordedPlace): Scope {
  const of = bucketTenant ?? tenant;
  return bucket ? bucketScope(of, bucket) : tenantScope(of);
}
