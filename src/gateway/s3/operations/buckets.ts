// What is asked of a bucket itself: to make it, to look whether and where it is, to delete it.
import type { CreateBucket } from '../../../catalog/bucket-changes.ts';
import { type Exposure, findBucket } from '../../../catalog/buckets.ts';
import { findDefaultStore } from '../../../catalog/stores.ts';
import type { Tags } from '../../../catalog/versions.ts';
import { invalidArgument, Refusal } from '../../../core/errors.ts';
import { bucketTagsMax } from '../../../core/limits.ts';
import { principalId } from '../../../core/principal.ts';
import { emptyReply, type Reply } from '../../http/reply.ts';
import { childOf, parseXml, renderXml, textOf } from '../../http/xml.ts';
import { chooseStore, storeHeader } from '../../store-list.ts';
import { receiveSmall } from '../body.ts';
import { checkOwnership, readNewBucketAcl } from '../buckets/acl.ts';
import { bucketArn } from '../buckets/listing-xml.ts';
import { everythingBlocked } from '../buckets/public-access.ts';
import { noTags, parseTagSet } from '../objects/object-attributes.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

/**
 * Creating one's own bucket again succeeds, as in S3's us-east-1, unless it is asked for in another
 * store: a bucket's bytes stay in the store that it was made in.
 */
export const createBucket: Operation<'bucketName'> = {
  name: 'CreateBucket',
  action: 's3:CreateBucket',
  resource: 'bucketName',
  price: 'put',
  bodyBytesMax: 64 * 1024,
  run: create,
};

async function create(context: Reserved<'bucketName'>): Promise<Reply> {
  const tags = parseConfiguration(await receiveSmall(context), context.services.region);
  const { name: owner, tenant: ownTenant } = context.who.principal;
  const { bucketTenant: tenant, bucketName: name } = context;
  // A bucket's owner is of its tenant.
  if (tenant !== ownTenant) throw new Refusal('AccessDenied');
  // That the name is taken comes before any right to what has it.
  if ((context.bucket?.owner ?? owner) !== owner) {
    throw takenBy(context, context.bucket?.owner ?? null);
  }
  const { read, stores } = context.services;
  const asked = context.request.headers[storeHeader];
  const store = chooseStore(stores, asked, await findDefaultStore(read, tenant));
  const kept = await readKept(context);
  const ownerId = principalId(tenant, owner);
  const block = context.services.blocksNewBuckets ? everythingBlocked : {};
  const acl = readNewBucketAcl(context.request, ownerId, {
    ownership: kept.ownership ?? null,
    publicAccess: block,
  });
  const exposure: Exposure = { ...block, ...acl };
  if (acl.acl) await context.asked.authorize('s3:PutBucketAcl');
  if (tags.length > 0) await context.asked.authorize('s3:PutBucketTagging');
  const result = await context.tryCommit(
    {
      ...{ kind: 'createBucket', tenant, name, owner, store, ...kept },
      ...(Object.keys(exposure).length > 0 && { publicAccess: exposure }),
      ...(tags.length > 0 && { tagging: JSON.stringify(tags) }),
    },
    {
      change: {
        owner,
        store: stores.nameOf(store),
        ...kept,
        ...acl,
        ...(tags.length > 0 && { tags }),
      },
    },
  );
  let made: number | undefined = store;
  if (!result.ok) {
    const isOwn = result.code === 'BucketAlreadyOwnedByYou';
    const found = isOwn ? await findBucket(read, tenant, name) : undefined;
    made = found?.store;
    const lacks = (kept.objectLock && !found?.objectLock) || tags.length > 0;
    if (result.code === 'BucketAlreadyExists') {
      throw takenBy(context, (await findBucket(read, tenant, name))?.owner ?? null);
    }
    if (made === undefined || lacks || (asked !== undefined && made !== store)) {
      throw new Refusal(result.code, { fields: { BucketName: name } });
    }
  }
  return emptyReply(200, {
    location: `/${name}`,
    [arnHeader]: bucketArn(name),
    [storeHeader]: stores.nameOf(made),
  });
}

/**
 * Whose the name is already: that it is taken is told anyway, and who there is in a tenant only to
 * those who administer or audit it. `owner` of the bucket; null: there is none, but a mount.
 */
function takenBy({ who, bucketName }: Reserved<'bucketName'>, owner: string | null): Refusal {
  const { tenant, role } = who.principal;
  const whose =
    owner === null
      ? `A mount of ${tenant} has the name ${bucketName}`
      : `${role === 'member' ? `Another principal of ${tenant}` : principalId(tenant, owner)} ` +
        `owns a bucket ${bucketName}`;
  return new Refusal('BucketAlreadyExists', {
    message: `${whose}; choose another name.`,
    fields: { BucketName: bucketName },
  });
}

const arnHeader = 'x-amz-bucket-arn';
const lockHeader = 'x-amz-bucket-object-lock-enabled';
const ownershipHeader = 'x-amz-object-ownership';

/**
 * What the headers say of the bucket besides its place. Who asks for more than a bucket needs the
 * rights to that too, as on S3.
 */
