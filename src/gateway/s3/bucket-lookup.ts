// Which bucket a name means: a mount of the requester's own, a bucket of its own tenant, another's
// as `tenant:bucket`, or a mount, a name in the tenant's namespace for another tenant's, or an
// alias that another tenant's grant brings along.
// Specifications of the Amazon S3 user guide: "Bucket naming rules", general purpose buckets, and
// "Verifying bucket ownership".
import type { Identity } from '../../authz/identity.ts';
import type { Bucket } from '../../catalog/buckets.ts';
import { Refusal } from '../../core/errors.ts';
import { isName, namePart } from '../../core/names.ts';
import { principalId } from '../../core/principal.ts';
import type { Mount } from '../../state/mount-book.ts';
import type { KeptSnapshot } from '../../state/snapshot-cache.ts';
import type { RequestServices } from '../services.ts';
import { bucketOfHost, type S3Request } from './request.ts';
import type { ShownSnapshot } from './snapshot-mount.ts';
import type { Resource } from './stages.ts';

export interface NamedBucket {
  /** The tenant in whose namespace the bucket is, or would be. */
  tenant: string;
  /** Its name there. */
  name: string;
  /** Undefined: there is none of this name. */
  bucket: Bucket | undefined;
  /** The snapshot of it that the name stands for; absent: the bucket as it is. */
  at?: ShownSnapshot;
  /** The query that what the name stands for fits; absent: it stands for all. */
  where?: string;
}

const shape = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;
const address = /^\d{1,3}(\.\d{1,3}){3}$/;
const reserved = /^(?:xn--|sthree-|amzn-s3-demo-)|(?:-s3alias|--ol-s3|\.mrap|--x-s3|--table-s3)$/;

export function isBucketName(name: string): boolean {
  return (
    shape.test(name) && !/\.[.-]|-\./.test(name) && !address.test(name) && !reserved.test(name)
  );
}

/** Throws `Refusal` InvalidBucketName. */
export function checkBucketName(name: string): void {
  if (isBucketName(name)) return;
  throw new Refusal('InvalidBucketName', { message: nameWords, fields: { BucketName: name } });
}

const nameWords =
  'The specified bucket is not valid: a name has 3 to 63 of a-z, 0-9, "-" and ".", is no ' +
  'address, and has none of the beginnings and ends that S3 keeps for itself.';

/**
 * The bucket that a request means; null: it is about none. A promise only where that is not in
 * memory. Throws, or rejects with, `Refusal`.
 */
export function findBucket(
  services: RequestServices,
  request: S3Request,
  { isAnonymous, principal }: Identity,
  resource: Resource,
): NamedBucket | null | Promise<NamedBucket> {
  const name = isAnonymous ? publicBucketName(services, request) : request.bucketName;
  if (name === null) return null;
  const find = (one: string) => lookUpBucket(services, principal, one, resource === 'bucketName');
  const found = name instanceof Promise ? name.then(find) : find(name);
  if (found instanceof Promise) return found.then((one) => checkTrusted(services, one));
  return checkTrusted(services, found);
}

/** Throws IntegrityError for a bucket that is not served. */
function checkTrusted({ sealFaults }: RequestServices, found: NamedBucket): NamedBucket {
  if (!sealFaults.isEmpty) sealFaults.checkBucket(found.tenant, found.name);
  return found;
}

/** Who names a bucket. `id`: of the principal, `tenant/name`; absent: it has no own names. */
export interface Namer {
  tenant: string;
  id?: string;
}

/**
 * Throws, or rejects with, `Refusal` InvalidBucketName for what can be no bucket's name. `isNew`:
 * the name is for a bucket that is to be made, so it stands for no mount, and cannot be one that
 * the namer has given to another.
 */
