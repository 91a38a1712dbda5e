// The ACL of a bucket, and that of an object: the one list that each has, by which the owner of the
// bucket has every right. A request may set that list, and no other.
import { recordedChange } from '../../../audit/recorded-change.ts';
import { Refusal } from '../../../core/errors.ts';
import { emptyReply } from '../../http/reply.ts';
import { findAsked, versionHeaders } from '../asked-version.ts';
import { receiveSmall } from '../body.ts';
import { aclReply, allowsAcls, checkReach, readAcl } from '../buckets/acl.ts';
import { demandDigest } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const getBucketAcl: Operation<'bucket'> = {
  name: 'GetBucketAcl',
  action: 's3:GetBucketAcl',
  resource: 'bucket',
  price: 'get',
  run: async ({ bucket }) => aclReply(bucket),
};

/** It is taken where the ownership controls of the bucket allow lists. */
export const putBucketAcl: Operation<'bucket'> = {
  name: 'PutBucketAcl',
  action: 's3:PutBucketAcl',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax: 64 * 1024,
  async run(context) {
    await receiveAcl(context);
    // Of a bucket that allows none, S3 refuses each.
    if (!allowsAcls(context.bucket.ownership)) throw new Refusal('AccessControlListNotSupported');
    await context.commit({ kind: 'none' }, change);
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
    const reply = aclReply(context.bucket);
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
    await receiveAcl(context);
    const version = await findAsked(context, 'MethodNotAllowed');
    await context.commit({ kind: 'none' }, change);
    return emptyReply(200, versionHeaders(context.bucket, version));
  },
};

const change = { change: recordedChange({ acl: 'private' }) };

/** Throws `Refusal` for a list that gives others anything. */
async function receiveAcl(context: Reserved<'bucket'>): Promise<void> {
  const body = await receiveSmall(context);
  if (body.length > 0) demandDigest(context);
  checkReach(context.bucket, readAcl(context, body));
}
