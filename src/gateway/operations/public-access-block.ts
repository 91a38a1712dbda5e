// The public access block of a bucket: what it refuses to give everybody.
import { recordedChange } from '../../audit/recorded-change.ts';
import { Refusal } from '../../core/errors.ts';
import { receiveDocument } from '../demanded-digest.ts';
import type { Operation } from '../operation.ts';
import { parsePublicAccess, publicAccessElements } from '../public-access.ts';
import { emptyReply, type Reply, xmlReply } from '../reply.ts';
import type { Reserved } from '../stages.ts';

export const getPublicAccessBlock: Operation<'bucket'> = {
  name: 'GetPublicAccessBlock',
  action: 's3:GetBucketPublicAccessBlock',
  resource: 'bucket',
  price: 'get',
  bodyBytesMax: 0,
  run: get,
};

async function get({ bucket, askedName }: Reserved<'bucket'>): Promise<Reply> {
  const { publicAccess } = bucket;
  if (publicAccess) {
    return xmlReply('PublicAccessBlockConfiguration', publicAccessElements(publicAccess));
  }
  const fields = { BucketName: askedName };
  throw new Refusal('NoSuchPublicAccessBlockConfiguration', { fields });
}

const bodyBytesMax = 64 * 1024;

export const putPublicAccessBlock: Operation<'bucket'> = {
  name: 'PutPublicAccessBlock',
  action: 's3:PutBucketPublicAccessBlock',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax,
  run: put,
};

async function put(context: Reserved<'bucket'>): Promise<Reply> {
  const publicAccess = parsePublicAccess(await receiveDocument(context));
  const { id: bucketId } = context.bucket;
  const document = JSON.stringify(publicAccess);
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'publicAccess', document },
    { change: recordedChange({ publicAccess }) },
  );
  return emptyReply(200);
}

/** Deleting one that is not there succeeds. */
export const deletePublicAccessBlock: Operation<'bucket'> = {
  name: 'DeletePublicAccessBlock',
  action: 's3:PutBucketPublicAccessBlock',
  resource: 'bucket',
  price: 'free',
  bodyBytesMax: 0,
  run: remove,
};

async function remove(context: Reserved<'bucket'>): Promise<Reply> {
  const { id: bucketId } = context.bucket;
  await context.commit(
    { kind: 'putBucketSetting', bucketId, name: 'publicAccess', document: null },
    { status: 204, change: recordedChange({ publicAccess: null }) },
  );
  return emptyReply(204);
}
