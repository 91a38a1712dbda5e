// The ACL of a bucket: the one list that every bucket has, by which its owner has every right.
import { recordedChange } from '../../../audit/recorded-change.ts';
import { Refusal } from '../../../core/errors.ts';
import { emptyReply, type Reply } from '../../http/reply.ts';
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
  run: get,
};

async function get({ bucket }: Reserved<'bucket'>): Promise<Reply> {
  return aclReply(bucket);
}

/** Takes that list only, where the ownership controls of the bucket allow lists. */
export const putBucketAcl: Operation<'bucket'> = {
  name: 'PutBucketAcl',
  action: 's3:PutBucketAcl',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax: 64 * 1024,
  run: put,
};

async function put(context: Reserved<'bucket'>): Promise<Reply> {
  const body = await receiveSmall(context);
  if (body.length > 0) demandDigest(context);
  const reach = readAcl(context, body);
  checkReach(context.bucket, reach);
  // Of a bucket that allows none, S3 refuses each.
  if (!allowsAcls(context.bucket.ownership)) throw new Refusal('AccessControlListNotSupported');
  await context.commit({ kind: 'none' }, { change: recordedChange({ acl: 'private' }) });
  return emptyReply(200);
}