async function readKept(
  context: Reserved<'bucketName'>,
): Promise<Pick<CreateBucket, 'objectLock' | 'ownership'>> {
  const { request } = context;
  const lock = request.headers[lockHeader]?.toLowerCase() ?? 'false';
  const ownership = request.headers[ownershipHeader];
  if (ownership !== undefined) checkOwnership(ownership, ownershipHeader);
  if (ownership !== undefined) await context.asked.authorize('s3:PutBucketOwnershipControls');
  if (lock === 'true') {
    await context.asked.authorize('s3:PutBucketVersioning');
    await context.asked.authorize('s3:PutBucketObjectLockConfiguration');
  } else if (lock !== 'false') throw invalidArgument(lockHeader, lock);
  return {
    ...(lock === 'true' && { objectLock: true }),
    ...(ownership !== undefined && { ownership }),
  };
}

/** As S3 words it here, and otherwise where tags are put on a bucket that there is. */
const reservedWords =
  'User-defined tag keys can\'t start with "aws:". This prefix is reserved for system tags. ' +
  'Remove "aws:" from your tag keys and try again.';

/** The tags that the bucket is to have. Throws `Refusal`. */
function parseConfiguration(body: Buffer, region: string): Tags {
  if (body.length === 0) return noTags;
  const configuration = parseXml(body, 'CreateBucketConfiguration');
  for (const element of ['Location', 'Bucket']) {
    if (childOf(configuration, element)) {
      throw new Refusal('NotImplemented', { fields: { Element: element } });
    }
  }
  checkLocation(textOf(configuration, 'LocationConstraint') ?? '', region);
  const tags = childOf(configuration, 'Tags');
  if (!tags) return noTags;
  const isReserved = tags.children.some((node) => /^aws:/i.test(textOf(node, 'Key') ?? ''));
  if (isReserved) throw new Refusal('InvalidTag', { message: reservedWords });
  return parseTagSet(tags, bucketTagsMax);
}

export const headBucket: Operation<'bucket'> = {
  name: 'HeadBucket',
  action: 's3:ListBucket',
  resource: 'bucket',
  price: 'get',
  async run(context) {
    const { region, stores } = context.services;
    return emptyReply(200, {
      [arnHeader]: bucketArn(context.askedName),
      [storeHeader]: stores.nameOf(context.bucket.store),
      'x-amz-bucket-region': region,
      'x-amz-access-point-alias': 'false',
      'content-type': 'application/xml',
    });
  },
};

/** The gateway's region; empty for us-east-1, as S3 has it. */
export const getBucketLocation: Operation<'bucket'> = {
  name: 'GetBucketLocation',
  action: 's3:GetBucketLocation',
  resource: 'bucket',
  price: 'get',
  async run(context) {
    const { region } = context.services;
    const headers = { 'content-type': 'application/xml' };
    const body = renderXml('LocationConstraint', region === 'us-east-1' ? '' : region);
    return { status: 200, headers, body };
  },
};

/** An empty bucket only, of which no snapshot is left, and nothing that can be undeleted. */
export const deleteBucket: Operation<'bucket'> = {
  name: 'DeleteBucket',
  action: 's3:DeleteBucket',
  resource: 'bucket',
  price: 'free',
  async run(context) {
    const change = { kind: 'deleteBucket', bucketId: context.bucket.id } as const;
    const result = await context.tryCommit(change, { status: 204 });
    if (result.ok) return emptyReply(204);
    const { code, fields } = result;
    if (code === 'BucketNotEmpty' && !fields) throw notEmpty(context);
    if (!fields?.Snapshots && !fields?.HeldVersions) throw context.failureOf(result);
    const message = fields.Snapshots
      ? `The bucket has snapshots (${fields.Snapshots}), which must be deleted first.`
      : `What was deleted from the bucket can be brought back (${fields.HeldVersions} versions): ` +
        'its undelete window must be set to off first, and what it held goes in a moment then.';
    throw new Refusal(code, { message, fields });
  },
};

function notEmpty({ askedName, bucket }: Reserved<'bucket'>): Refusal {
  const fields = { BucketName: askedName };
  if (bucket.versioning === 'Unversioned') return new Refusal('BucketNotEmpty', { fields });
  const message =
    'The bucket you tried to delete is not empty. You must delete all versions in the bucket.';
  return new Refusal('BucketNotEmpty', { message, fields });
}

const regionForm = /^(?:EU|[a-z]{2}(?:-[a-z]+)+-\d)$/;

/**
 * Throws `Refusal` unless the bucket can be where it is to be. As on S3, a name that is no region's
 * is told apart in us-east-1 alone.
 */
function checkLocation(location: string, region: string): void {
  if (location === '' || location === region) return;
  if (location === 'EU' && region === 'eu-west-1') return;
  if (region === 'us-east-1' && !regionForm.test(location)) {
    throw new Refusal('InvalidLocationConstraint', { fields: { LocationConstraint: location } });
  }
  const message =
    `The ${location} location constraint is incompatible for the region specific endpoint this ` +
    'request was sent to.';
  throw new Refusal('IllegalLocationConstraintException', { message });
}
