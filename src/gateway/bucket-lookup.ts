// Which bucket a name means: one of the requester's own tenant, another's as `tenant:bucket`, or a
// mount, an alias in the requester's namespace for another tenant's.
import type { Bucket } from '../catalog/buckets.ts';
import { Refusal } from '../core/errors.ts';
import { checkBucketName } from './bucket-name.ts';
import { bucketOfHost, type S3Request } from './request.ts';
import type { RequestServices } from './services.ts';

export interface NamedBucket {
  /** The tenant in whose namespace the bucket is, or would be. */
  tenant: string;
  /** Its name there. */
  name: string;
  /** Undefined: there is none of this name. */
  bucket: Bucket | undefined;
}

const tenantForm = /^[a-z0-9][a-z0-9._-]{0,62}$/;

/**
 * Throws `Refusal` InvalidBucketName for what can be no bucket's name. `isNew`: the name is for a
 * bucket that is to be made, so it stands for no mount.
 */
export async function lookUpBucket(
  rooms: Pick<RequestServices, 'buckets' | 'mounts'>,
  tenant: string,
  asked: string,
  isNew = false,
): Promise<NamedBucket> {
  const colon = asked.indexOf(':');
  if (colon >= 0) {
    const owner = asked.slice(0, colon);
    const name = asked.slice(colon + 1);
    if (!tenantForm.test(owner)) {
      throw new Refusal('InvalidBucketName', { fields: { BucketName: asked } });
    }
    checkBucketName(name);
    return { tenant: owner, name, bucket: await rooms.buckets.find(owner, name) };
  }
  checkBucketName(asked);
  const bucket = await rooms.buckets.find(tenant, asked);
  const mount = bucket || isNew ? undefined : rooms.mounts.find(tenant, asked);
  if (!mount) return { tenant, name: asked, bucket };
  const { bucketTenant, bucket: name } = mount;
  return { tenant: bucketTenant, name, bucket: await rooms.buckets.find(bucketTenant, name) };
}

/**
 * The bucket that a request without credentials means: a host that names a bucket names its tenant
 * behind it, `bucket.tenant.DOMAIN`; all other names are the default tenant's.
 */
export function publicBucketName(
  { bucketName, headers }: Pick<S3Request, 'bucketName' | 'headers'>,
  domains: readonly string[],
): string | null {
  const dot = bucketName?.lastIndexOf('.') ?? -1;
  if (dot < 0 || bucketOfHost(headers.host ?? '', domains) === null) return bucketName;
  return `${bucketName?.slice(dot + 1)}:${bucketName?.slice(0, dot)}`;
}

/** The names by which a principal of `tenant` can mean the bucket; a scope may have either. */
export function namesOfBucket(tenant: string, asked: string, found: NamedBucket): string[] {
  const own = found.tenant === tenant ? found.name : `${found.tenant}:${found.name}`;
  return own === asked ? [own] : [own, asked];
}
