// The access control list of a bucket, and that of an object. What is in one, and where it counts,
// is said by buckets/acl.ts.
import { recordedChange } from '../../../audit/recorded-change.ts';
import type { Attributes } from '../../../catalog/versions.ts';
import { Refusal } from '../../../core/errors.ts';
import { emptyReply } from '../../http/reply.ts';
import { findAsked, shownId, versionHeaders } from '../asked-version.ts';
import { receiveSmall } from '../body.ts';
import {
  aclReply,
  allowsAcls,
  checkMayHave,
  keptAcl,
  type NamedAcl,
  readAcl,
} from '../buckets/acl.ts';
import { demandDigest } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const getBucketAcl: Operation<'bucket'> = {
  name: 'GetBucketAcl',
  action: 's3:GetBucketAcl',
  resource: 'bucket',
  price: 'get',
  run: async ({ bucket }) => aclReply(bucket, bucket.publicAccess?.acl),
};

/** It is taken where the ownership controls of the bucket allow lists. */
export const putBucketAcl: Operation<'bucket'> = {
  name: 'PutBucketAcl',
  action: 's3:PutBucketAcl',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax: 64 * 1024,
  async run(context) {
    const named = await receiveAcl(context);
    // Of a bucket that allows none, S3 refuses each.
    if (!allowsAcls(context.bucket.ownership)) throw new Refusal('AccessControlListNotSupported');
    const { acl = null } = keptAcl(named);
    await context.commit(
      {
        kind: 'putBucketSetting',
        bucketId: context.bucket.id,
        name: 'acl',
        document: acl && JSON.stringify(acl),
      },
      { change: recordedChange({ acl: acl ?? 'private' }) },
    );
    return emptyReply(200);
  },
};

export const getObjectAcl: Operation<'object'> = {
  name: 'GetObjectAcl',
  action: 's3:GetObjectAcl',
  versionAction: 's3:GetObjectVersionAcl',
  resource: 'object',
  price: 'get',
  async run(context) {
    const version = await findAsked(context);
    const { acl } = JSON.parse(version.attributes) as Attributes;
    const reply = aclReply(context.bucket, acl);
    Object.assign(reply.headers, versionHeaders(context.bucket, version));
    return reply;
  },
};

export const putObjectAcl: Operation<'object'> = {
  name: 'PutObjectAcl',
  action: 's3:PutObjectAcl',
  versionAction: 's3:PutObjectVersionAcl',
  resource: 'object',
  price: 'put',
  bodyBytesMax: 64 * 1024,
  async run(context) {
    const { bucket, key } = context;
    const named = await receiveAcl(context);
    const version = await findAsked(context, 'MethodNotAllowed');
    const { acl = null } = keptAcl(named);
    const change = recordedChange({ acl: acl ?? 'private' });
    const isSame = acl === null && (JSON.parse(version.attributes) as Attributes).acl === undefined;
    // This very version, for which it was decided, and no newer one.
    const versionId = shownId(bucket, version);
    const amendment = { kind: 'amendVersion', versionId, amendment: { acl } } as const;
    await context.commit(isSame ? { kind: 'none' } : { ...amendment, bucketId: bucket.id, key }, {
      change,
    });
    return emptyReply(200, versionHeaders(bucket, version));
  },
};

/** Receives the list that is set. Throws `Refusal` for one that cannot be. */
async function receiveAcl(context: Reserved<'bucket'>): Promise<NamedAcl> {
  const body = await receiveSmall(context);
  if (body.length > 0) demandDigest(context);
  const named = readAcl(context, body);
  checkMayHave(context.bucket, named);
  return named;
}
