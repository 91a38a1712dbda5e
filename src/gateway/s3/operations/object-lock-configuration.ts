// The object lock of a bucket, and the retention that new versions in it have by default.
import { recordedChange } from '../../../audit/recorded-change.ts';
import { Refusal } from '../../../core/errors.ts';
import { emptyReply, type Reply, xmlReply } from '../../http/reply.ts';
import { receiveDocument } from '../demanded-digest.ts';
import { lockConfigurationElements, parseLockConfiguration } from '../objects/object-lock-xml.ts';
import type { Operation } from '../operation.ts';
import type { Reserved } from '../stages.ts';

export const getObjectLockConfiguration: Operation<'bucket'> = {
  name: 'GetObjectLockConfiguration',
  action: 's3:GetBucketObjectLockConfiguration',
  resource: 'bucket',
  price: 'get',
  run: get,
};

async function get({ bucket, askedName }: Reserved<'bucket'>): Promise<Reply> {
  if (bucket.objectLock) {
    return xmlReply('ObjectLockConfiguration', lockConfigurationElements(bucket.objectLock));
  }
  const fields = { BucketName: askedName };
  throw new Refusal('ObjectLockConfigurationNotFoundError', { fields });
}

/** Gives a bucket with versioning object lock, for ever, or another default retention. */
export const putObjectLockConfiguration: Operation<'bucket'> = {
  name: 'PutObjectLockConfiguration',
  action: 's3:PutBucketObjectLockConfiguration',
  resource: 'bucket',
  price: 'put',
  bodyBytesMax: 64 * 1024,
  run: put,
};

async function put(context: Reserved<'bucket'>): Promise<Reply> {
  const config = parseLockConfiguration(await receiveDocument(context));
  await context.commit(
    {
      kind: 'putBucketSetting',
      bucketId: context.bucket.id,
      name: 'objectLock',
      document: JSON.stringify(config),
    },
    { change: recordedChange({ objectLock: lockConfigurationElements(config) }) },
  );
  return emptyReply(200);
}
