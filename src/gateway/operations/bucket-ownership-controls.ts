// The ownership controls of a bucket: whether it and its objects may be given ACLs (acl.ts).
import { recordedChange } from '../../audit/recorded-change.ts';
import { Refusal } from '../../core/errors.ts';
import { enforced, noControls, parseOwnership } from '../acl.ts';
import { receiveDocument } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import { emptyReply, type Reply, xmlReply } from '../reply.ts';
import type { Reserved } from '../stages.ts';

/** As on S3, a new bucket has them, and says BucketOwnerEnforced. */
export const getBucketOwnershipControls: Operation<'bucket'> = {
  name: 'GetBucketOwnershipControls',
  action: 's3:GetBucketOwnershipControls',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run: get,
};

async function get({ bucket, askedName }: Reserved<'bucket'>): Promise<Reply> {
  const { ownership } = bucket;
  if (ownership === noControls) {
    const fields = { BucketName: askedName };
    throw new Refusal('OwnershipControlsNotFoundError', { fields });
  }
  const rule = { ObjectOwnership: ownership ?? enforced };
  return xmlReply('OwnershipControls', { Rule: rule });
}

const bodyBytesMax = 64 * 1024;

export const putBucketOwnershipControls: Operation<'bucket'> = {
  name: 'PutBucketOwnershipControls',
  action: 's3:PutBucketOwnershipControls',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax,
  run: put,
};

async function put(context: Reserved<'bucket'>): Promise<Reply> {
  const ownership = parseOwnership(await receiveDocument(context));
  const { id: bucketId } = context.bucket;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'ownership', document: ownership },
    { change: recordedChange({ ownership }) },
  );
  return emptyReply(200);
}

/** Deleting those that are not there succeeds. */
export const deleteBucketOwnershipControls: Operation<'bucket'> = {
  name: 'DeleteBucketOwnershipControls',
  action: 's3:PutBucketOwnershipControls',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run: remove,
};

async function remove(context: Reserved<'bucket'>): Promise<Reply> {
  const { id: bucketId } = context.bucket;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'ownership', document: noControls },
    { status: 204, change: recordedChange({ ownership: null }) },
  );
  return emptyReply(204);
}