export function lookUpBucket(
  services: Pick<RequestServices, 'buckets' | 'mounts' | 'snapshots' | 'grants'>,
  { tenant, id }: Namer,
  asked: string,
  isNew = false,
): NamedBucket | Promise<NamedBucket> {
  const colon = asked.indexOf(':');
  const owner = colon < 0 ? tenant : asked.slice(0, colon);
  if (colon >= 0 && !isName(owner)) {
    throw new Refusal('InvalidBucketName', { fields: { BucketName: asked } });
  }
  const name = asked.slice(colon + 1);
  checkBucketName(name);
  const own = colon < 0 && id !== undefined ? services.mounts.findOwn(id, name) : undefined;
  if (own && isNew) {
    const message = `${name} is a mount of your own (bursar mount delete ${id}/${name}).`;
    throw new Refusal('BucketAlreadyExists', { message, fields: { BucketName: name } });
  }
  if (own) return findMounted(services, own);
  const bucket = services.buckets.find(owner, name);
  const mayBeMount = colon < 0 && !isNew;
  const found = (one: Bucket | undefined): NamedBucket | Promise<NamedBucket> => {
    const { mounts, grants } = services;
    const mount =
      one || !mayBeMount
        ? undefined
        : (mounts.find(owner, name) ?? grants.aliases.find(owner, name));
    return mount ? findMounted(services, mount) : { tenant: owner, name, bucket: one };
  };
  return bucket instanceof Promise ? bucket.then(found) : found(bucket);
}

type MountTarget = Pick<Mount, 'bucketTenant' | 'bucket' | 'at' | 'where'>;

/**
 * What a mount leads to. A snapshot that is not there is a bucket that is not there. A promise only
 * where something of it is not in memory.
 */
export function findMounted(
  { buckets, snapshots }: Pick<RequestServices, 'buckets' | 'snapshots'>,
  { bucketTenant: tenant, bucket: name, at, where }: MountTarget,
): NamedBucket | Promise<NamedBucket> {
  const found = (bucket: Bucket | undefined): NamedBucket | Promise<NamedBucket> => {
    const fitting = where === null ? {} : { where };
    if (at === null) return { tenant, name, bucket, ...fitting };
    // It is looked for in any case, so that the time does not tell whether the bucket is there.
    const snapshot = snapshots.find({ tenant, bucket: name, id: bucket?.id }, at);
    const shown = (one: KeptSnapshot): NamedBucket =>
      one
        ? { tenant, name, bucket, at: one, ...fitting }
        : { tenant, name, bucket: undefined, at: { seq: -1, prefix: '' }, ...fitting };
    return snapshot instanceof Promise ? snapshot.then(shown) : shown(snapshot);
  };
  const bucket = buckets.find(tenant, name);
  return bucket instanceof Promise ? bucket.then(found) : found(bucket);
}

/**
 * The bucket that a request without credentials means: a host that names a bucket names its tenant
 * behind it, `bucket.tenant.DOMAIN`; all other names are the default tenant's. What is behind the
 * last dot is a part of the name where no tenant is called so: nobody can take a host from a tenant
 * that is there, by a bucket of the name.
 */
export function publicBucketName(
  { directory, domains }: Pick<RequestServices, 'directory' | 'domains'>,
  { bucketName, headers }: Pick<S3Request, 'bucketName' | 'headers'>,
): string | null | Promise<string> {
  const dot = bucketName?.lastIndexOf('.') ?? -1;
  if (bucketName === null || dot < 0) return bucketName;
  if (bucketOfHost(headers.host ?? '', domains) === null) return bucketName;
  const tenant = bucketName.slice(dot + 1);
  const named = `${tenant}:${bucketName.slice(0, dot)}`;
  return directory.readTenant(tenant).then((found) => (found ? named : bucketName));
}

/** The names by which a principal of `tenant` can mean the bucket; a scope may have either. */
export function namesOfBucket(tenant: string, asked: string, found: NamedBucket): string[] {
  const own = found.tenant === tenant ? found.name : `${found.tenant}:${found.name}`;
  return own === asked ? [own] : [own, asked];
}

/** An owner as it is named here, or as Amazon names accounts, which nobody here is. */
const ownerForm = new RegExp(`^(?:\\d{12}|${namePart}/${namePart})$`);

/**
 * `x-amz-expected-bucket-owner` and its twin for copy sources are the client's safeguard against
 * writing into somebody else's bucket. Throws `Refusal` AccessDenied unless the bucket's owner is
 * whom the header, if any, names.
 */
export function checkExpectedOwner(request: S3Request, headerName: string, bucket: Bucket): void {
  const expected = request.headers[headerName];
  if (expected === undefined || expected === principalId(bucket.tenant, bucket.owner)) return;
  if (!ownerForm.test(expected)) {
    const message =
      'The value of the expected bucket owner parameter must be an AWS Account ID... ' +
      `[${expected}]`;
    throw new Refusal('InvalidBucketOwnerAWSAccountID', { message });
  }
  throw new Refusal('AccessDenied', { cause: 'the bucket has another owner' });
}
